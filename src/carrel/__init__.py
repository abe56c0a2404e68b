"""Carrel: the Model Context Protocol (MCP) in Python, server and client, with a focus on resources.

    from carrel import Server

    app = Server("books")

    @app.resource("book://{author}/{title}")
    async def book(author: str, title: str) -> str: ...

    app.run()

The documentation is in docs/.
"""

import typing

from carrel.errors import MCPError, ToolError
from carrel.limits import Limits
from carrel.protocol import VERSION as __version__  # noqa: N811
from carrel.server.app import Server
from carrel.server.contents import Contents
from carrel.server.context import Context
from carrel.wire.base import Annotations, Icon, Implementation

if typing.TYPE_CHECKING:
    from carrel.client.client import Client

__all__ = [
    "Annotations",
    "Client",
    "Contents",
    "Context",
    "Icon",
    "Implementation",
    "Limits",
    "MCPError",
    "Server",
    "ToolError",
    "__version__",
]


def __getattr__(name: str) -> typing.Any:
    if name == "Client":  # imported late: servers do not need it
        from carrel.client.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
