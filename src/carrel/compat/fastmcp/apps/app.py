"""FastMCPApp: a provider with the tools that open an app, and the tools that the app calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from carrel.compat.fastmcp.apps.prefab import PLACEHOLDER
from carrel.compat.fastmcp.server.providers.addressing import TOOL_HASH_META_KEY, hash_tool
from carrel.compat.fastmcp.server.providers.local_provider import LocalProvider, decorate
from carrel.compat.fastmcp.server.server import FastMCP
from carrel.compat.fastmcp.tools.tool import Tool

__all__ = ["FastMCPApp"]


class FastMCPApp(LocalProvider):
    """Provider of an app: add it to a server, or run it alone."""

    def __init__(self, name: str) -> None:
        super().__init__(on_duplicate="error")
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def tool(self, name_or_fn: Any = None, *, name: str | None = None, model: bool = False, **details: Any) -> Any:
        """Register the decorated function as a tool that the app calls, and with ``model`` the model too.

        Raises:
            TypeError: the argument is neither a name nor a function, or there are two names.
        """
        return self._decorator(
            "tool", name_or_fn, name, {"visibility": ["app", "model"] if model else ["app"]}, details
        )

    def ui(self, name_or_fn: Any = None, *, name: str | None = None, **details: Any) -> Any:
        """Register the decorated function as a tool that opens the app.

        Raises:
            TypeError: the argument is neither a name nor a function, or there are two names.
        """
        return self._decorator("ui", name_or_fn, name, {"resourceUri": PLACEHOLDER, "visibility": ["model"]}, details)

    def _decorator(self, kind: str, given: Any, name: str | None, ui: dict[str, Any], details: dict[str, Any]) -> Any:
        def add(function: Callable[..., Any], named: str | None) -> Tool:
            return self.add_tool(Tool.from_function(function, name=named, meta={"ui": ui}, **details))

        return decorate(kind, given, name, add, self.add_tool)

    def add_tool(self, tool: Tool | Callable[..., Any]) -> Tool:
        """Register a tool or a function. Without a declaration, only the app calls it."""
        added = Tool.ensure_tool(tool)
        meta = added.meta or {}
        own = {**meta.get("fastmcp", {}), "app": self.name, TOOL_HASH_META_KEY: hash_tool(self.name, added.name)}
        added.meta = {**meta, "fastmcp": own, "ui": {"visibility": ["app"], **meta.get("ui", {})}}
        return super().add_tool(added)

    def run(self, transport: Any = None, **options: Any) -> None:
        """Serve the app alone."""
        server: FastMCP[Any] = FastMCP(self.name)
        server.add_provider(self)
        server.run(transport, **options)
