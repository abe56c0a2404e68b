"""Mirror of the package ``mcp`` 2.x. Names are imported on first use."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily
from carrel.compat.mcp import TYPES

NAMES = {
    "Client": "client.client",
    "ClientSession": "client.session",
    "ClientSessionGroup": "client.session_group",
    "InputRequiredRoundsExceededError": "client._input_required",
    "InvalidUriTemplate": "shared.uri_template",
    "MCPDeprecationWarning": "shared.exceptions",
    "MCPError": "shared.exceptions",
    "SamplingRole": "client.names",
    "ServerSession": "server.session",
    "StdioServerParameters": "carrel.compat.mcp.client.stdio",
    "UriTemplate": "shared.uri_template",
    "UrlElicitationRequiredError": "shared.exceptions",
    "stdio_client": "carrel.compat.mcp.client.stdio",
    "stdio_server": "carrel.compat.mcp.server.stdio",
    **dict.fromkeys(TYPES, "types"),
    **{module: module for module in ("client", "server", "shared", "types")},
}

__all__ = sorted(NAMES)

if TYPE_CHECKING:
    from carrel.compat.mcp2 import types as types
else:
    __getattr__ = lazily(__name__, NAMES)
