"""Tools of a server by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from carrel.compat.mcp2.server.mcpserver.context import Context
from carrel.compat.mcp2.server.mcpserver.exceptions import ToolError
from carrel.compat.mcp2.server.mcpserver.tools.base import Tool
from carrel.compat.mcp2.shared.logging import get_logger

__all__ = ["ToolManager"]

logger = get_logger(__name__)


class ToolManager:
    """Tools by name. The first tool of a name stays."""

    def __init__(self, warn_on_duplicate_tools: bool = True, *, tools: list[Tool] | None = None) -> None:
        self.warn_on_duplicate_tools = warn_on_duplicate_tools
        self._tools: dict[str, Tool] = {}
        for tool in tools or ():
            if warn_on_duplicate_tools and tool.name in self._tools:
                logger.warning("Tool already exists: %s", tool.name)
            self._tools[tool.name] = tool

    def get_tool(self, name: str) -> Tool | None:
        """Return a tool; None if there is no such tool."""
        return self._tools.get(name)

    def list_tools(self) -> list[Tool]:
        """Return all tools, in the order of their registration."""
        return list(self._tools.values())

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, **details: Any) -> Tool:
        """Register a function, unless there is a tool of that name."""
        tool = Tool.from_function(fn, name, **details)
        known = self._tools.setdefault(tool.name, tool)
        if known is not tool and self.warn_on_duplicate_tools:
            logger.warning("Tool already exists: %s", tool.name)
        return known

    def remove_tool(self, name: str) -> None:
        """Remove a tool.

        Raises:
            ToolError: there is no such tool.
        """
        if self._tools.pop(name, None) is None:
            raise ToolError(f"Unknown tool: {name}")

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> Any:
        """Call a tool.

        Raises:
            ToolError: there is no such tool, or it failed.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"Unknown tool: {name}")
        return await tool.run(arguments, context, convert_result=convert_result)
