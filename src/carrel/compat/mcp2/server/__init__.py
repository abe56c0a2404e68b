"""Servers: the face of ``mcp.server`` 2."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

__all__ = ["CacheHint", "InitializationOptions", "MCPServer", "NotificationOptions", "Server", "ServerRequestContext"]

NAMES = {
    "CacheHint": "caching",
    "InitializationOptions": "models",
    "MCPServer": "mcpserver.server",
    "NotificationOptions": "lowlevel.server",
    "Server": "lowlevel.server",
    "ServerRequestContext": "context",
    **{module: module for module in ("caching", "context", "lowlevel", "mcpserver", "models", "session")},
}

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
