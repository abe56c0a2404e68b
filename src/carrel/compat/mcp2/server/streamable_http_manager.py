"""Streamable HTTP of a server, as an ASGI endpoint: the same in both generations."""

from carrel.compat.mcp.server.fastmcp.apps import StreamableHTTPASGIApp
from carrel.compat.mcp.server.streamable_http_manager import StreamableHTTPSessionManager

__all__ = [
    "DEFAULT_MAX_REQUEST_BODY_SIZE",
    "DEFAULT_MAX_SESSIONS",
    "DEFAULT_SESSION_IDLE_TIMEOUT",
    "StreamableHTTPASGIApp",
    "StreamableHTTPSessionManager",
]

DEFAULT_MAX_REQUEST_BODY_SIZE = 4 * 1024 * 1024
DEFAULT_MAX_SESSIONS = 10_000
DEFAULT_SESSION_IDLE_TIMEOUT = 1800.0
