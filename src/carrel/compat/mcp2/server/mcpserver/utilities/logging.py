"""Logging of servers: the same in both generations."""

from carrel.compat.mcp.server.fastmcp.utilities.logging import configure_logging, get_logger

__all__ = ["configure_logging", "get_logger"]
