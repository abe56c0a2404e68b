"""Mixin whose methods are tools, resources and prompts of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from carrel.compat.fastmcp.prompts.prompt import Prompt
from carrel.compat.fastmcp.resources.resource import Resource
from carrel.compat.fastmcp.tools.tool import Tool

__all__ = ["MCPMixin", "mcp_prompt", "mcp_resource", "mcp_tool"]

MARK = "_mcp_registration"


def _mark(kind: str, details: dict[str, Any]) -> Callable[[Any], Any]:
    def decorator(method: Any) -> Any:
        given = {**details, "name": details.get("name") or method.__name__}
        setattr(method, MARK, {**getattr(method, MARK, {}), kind: given})
        return method

    return decorator


def mcp_tool(name: str | None = None, *, enabled: bool | None = None, **details: Any) -> Callable[[Any], Any]:
    """Mark a method as a tool."""
    return _mark("tool", {"name": name, "enabled": enabled, **details})


def mcp_resource(
    uri: str, *, name: str | None = None, enabled: bool | None = None, **details: Any
) -> Callable[[Any], Any]:
    """Mark a method as a resource."""
    return _mark("resource", {"uri": uri, "name": name, "enabled": enabled, **details})


def mcp_prompt(name: str | None = None, *, enabled: bool | None = None, **details: Any) -> Callable[[Any], Any]:
    """Mark a method as a prompt."""
    return _mark("prompt", {"name": name, "enabled": enabled, **details})


class MCPMixin:
    """Base class of objects whose marked methods are registered with a server."""

    def _marked(self, kind: str, prefix: str | None, separator: str) -> list[tuple[Any, dict[str, Any]]]:
        found = []
        for attribute in dir(self):
            method = getattr(self, attribute, None)
            details = dict(getattr(method, MARK, {}).get(kind, {}))
            if details and details.pop("enabled", None) is not False:
                if prefix:
                    names = [key for key in ("name", "uri") if key in details]
                    details.update({key: f"{prefix}{separator}{details[key]}" for key in names})
                found.append((method, details))
        return found

    def register_tools(self, mcp_server: Any, prefix: str | None = None, separator: str = "_") -> None:
        """Register the tools."""
        for method, details in self._marked("tool", prefix, separator):
            mcp_server.add_tool(Tool.from_function(method, **details))

    def register_resources(self, mcp_server: Any, prefix: str | None = None, separator: str = "+") -> None:
        """Register the resources."""
        for method, details in self._marked("resource", prefix, separator):
            mcp_server.add_resource(Resource.from_function(method, **details))

    def register_prompts(self, mcp_server: Any, prefix: str | None = None, separator: str = "_") -> None:
        """Register the prompts."""
        for method, details in self._marked("prompt", prefix, separator):
            mcp_server.add_prompt(Prompt.from_function(method, **details))

    def register_all(
        self,
        mcp_server: Any,
        prefix: str | None = None,
        tool_separator: str = "_",
        resource_separator: str = "+",
        prompt_separator: str = "_",
    ) -> None:
        """Register tools, resources and prompts."""
        self.register_tools(mcp_server, prefix, tool_separator)
        self.register_resources(mcp_server, prefix, resource_separator)
        self.register_prompts(mcp_server, prefix, prompt_separator)
