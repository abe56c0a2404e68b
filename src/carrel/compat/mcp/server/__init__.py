"""Servers: the face of ``mcp.server``."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

__all__ = ["FastMCP", "InitializationOptions", "NotificationOptions", "Server"]

NAMES = {
    "FastMCP": "fastmcp.server",
    "InitializationOptions": "models",
    "NotificationOptions": "lowlevel.server",
    "Server": "lowlevel.server",
    **{module: module for module in ("fastmcp", "lowlevel", "models", "session", "sse", "stdio", "streamable_http")},
    "streamable_http_manager": "streamable_http_manager",
    "transport_security": "transport_security",
}

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
