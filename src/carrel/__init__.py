"""Carrel: the Model Context Protocol in Python, with resources at its heart.

    from carrel import Server

    app = Server("books")

    @app.resource("book://{author}/{title}")
    async def book(author: str, title: str) -> str: ...

    app.run()

What else there is, is in the documentation under docs/.
"""

from carrel.errors import MCPError
from carrel.server.app import Server
from carrel.server.contents import Contents
from carrel.server.context import Context
from carrel.wire.base import Annotations, Icon, Implementation

__all__ = ["Annotations", "Contents", "Context", "Icon", "Implementation", "MCPError", "Server", "__version__"]

__version__ = "0.1.0"
