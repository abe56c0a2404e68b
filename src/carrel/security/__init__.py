"""Authorization of HTTP servers: access tokens of an authorization server (OAuth 2.1), or static tokens from a file.

    app.run("http", authorization=Authorization(issuer="https://auth.example.org", resource="https://mcp.example.org/mcp"))

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from carrel.protocol.principal import Principal
from carrel.security.server.introspection import Introspection
from carrel.security.server.jwt import Authorization
from carrel.security.server.static_tokens import StaticTokens

__all__ = ["Authorization", "Introspection", "Principal", "StaticTokens"]
