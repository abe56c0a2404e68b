"""Lists of tools as their callers see them, indexed, and kept until they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

from carrel.catalog.paging import ListMethod, resolved
from carrel.catalog.provider import Request
from carrel.errors import InvalidCursor
from carrel.gateway.tool_index import ToolIndex
from carrel.server.apps import for_models, shows_pages
from carrel.vendors.token_estimate import tokens_of_tools
from carrel.wire.tools import Tool, ToolAnnotations

__all__ = ["ToolList", "ToolLists"]

#: Entries per page that are asked for.
PAGE = 1000
#: Seconds for which a list is kept whose provider does not say how long it may be.
KEPT_SECONDS = 300.0
#: How many lists are kept: of different callers, where these see different tools.
MAX_LISTS = 32


class ToolList:
    """Tools that a caller may list. ``listed`` stay in the list; models find those in ``index``.

    ``ttl`` and ``scope`` say for how long the list may be kept and whose it is, as of pages.
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
        """About how many tokens all of the tools would take in the context of a model."""
        if self._tokens is None:
            self._tokens = tokens_of_tools(self.index.tools)
        return self._tokens

    def savings(self, own: Sequence[Tool]) -> str:
        """Return in words what a model saves that gets the listed tools and ``own`` in place of all."""
        listed = [tool for tool in self.listed if for_models(_ui(tool))]
        shown = tokens_of_tools([*listed, *own])
        share = 100 * (1 - shown / self.tokens) if self.tokens else 0
        less = f"{int(share)} % less" if shown < self.tokens else "which saves nothing"
        listed_ones = f"{len(listed) + len(own)} tools in place of {len(self.index)} are listed"
        return f"{listed_ones}: about {shown} tokens in place of {self.tokens}, {less}"


class ToolLists:
    """Lists of tools of a provider, by their callers. ``is_listed`` says which tools stay listed."""

    def __init__(self, method: ListMethod[Tool], is_listed: Callable[[Tool], bool]) -> None:
        self._method = method
        self._is_listed = is_listed
        self._kept: dict[tuple[object, ...], tuple[ToolList, float]] = {}
        self._last: ToolList | None = None
        self._changes = 0

    def forget(self) -> None:
        """Forget all lists: the tools have changed. May be called from any thread."""
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
                raise InvalidCursor("The cursor of a list leads back to where it has been")
            seen.add(cursor)
        last = self._last
        scope: Literal["public", "private"] | None = "public" if scopes == {"public"} else None
        if "private" in scopes:
            scope = "private"
        lifetime = min(ttl, default=None)
        if last is not None and last.all == tools and (last.ttl, last.scope) == (lifetime, scope):
            return last
        listed = [tool for tool in tools if self._is_listed(tool)]
        return ToolList(tools, listed, lifetime, scope, None if last is None else last.index)


def _keys(request: Request) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return the key of lists that are the same for all with the rights of the caller, and that of its own lists."""
    call = request.call
    view = None if request.view is None else request.view.key
    if call is None:
        return (view, "inside"), (view, "inside", None)
    caller = call.principal.id if call.principal is not None else call.connection.client
    return (view, shows_pages(call.peer)), (view, shows_pages(call.peer), caller, call.connection.id)


def _ui(tool: Tool) -> dict[str, Any] | None:
    ui = tool.meta.get("ui") if tool.meta is not None else None
    return ui if isinstance(ui, dict) else None


def _combined(tools: Any) -> ToolAnnotations:
    """Return the hints that hold for each of some tools: what one of them may do, a call may do."""
    hints = [tool.annotations or ToolAnnotations() for tool in tools]
    reads = bool(hints) and all(hint.read_only_hint is True for hint in hints)
    return ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=not all(hint.read_only_hint is True or hint.destructive_hint is False for hint in hints),
        idempotent_hint=reads or (bool(hints) and all(hint.idempotent_hint is True for hint in hints)),
        open_world_hint=not all(hint.open_world_hint is False for hint in hints),
    )
