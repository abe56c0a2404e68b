"""Registry of the tools of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from carrel.compat.loggers import get_logger
from carrel.compat.mcp.server.fastmcp.exceptions import ToolError
from carrel.compat.mcp.server.fastmcp.tools.base import Tool

__all__ = ["ToolManager"]

logger = get_logger(__name__)


class ToolManager:
    """Tools by name. The first tool of a name stays."""

    tool_type: type[Any] = Tool
    error: type[Exception] = ToolError

    def __init__(self, warn_on_duplicate_tools: bool = True, *, tools: list[Any] | None = None) -> None:
        self.warn_on_duplicate_tools = warn_on_duplicate_tools
        self._tools: dict[str, Any] = {}
        for tool in tools or ():
            if warn_on_duplicate_tools and tool.name in self._tools:
                logger.warning("Tool already exists: %s", tool.name)
            self._tools[tool.name] = tool

    def get_tool(self, name: str) -> Any:
        """Return a tool, or None."""
        return self._tools.get(name)

    def list_tools(self) -> list[Any]:
        """Return all tools, in the order of their registration."""
        return list(self._tools.values())

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, **details: Any) -> Any:
        """Register a function, unless there is a tool of that name."""
        tool = self.tool_type.from_function(fn, name, **details)
        known = self._tools.setdefault(tool.name, tool)
        if known is not tool and self.warn_on_duplicate_tools:
            logger.warning("Tool already exists: %s", tool.name)
        return known

    def remove_tool(self, name: str) -> None:
        """Remove a tool.

        Raises:
            ToolError: no tool has this name.
        """
        if self._tools.pop(name, None) is None:
            raise self.error(f"Unknown tool: {name}")

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Any = None, convert_result: bool = False
    ) -> Any:
        """Call a tool.

        Raises:
            ToolError: no tool has this name, the arguments are not valid, or the function failed.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise self.error(f"Unknown tool: {name}")
        return await tool.run(arguments, context=context, convert_result=convert_result)
