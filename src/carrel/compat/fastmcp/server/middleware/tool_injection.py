"""Middleware that adds tools to a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from carrel.compat.fastmcp.server.context import Context
from carrel.compat.fastmcp.server.middleware.middleware import Middleware
from carrel.compat.fastmcp.tools.tool import Tool

__all__ = ["PromptToolMiddleware", "ResourceToolMiddleware", "ToolInjectionMiddleware"]


class ToolInjectionMiddleware(Middleware):
    """Middleware that lists its tools before the others, and calls them."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    @property
    def injected_tools(self) -> Sequence[Tool]:
        """The tools."""
        return list(self._tools.values())

    def get_injected_tool(self, name: str) -> Tool | None:
        """Return one of the tools, or None."""
        return self._tools.get(name)

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        """Handle a list of tools."""
        return [*self._tools.values(), *(each for each in await call_next(context) if each.name not in self._tools)]

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        """Handle a call of a tool."""
        tool = self._tools.get(context.message.name)
        return await call_next(context) if tool is None else await tool.run(context.message.arguments or {})


async def _list_prompts(context: Context) -> Any:
    return await context.list_prompts()


async def _get_prompt(
    context: Context,
    name: Annotated[str, "The name of the prompt to render."],
    arguments: Annotated[dict[str, Any] | None, "The arguments to pass to the prompt."] = None,
) -> Any:
    return await context.get_prompt(name, arguments)


async def _list_resources(context: Context) -> Any:
    return await context.list_resources()


async def _read_resource(context: Context, uri: Annotated[str, "The URI of the resource to read."]) -> Any:
    return await context.read_resource(uri)


class PromptToolMiddleware(ToolInjectionMiddleware):
    """Middleware with tools that list and get the prompts of the server."""

    def __init__(self) -> None:
        functions: dict[str, Any] = {"list_prompts": _list_prompts, "get_prompt": _get_prompt}
        super().__init__([Tool.from_function(each, name=name) for name, each in functions.items()])


class ResourceToolMiddleware(ToolInjectionMiddleware):
    """Middleware with tools that list and read the resources of the server."""

    def __init__(self) -> None:
        functions: dict[str, Any] = {"list_resources": _list_resources, "read_resource": _read_resource}
        super().__init__([Tool.from_function(each, name=name) for name, each in functions.items()])
