"""The application of the conversations about skills: those in ``shelf``, two on a page."""

from __future__ import annotations

from pathlib import Path

from carrel import Server
from carrel.server import watching

SHELF = Path(__file__).parent / "shelf"


def build() -> Server:
    """Make the application."""
    app = Server("golden", version="1.0", page_size=2, ttl=60, scope="public")
    app.skills(SHELF)
    app.resources.add("memo://plain", "Plain text.", name="plain")
    return app


if __name__ == "__main__":
    watching.LIST_PATIENCE = 60.0  # as in tests in one process
    build().run()
