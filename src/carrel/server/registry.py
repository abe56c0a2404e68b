"""Registry of one list of a server: tools, prompts, resources or resource templates, by name or URI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.ordered_list import OrderedList
from carrel.catalog.paging import decode_cursor, encode_cursor, read_cursor, write_cursor
from carrel.catalog.provider import Page, Request, result_of
from carrel.catalog.view_filter import UNFILTERED, ListFilter, list_filter
from carrel.errors import ConfigError, InvalidCursor, MCPError
from carrel.log import Log
from carrel.protocol.encoding import encode
from carrel.server.context import Context
from carrel.server.options import When, tags_of

if TYPE_CHECKING:
    from carrel.protocol.connection import Peer
    from carrel.protocol.methods import RequestType
    from carrel.protocol.principal import View
    from carrel.protocol.revision import Revision
    from carrel.protocol.server import Call
    from carrel.server.runtime import Runtime
    from carrel.wire.base import CacheableResult, Wire

__all__ = ["ItemRegistry", "RegisteredItem", "SilentChannel", "is_permitted", "run_if_permitted"]

#: Name of ``LocalProvider`` in cursors.
LOCAL = ""
log = Log("carrel")


class SilentChannel:
    """Channel of a call that no client has made: notifications are dropped."""

    muted = True

    def send(self, message: bytes, key: object = None) -> None:
        """Drop a message."""

    async def drain(self) -> None:
        """No-op: nothing is queued."""

    def pause(self, retry: int | None = None) -> None:
        """Do nothing."""


class RegisteredItem(msgspec.Struct, eq=False, kw_only=True):
    """Registered tool, prompt, resource or resource template: ``item`` is how it is listed."""

    item: Any = None
    tags: frozenset[str] = frozenset()
    when: When | None = None
    """Whether it exists for the caller of a request; None: for all."""

    def describe(self) -> Any:
        """Return the item as it is listed."""
        return self.item


E = TypeVar("E", bound=RegisteredItem)
T = TypeVar("T")


class ItemRegistry(Generic[E]):
    """Items of one list: registration, enabling and disabling, change notifications, and pages for each caller.

    ``row`` is the request for the list. ``on_change`` is called after every change.
    """

    def __init__(self, runtime: Runtime, row: RequestType, on_change: Callable[[], None] = lambda: None) -> None:
        self._runtime = runtime
        self._row = row
        self._on_change = on_change
        self.entries: OrderedList[E] = OrderedList()
        """Enabled items, by name or URI."""
        self.guarded = False
        """Whether any item has a ``when``, so that the list depends on the caller."""
        self._disabled: dict[str, E] = {}
        self._disabled_names: set[str] = set()
        self._disabled_tags: set[str] = set()

    @property
    def used(self) -> bool:
        """Whether anything was ever registered."""
        return bool(self.entries.changes)

    # Registration

    def find(self, name: str) -> E | None:
        """Return an item, enabled or disabled, or None."""
        return self.entries.get(name) or self._disabled.get(name)

    def check_free(self, name: str, hint: str = "") -> None:
        """Check that no item has a name.

        Raises:
            ConfigError: an item has this name.
        """
        if self.find(name) is not None:
            raise ConfigError(f"There is a {self._row.item} {name} already{hint}")

    def put(self, name: str, entry: E) -> None:
        """Add an item, or replace the item of the same name, and notify clients that the list changed."""
        self.guarded = self.guarded or entry.when is not None
        self._put(name, entry)
        self._changed((name,))

    def remove(self, name: str) -> None:
        """Remove an item by its name or URI, and notify clients that the list changed.

        Raises:
            KeyError: no such name.
        """
        self._disabled_names.discard(name)
        if self._disabled.pop(name, None) is None:
            self.entries.remove(name)
        self._changed((name,))

    def disable(self, *names: str, tags: Iterable[str] = ()) -> None:
        """Disable items by name or URI, or all items with one of ``tags``, including later additions.

        Clients see them as missing until they are enabled again, and are notified that the list changed.

        Raises:
            KeyError: no such name.
        """
        self._switch(names, tags, set.update)

    def enable(self, *names: str, tags: Iterable[str] = ()) -> None:
        """Enable items that were disabled by the same name or tags.

        Raises:
            KeyError: no such name.
        """
        self._switch(names, tags, set.difference_update)

    def _switch(
        self, names: Iterable[str], tags: Iterable[str], change: Callable[[set[str], Iterable[str]], None]
    ) -> None:
        labels = tags_of(tags)
        for name in names:
            if self.find(name) is None:
                from carrel.near_names import near

                known = [*self.entries.entries, *self._disabled]
                raise KeyError(f"no such {self._row.item}: {name!r}{near(name, known)}")
        change(self._disabled_names, names)
        change(self._disabled_tags, labels)
        changed = [
            name
            for name, entry in (self.entries.entries | self._disabled).items()
            if self._is_disabled(name, entry) == (name in self.entries)
        ]
        for name in changed:
            self._put(name, self.entries.get(name) or self._disabled[name])
        if changed:
            self._changed(sorted(changed))

    def _is_disabled(self, name: str, entry: E) -> bool:
        return name in self._disabled_names or not self._disabled_tags.isdisjoint(entry.tags)

    def _put(self, name: str, entry: E) -> None:
        if self._is_disabled(name, entry):
            if name in self.entries:
                self.entries.remove(name)
            self._disabled[name] = entry
            self.entries.changes += 1  # something was registered
        else:
            self._disabled.pop(name, None)
            self.entries.put(name, entry)

    def _changed(self, names: Iterable[str]) -> None:
        self._on_change()
        lists: Any = dict.fromkeys(self._row.stale_by, names)
        self._runtime.notify(lists=lists)

    # Lists

    def describe(self, peer: Peer | None) -> tuple[str, Callable[[Any], Wire | None]]:
        """Return how items are listed for a client: the key of its variant, and a function that describes an item.

        The key is empty if the list is the same for all clients. Without a peer, everything is described.
        """
        return "", RegisteredItem.describe

    def page(self, request: Request) -> MaybeAwaitable[Page[Any]]:
        """Return the page of a request to the provider."""
        return self._page_for_caller(request) if self.guarded else self._page(request, None)

    async def _page_for_caller(self, request: Request) -> Page[Any]:
        exists = await self.existence(request)
        return msgspec.structs.replace(self._page(request, exists), scope="private")

    def _page(self, request: Request, exists: Callable[[str], bool] | None) -> Page[Any]:
        describe = self.describe(None if request.call is None else request.call.peer)[1]
        part = self._part(request.view)
        shown, select = part.shown, part.select
        if exists is not None:
            select = None

            def shown(key: str) -> bool:
                return exists(key) and (part.shown is None or part.shown(key))

        after = None if request.cursor is None else decode_cursor(request.cursor, self._row.operation)
        entries, more = self.entries.page(after, request.limit, part.within, shown, select)
        items = [item for _, entry in entries if (item := describe(entry)) is not None]
        return Page(items, None if more is None else encode_cursor(more, self._row.operation))

    def _part(self, view: View | None) -> ListFilter:
        return UNFILTERED if view is None else list_filter(view, self._row)

    async def existence(self, request: Request) -> Callable[[str], bool]:
        """Return a function that returns whether an item exists for the caller of a request.

        An item whose ``when`` has not been called, because the item was added meanwhile, does not.
        """
        permitted: dict[str, E] = {}
        if request.call is not None:
            context: Context[Any] = Context(self._runtime, request.call, request.channel or SilentChannel())
            permitted = {
                key: entry
                for key, entry in self.entries.entries.copy().items()
                if entry.when is not None and await is_permitted(key, entry.when, context)
            }

        def exists(key: str) -> bool:
            entry = self.entries.get(key)
            return entry is not None and (entry.when is None or permitted.get(key) is entry)

        return exists

    def answer(self, call: Call) -> bytes:
        """Answer a list request: return the encoded page of its cursor. Only for lists that are not guarded.

        A page is encoded once for each view and variant, an item once for all views.

        Raises:
            InvalidCursor: this list did not issue the cursor.
        """
        entries, row, revision, view = self.entries, self._row, call.peer.revision, call.view
        cursor = call.params.cursor
        after = None if cursor is None else _after(row.operation, cursor)
        variant, describe = self.describe(call.peer)
        kept = f"{revision.name} {variant} {'' if view is None else view.key}"
        page = entries.pages.get((kept, after))
        if page is not None:
            entries.used.add((kept, after))
            return page
        changes = entries.changes
        part = self._part(view)
        found, more = entries.page(after, self._runtime.settings.page_size, part.within, part.shown, part.select)
        described: Sequence[Any]
        if part is UNFILTERED:
            described = [item for _, entry in found if (item := describe(entry)) is not None]
        else:
            described = entries.encoded(f"{revision.name} {variant}", found, partial(_encode, revision, describe))
        cursor = None if more is None else write_cursor(row.operation, LOCAL, encode_cursor(more, row.operation))
        result: CacheableResult = result_of(row, Page(described, cursor))
        if variant or (view is not None and not view.everybody):
            result.cache_scope = "private"
        return entries.keep_page(kept, after, encode(call.connection.finish(call, result)), changes)


def _encode(revision: Revision, describe: Callable[[Any], Wire | None], entry: RegisteredItem) -> bytes | None:
    item = describe(entry)
    return None if item is None else encode(revision.project(item))


def _after(operation: str, cursor: str) -> str | None:
    provider, position = read_cursor(operation, cursor)
    if provider != LOCAL:
        raise InvalidCursor
    return None if position is None else decode_cursor(position, operation)


async def is_permitted(name: str, when: When | None, context: Context[Any]) -> bool:
    """Return whether an item exists for the caller of a request. An item whose ``when`` fails does not."""
    if when is None:
        return True
    try:
        return bool(await resolved(when(context)))
    except Exception as error:
        log.error("when of %s failed, so it is hidden: %s", name, error, exc_info=error)
        return False


async def run_if_permitted(
    name: str, when: When | None, context: Context[Any], run: Callable[[], MaybeAwaitable[T]], missing: MCPError
) -> T:
    """Return the result of ``run`` if an item exists for the caller of a request.

    Raises:
        MCPError: ``missing``, because the item does not exist for the caller.
    """
    if not await is_permitted(name, when, context):
        raise missing
    return await resolved(run())
