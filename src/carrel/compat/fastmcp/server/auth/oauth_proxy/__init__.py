"""OAuth proxy: authorization server for MCP clients in front of one without dynamic registration."""

from carrel.compat.fastmcp.server.auth.oauth_proxy.proxy import OAuthProxy

__all__ = ["OAuthProxy"]
