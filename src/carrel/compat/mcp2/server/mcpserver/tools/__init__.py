"""Tools of a server."""

from carrel.compat.mcp2.server.mcpserver.tools.base import Tool
from carrel.compat.mcp2.server.mcpserver.tools.tool_manager import ToolManager

__all__ = ["Tool", "ToolManager"]
