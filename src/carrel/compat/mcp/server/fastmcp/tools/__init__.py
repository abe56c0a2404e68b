"""Tools of a server."""

from carrel.compat.mcp.server.fastmcp.tools.base import Tool
from carrel.compat.mcp.server.fastmcp.tools.tool_manager import ToolManager

__all__ = ["Tool", "ToolManager"]
