"""Middleware that keeps results of lists, calls, reads and prompts for a while."""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pydantic_core
from typing_extensions import TypedDict

from carrel.compat.fastmcp.server.dependencies import get_access_token
from carrel.compat.fastmcp.server.middleware.cached_results import decode_result, encode_result
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
    """Middleware that answers repeated requests from memory, or from ``cache_storage``: a store of ``key_value``.

    Callers with different tokens share no results, and no error is kept. Lists from a store have the fields of their
    items, but no functions.
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
        self._storage = cache_storage
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
        known, found = await self._find(key)
        if known:
            counts.hit += 1
            return found
        counts.miss += 1
        result = await call_next(context)
        if self._fits(result) and not getattr(result, "is_error", False):
            usual = LISTS_SECONDS if kind.startswith("list_") else RESULTS_SECONDS
            await self._keep(key, result, settings.get("ttl", usual))
            counts.put += 1
        return result

    async def _find(self, key: tuple[Any, ...]) -> tuple[bool, Any]:
        """Return whether there is a result that is not too old, and the result."""
        if self._storage is None:
            ends, found = self._kept.get(key, (0.0, None))
            return ends > time.monotonic(), found
        value = await self._storage.get(key=_digest(key), collection=key[0])
        return value is not None, None if value is None else decode_result(key[0], value)

    async def _keep(self, key: tuple[Any, ...], result: Any, seconds: float) -> None:
        if self._storage is not None:
            value = encode_result(key[0], result)
            await self._storage.put(key=_digest(key), value=value, collection=key[0], ttl=seconds)
            return
        self._kept[key] = time.monotonic() + seconds, result
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_ITEMS:
            self._kept.popitem(last=False)

    def _fits(self, result: Any) -> bool:
        return len(pydantic_core.to_json(result, fallback=str, bytes_mode="base64")) <= self._most

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


def _text(arguments: dict[str, Any] | None) -> str:
    """Return arguments as JSON, the same for each order of their members."""
    return json.dumps(pydantic_core.to_jsonable_python(arguments, fallback=str), sort_keys=True)


def _digest(key: tuple[Any, ...]) -> str:
    """Return the key of a result in a store, which tells neither arguments nor tokens."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()
