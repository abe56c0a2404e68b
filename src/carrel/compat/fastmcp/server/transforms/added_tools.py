"""Transform that adds tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from carrel.compat.fastmcp.server.transforms.transform import GetToolNext, Transform
from carrel.compat.fastmcp.tools.tool import Tool
from carrel.compat.fastmcp.utilities.versions import VersionSpec

__all__ = ["AddedTools"]


class AddedTools(Transform):
    """Transform of a server that adds tools after the others.

    Raises:
        TypeError: the provider is not a server.
    """

    def __init__(self, provider: Any, tools: Sequence[Tool]) -> None:
        if not hasattr(provider, "_mcp_server"):
            raise TypeError(
                f"{type(self).__name__} requires a FastMCP server instance, not a {type(provider).__name__}. "
                "The tools run inside of the server's middleware."
            )
        self._provider = provider
        self._added = {tool.name: tool for tool in tools}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._provider!r})"

    async def list_tools(self, tools: Sequence[Any], /) -> Sequence[Any]:
        """Return the tools with the added ones."""
        return [*tools, *self._added.values()]

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Any:
        """Return an added tool, or one of the others."""
        return self._added.get(name) or await call_next(name, version=version)
