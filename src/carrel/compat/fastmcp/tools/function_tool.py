"""Tool of a function, where 3.x has it."""

from carrel.compat.fastmcp.tools.tool import FunctionTool, tool

__all__ = ["FunctionTool", "tool"]
