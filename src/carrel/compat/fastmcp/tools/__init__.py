"""Tools of a server."""

from typing import TYPE_CHECKING

from carrel.compat.fastmcp.tools.result import ToolResult
from carrel.compat.fastmcp.tools.tool import FunctionTool, Tool, tool
from carrel.compat.lazy import lazily

__all__ = ["FunctionTool", "Tool", "ToolResult", "tool"]

TRANSFORMED = "write a function that calls the tool"

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {}, dict.fromkeys(("ArgTransform", "forward", "forward_raw"), TRANSFORMED))
