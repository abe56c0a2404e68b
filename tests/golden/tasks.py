"""The application of the golden conversations about tasks."""

from __future__ import annotations

from carrel import Context, Server
from carrel.errors import InvalidParams


def build() -> Server:
    """Make the application."""
    app = Server("golden", version="1.0")

    @app.tool(task="optional")
    async def confirm(context: Context) -> str:
        """Ask, and say what was answered."""
        answer = await context.elicit("Sure?", bool)
        return f"{answer.action} {answer.data}"

    @app.tool(task="required")
    async def refuse() -> str:
        """End with an error of the protocol."""
        raise InvalidParams("Invalid params: never")

    return app


if __name__ == "__main__":
    build().run()
