"""Cached and indexed lists of tools, as each caller sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

from carrel.awaitables import resolved
from carrel.catalog.paging import ListMethod
from carrel.catalog.provider import Request
from carrel.catalog.tool_pages import for_models, shows_pages
from carrel.errors import InvalidCursor
from carrel.gateway.tool_index import ToolIndex
from carrel.vendors.token_estimate import tokens_of_tools
from carrel.wire.tools import Tool, ToolAnnotations

__all__ = ["ToolList", "ToolLists"]

#: Number of entries per page to request.
PAGE = 1000
#: Seconds for which a list without a time to live is cached.
KEPT_SECONDS = 300.0
#: Maximum number of cached lists. Callers may see different tools, and so have different lists.
MAX_LISTS = 32


class ToolList:
    """Tools that a caller may list: tools in ``listed`` stay in the list, tools in ``index`` can be searched for.

    ``ttl`` and ``scope`` are the time to live (seconds) and cache scope of the list, as in ``Page``.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        listed: Sequence[Tool],
        ttl: float | None,
        scope: Literal["public", "private"] | None,
        before: ToolIndex | None = None,
    ) -> None:
        self.all = tools
        self.listed = listed
        self.ttl = ttl
        self.scope = scope
        self.index = ToolIndex((tool for tool in tools if for_models(_ui(tool))), before)
        self.annotations = _combined(tool for tool in self.index.tools)
        self._tokens: int | None = None

    @property
    def tokens(self) -> int:
        """Estimated number of tokens that all tools would take in the context of a model."""
        if self._tokens is None:
            self._tokens = tokens_of_tools(self.index.tools)
        return self._tokens

    def savings(self, own: Sequence[Tool]) -> str:
        """Return a text about the tokens that a model saves if it gets the listed tools and ``own`` instead of all
        tools.
        """
        listed = [tool for tool in self.listed if for_models(_ui(tool))]
        shown = tokens_of_tools([*listed, *own])
        share = 100 * (1 - shown / self.tokens) if self.tokens else 0
        less = f"{int(share)} % less" if shown < self.tokens else "which saves nothing"
        listed_ones = f"{len(listed) + len(own)} tools in place of {len(self.index)} are listed"
        return f"{listed_ones}: about {shown} tokens in place of {self.tokens}, {less}"


class ToolLists:
    """Cache of a provider's tool lists, by caller. ``is_listed`` returns whether a tool stays listed."""

    def __init__(self, method: ListMethod[Tool], is_listed: Callable[[Tool], bool]) -> None:
        self._method = method
        self._is_listed = is_listed
        self._kept: dict[tuple[object, ...], tuple[ToolList, float]] = {}
        self._last: ToolList | None = None
        self._changes = 0

    def forget(self) -> None:
        """Clear the cache, as the tools have changed. Thread-safe."""
        self._changes += 1
        self._kept.clear()

    async def read(self, request: Request) -> ToolList:
        """Return the tools that the caller of a request may list."""
        now = asyncio.get_running_loop().time()
        shared, own = _keys(request)
        for key in (shared, own):
            kept = self._kept.get(key)
            if kept is not None and now < kept[1]:
                return kept[0]
        changes = self._changes
        found = await self._read(request)
        seconds = KEPT_SECONDS if found.ttl is None else found.ttl
        key = shared
        if found.scope == "private":
            key, seconds = own, found.ttl or 0
        if changes == self._changes and seconds > 0:
            self._kept.pop(key, None)
            self._kept[key] = found, now + seconds
            while len(self._kept) > MAX_LISTS:
                self._kept.pop(next(iter(self._kept)))
        self._last = found
        return found

    async def _read(self, request: Request) -> ToolList:
        tools: list[Tool] = []
        ttl: list[float] = []
        scopes: set[str | None] = set()
        cursor, seen = None, set[str]()
        while True:
            page = await resolved(self._method(request.page(cursor, PAGE)))
            tools += page.items
            ttl += [] if page.ttl is None else [page.ttl]
            scopes.add(page.scope)
            cursor = page.next_cursor
            if cursor is None:
                break
            if cursor in seen:
                raise InvalidCursor("The list repeats a cursor")
            seen.add(cursor)
        scope: Literal["public", "private"] | None = "public" if scopes == {"public"} else None
        if "private" in scopes:
            scope = "private"
        # In a thread: the terms of a hundred thousand tools take seconds.
        return await asyncio.to_thread(self._list_of, tools, min(ttl, default=None), scope, self._last)

    def _list_of(
        self,
        tools: Sequence[Tool],
        ttl: float | None,
        scope: Literal["public", "private"] | None,
        last: ToolList | None,
    ) -> ToolList:
        """Return a ``ToolList``. Return ``last`` if nothing has changed."""
        if last is not None and last.all == tools and (last.ttl, last.scope) == (ttl, scope):
            return last
        listed = [tool for tool in tools if self._is_listed(tool)]
        return ToolList(tools, listed, ttl, scope, None if last is None else last.index)


def _keys(request: Request) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return the cache keys of a shared list (all callers with the same rights) and of the caller's private list."""
    call = request.call
    view = None if request.view is None else request.view.key
    if call is None:
        return (view, "inside"), (view, "inside", None)
    caller = call.principal.id if call.principal is not None else call.client.key
    return (view, shows_pages(call.peer)), (view, shows_pages(call.peer), caller, call.client.session_id)


def _ui(tool: Tool) -> dict[str, Any] | None:
    ui = tool.meta.get("ui") if tool.meta is not None else None
    return ui if isinstance(ui, dict) else None


def _combined(tools: Any) -> ToolAnnotations:
    """Return the hints for a call of an arbitrary tool: each hint holds for all tools."""
    hints = [tool.annotations or ToolAnnotations() for tool in tools]
    reads = bool(hints) and all(hint.read_only_hint is True for hint in hints)
    return ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=not all(hint.read_only_hint is True or hint.destructive_hint is False for hint in hints),
        idempotent_hint=reads or (bool(hints) and all(hint.idempotent_hint is True for hint in hints)),
        open_world_hint=not all(hint.open_world_hint is False for hint in hints),
    )
