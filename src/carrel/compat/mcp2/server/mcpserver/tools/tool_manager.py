"""Tools of a server by name."""

from carrel.compat.mcp.server.fastmcp.tools.tool_manager import ToolManager as FirstToolManager
from carrel.compat.mcp2.server.mcpserver.exceptions import ToolError
from carrel.compat.mcp2.server.mcpserver.tools.base import Tool

__all__ = ["ToolManager"]


class ToolManager(FirstToolManager):
    """Tools by name. The first tool of a name stays."""

    tool_type, error = Tool, ToolError
