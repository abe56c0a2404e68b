"""Server on stdio whose tools are for agents: sums, pictures, failures, two calls that meet, and a list that grows.

python agent_tools.py NAME
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from carrel import Context, Image, Server, ToolError

PNG = b"\x89PNG\r\n\x1a\n picture"


def make(name: str) -> Server:
    app = Server(name)
    app.resources.add("note://lamp", "Buy a lamp", mime_type="text/plain")
    together = asyncio.Barrier(2)

    @app.tool
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    @app.tool
    def who() -> str:
        """Return the name of the server."""
        return name

    @app.tool
    def pid() -> int:
        """Return the id of the process."""
        return os.getpid()

    @app.tool
    def picture() -> list[Any]:
        """Return a picture with a line of text."""
        return ["a lamp", Image(PNG, "png")]

    @app.tool
    def refuse(config: str, run_manager: str = "", self_: int = 0) -> str:
        """Fail with a message. Its arguments have names that frameworks use themselves."""
        raise ToolError(f"No {config} here; try a lamp.")

    @app.tool
    async def meet(number: int, context: Context) -> str:
        """Wait until two calls are here at the same time; report progress before that."""
        await context.report_progress(0)
        await asyncio.wait_for(together.wait(), 60)
        return f"met {number}"

    @app.tool
    def grow() -> str:
        """Add a tool."""

        @app.tool
        def grown() -> str:
            return "new"

        return "grown"

    return app


if __name__ == "__main__":
    make(sys.argv[1]).run()
