"""Low-level server: a handler for each method."""

from carrel.compat.mcp2.server.lowlevel.server import NotificationOptions, Server

__all__ = ["NotificationOptions", "Server"]
