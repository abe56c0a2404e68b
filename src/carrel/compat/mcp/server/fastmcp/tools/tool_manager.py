"""Tools of a server by name."""

from carrel.compat import managers
from carrel.compat.mcp.server.fastmcp.exceptions import ToolError
from carrel.compat.mcp.server.fastmcp.tools.base import Tool

__all__ = ["ToolManager"]


class ToolManager(managers.ToolManager):
    """Tools by name. The first tool of a name stays."""

    tool_type, error = Tool, ToolError
