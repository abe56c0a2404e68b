"""Middleware that keeps results of lists, calls, reads and prompts for a while."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pydantic_core
from typing_extensions import TypedDict

from carrel.compat.fastmcp.server.dependencies import get_access_token
from carrel.compat.fastmcp.server.middleware.middleware import Middleware

__all__ = [
    "CallToolSettings",
    "GetPromptSettings",
    "ListPromptsSettings",
    "ListResourcesSettings",
    "ListToolsSettings",
    "ReadResourceSettings",
    "ResponseCachingMiddleware",
    "ResponseCachingStatistics",
]

LISTS_SECONDS, RESULTS_SECONDS = 300.0, 3600.0
MAX_ITEMS = 10_000


class CallToolSettings(TypedDict, total=False):
    """Seconds to keep results, whether to keep them at all, and of which tools."""

    ttl: float
    enabled: bool
    included_tools: list[str]
    excluded_tools: list[str]


class ListToolsSettings(TypedDict, total=False):
    """Seconds to keep results, and whether to keep them at all."""

    ttl: float
    enabled: bool


ListResourcesSettings = ListPromptsSettings = ReadResourceSettings = GetPromptSettings = ListToolsSettings


@dataclass
class Counts:
    """Number of requests that were answered from the cache (hits) or not (misses), and of results that were kept."""

    hit: int = 0
    miss: int = 0
    put: int = 0


@dataclass
class ResponseCachingStatistics:
    """Counts by kind of request."""

    list_tools: Counts = field(default_factory=Counts)
    list_resources: Counts = field(default_factory=Counts)
    list_prompts: Counts = field(default_factory=Counts)
    read_resource: Counts = field(default_factory=Counts)
    get_prompt: Counts = field(default_factory=Counts)
    call_tool: Counts = field(default_factory=Counts)


class ResponseCachingMiddleware(Middleware):
    """Middleware that answers repeated requests from memory. Callers with different tokens share no results.

    Raises:
        NotImplementedError: ``cache_storage`` is given.
    """

    def __init__(
        self,
        cache_storage: Any = None,
        list_tools_settings: ListToolsSettings | None = None,
        list_resources_settings: ListToolsSettings | None = None,
        list_prompts_settings: ListToolsSettings | None = None,
        read_resource_settings: ListToolsSettings | None = None,
        get_prompt_settings: ListToolsSettings | None = None,
        call_tool_settings: CallToolSettings | None = None,
        max_item_size: int = 1024 * 1024,
    ) -> None:
        if cache_storage is not None:
            raise NotImplementedError(
                "cache_storage is not mirrored by carrel.compat: results are kept in memory; leave it out"
            )
        self._settings: dict[str, Mapping[str, Any]] = {
            "list_tools": list_tools_settings or {},
            "list_resources": list_resources_settings or {},
            "list_prompts": list_prompts_settings or {},
            "read_resource": read_resource_settings or {},
            "get_prompt": get_prompt_settings or {},
            "call_tool": call_tool_settings or {},
        }
        self._most = max_item_size
        self._kept: OrderedDict[tuple[Any, ...], tuple[float, Any]] = OrderedDict()
        self._counts = ResponseCachingStatistics()

    def statistics(self) -> ResponseCachingStatistics:
        """Return the counts."""
        return self._counts

    async def _cached(self, kind: str, context: Any, call_next: Any, *what: Any) -> Any:
        settings = self._settings[kind]
        if settings.get("enabled") is False:
            return await call_next(context)
        counts: Counts = getattr(self._counts, kind)
        token = get_access_token()
        key = (kind, getattr(token, "token", None), *what)
        ends, found = self._kept.get(key, (0.0, None))
        if ends > time.monotonic():
            counts.hit += 1
            return found
        counts.miss += 1
        result = await call_next(context)
        if self._fits(result):
            usual = LISTS_SECONDS if kind.startswith("list_") else RESULTS_SECONDS
            self._kept[key] = time.monotonic() + settings.get("ttl", usual), result
            self._kept.move_to_end(key)
            counts.put += 1
            while len(self._kept) > MAX_ITEMS:
                self._kept.popitem(last=False)
        return result

    def _fits(self, result: Any) -> bool:
        return len(pydantic_core.to_json(result, fallback=str)) <= self._most

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        """Handle a list of tools."""
        return await self._cached("list_tools", context, call_next)

    async def on_list_resources(self, context: Any, call_next: Any) -> Any:
        """Handle a list of resources."""
        return await self._cached("list_resources", context, call_next)

    async def on_list_prompts(self, context: Any, call_next: Any) -> Any:
        """Handle a list of prompts."""
        return await self._cached("list_prompts", context, call_next)

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        """Handle a call of a tool."""
        name, settings = context.message.name, self._settings["call_tool"]
        included, excluded = settings.get("included_tools"), settings.get("excluded_tools") or ()
        if (included and name not in included) or name in excluded:
            return await call_next(context)
        return await self._cached("call_tool", context, call_next, name, _text(context.message.arguments))

    async def on_read_resource(self, context: Any, call_next: Any) -> Any:
        """Handle a read."""
        return await self._cached("read_resource", context, call_next, str(context.message.uri))

    async def on_get_prompt(self, context: Any, call_next: Any) -> Any:
        """Handle a prompt."""
        message = context.message
        return await self._cached("get_prompt", context, call_next, message.name, _text(message.arguments))


def _text(arguments: dict[str, Any] | None) -> bytes:
    return pydantic_core.to_json(arguments, fallback=str)
