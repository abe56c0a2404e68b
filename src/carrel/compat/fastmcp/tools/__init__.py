"""Tools of a server."""

from carrel.compat.fastmcp.tools.result import ToolResult
from carrel.compat.fastmcp.tools.tool import FunctionTool, Tool, tool
from carrel.compat.fastmcp.tools.tool_transform import ArgTransform, forward, forward_raw

__all__ = ["ArgTransform", "FunctionTool", "Tool", "ToolResult", "forward", "forward_raw", "tool"]
