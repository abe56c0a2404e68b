"""Provider whose items are results of the handlers of a mirrored server, for its own catalog and outer servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from carrel.catalog.provider import Page, Provider, Request
from carrel.compat.wire import struct_of
from carrel.wire.base import PageResult
from carrel.wire.prompts import GetPromptResult, ListPromptsResult, Prompt
from carrel.wire.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from carrel.wire.tools import CallToolResult, ListToolsResult, Tool

__all__ = ["HandlersProvider"]

CALLS = ("call_tool", "get_prompt", "read_resource")
S = TypeVar("S", bound=PageResult)
T = TypeVar("T")


class Answering(Protocol):
    """Interface of a server with handlers."""

    def handles(self, operation: str) -> bool:
        """Return whether there is a handler for an operation."""

    async def ask(self, operation: str, params: Mapping[str, Any], request: Request) -> bytes:
        """Call the handler of an operation, and return its result as JSON."""


class Everything:
    """Names of tools or prompts, of which the handlers alone know which there are."""

    def __contains__(self, name: object) -> bool:
        return True


class HandlersProvider(Provider):
    """Provider of the items that handlers return."""

    catch_all = True
    tool_names = prompt_names = Everything()

    def __init__(self, app: Answering) -> None:
        self.name = "handlers"
        self._app = app

    def offers(self, method: str) -> bool:
        """Return whether there is a handler for a method; a call without one is refused by the server itself."""
        operation = {"list_templates": "list_resource_templates"}.get(method, method)
        return operation in CALLS or self._app.handles(operation)

    async def _page(
        self, operation: str, request: Request, result: type[S], items: Callable[[S], Sequence[T]]
    ) -> Page[T]:
        if request.call is None:
            return Page(())  # the catalog wants to know before any client asks, and handlers answer clients
        params = {} if request.cursor is None else {"cursor": request.cursor}
        found = struct_of(await self._app.ask(operation, params, request), result)
        return Page(items(found), found.next_cursor)

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return the handler's list."""
        return await self._page("list_resources", request, ListResourcesResult, lambda found: found.resources)

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return the handler's list."""
        return await self._page(
            "list_resource_templates", request, ListResourceTemplatesResult, lambda found: found.resource_templates
        )

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return the handler's list."""
        return await self._page("list_tools", request, ListToolsResult, lambda found: found.tools)

    async def list_prompts(self, request: Request) -> Page[Prompt]:
        """Return the handler's list."""
        return await self._page("list_prompts", request, ListPromptsResult, lambda found: found.prompts)

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return the handler's contents."""
        return struct_of(await self._app.ask("read_resource", {"uri": uri}, request), ReadResourceResult)

    async def call_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> CallToolResult:
        """Return the result of the handler."""
        params = {"name": name, "arguments": msgspec.json.decode(arguments)}
        return struct_of(await self._app.ask("call_tool", params, request), CallToolResult)

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> GetPromptResult:
        """Return the messages of the handler."""
        params = {"name": name, "arguments": dict(arguments)}
        return struct_of(await self._app.ask("get_prompt", params, request), GetPromptResult)
