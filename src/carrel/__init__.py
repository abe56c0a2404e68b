"""Carrel: the Model Context Protocol (MCP) in Python, server and client, with a focus on resources.

    from carrel import Server

    app = Server("books")

    @app.resource("book://{author}/{title}")
    async def book(author: str, title: str) -> str: ...

    app.run()

The documentation is in docs/.
"""

import importlib
import typing

from carrel.errors import MCPError, ToolError
from carrel.limits import Limits
from carrel.protocol import VERSION as __version__  # noqa: N811
from carrel.wire.base import Annotations, Icon, Implementation

if typing.TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.server.app import Server
    from carrel.server.contents import Contents
    from carrel.server.context import Context
    from carrel.server.dependencies import Depends
    from carrel.server.media import Audio, File, Image

__all__ = [
    "Annotations",
    "Audio",
    "Client",
    "Contents",
    "Context",
    "Depends",
    "File",
    "Icon",
    "Image",
    "Implementation",
    "Limits",
    "MCPError",
    "Server",
    "ToolError",
    "__version__",
]


#: Modules that are imported when they are first used: a client needs no server, and a server no client.
_LATE = {
    "Audio": "carrel.server.media",
    "Client": "carrel.client.client",
    "Contents": "carrel.server.contents",
    "Context": "carrel.server.context",
    "Depends": "carrel.server.dependencies",
    "File": "carrel.server.media",
    "Image": "carrel.server.media",
    "Server": "carrel.server.app",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_LATE[name]), name)
    globals()[name] = found
    return found
