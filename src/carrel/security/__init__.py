"""Authorization of HTTP servers: access tokens of an authorization server (OAuth 2.1), or static tokens from a file.

    app.run("http", authorization=Authorization(issuer="https://auth.example.org", resource="https://mcp.example.org/mcp"))

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from carrel.protocol.principal import Principal
from carrel.security.server.introspection import Introspection
from carrel.security.server.jwt import Authorization
from carrel.security.server.static_tokens import StaticTokens

if TYPE_CHECKING:
    from carrel.security.server.proxy.proxy import OAuthProxy

__all__ = ["Authorization", "Introspection", "OAuthProxy", "Principal", "StaticTokens"]


def __getattr__(name: str) -> Any:
    if name == "OAuthProxy":  # an authorization server is more than most servers need
        return import_module("carrel.security.server.proxy.proxy").OAuthProxy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
