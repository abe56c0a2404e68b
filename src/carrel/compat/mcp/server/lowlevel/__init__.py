"""Server whose author answers each request with a handler."""

from carrel.compat.mcp.server.lowlevel.server import NotificationOptions, Server

__all__ = ["NotificationOptions", "Server"]
