"""Encoded pages of the lists that an author registers: made once per change, for all callers with the same view."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from carrel.catalog.ordered_list import OrderedList
from carrel.catalog.paging import key_of, position_of, read_cursor, write_cursor
from carrel.catalog.provider import Page, result_of
from carrel.catalog.view_filter import UNFILTERED, FilterOf
from carrel.errors import InvalidCursor
from carrel.protocol.encoding import encode
from carrel.wire.base import CacheableResult

if TYPE_CHECKING:
    from carrel.protocol.revision import Revision
    from carrel.protocol.server import Call
    from carrel.wire.base import Wire

__all__ = ["answer_page", "private"]

T = TypeVar("T")
R = TypeVar("R", bound=CacheableResult)
#: Name of ``LocalProvider`` in cursors.
LOCAL = ""


def answer_page(
    listing: OrderedList[T],
    call: Call,
    limit: int,
    describe: Callable[[T], Wire | None],
    cut: FilterOf,
    variant: str = "",
) -> bytes:
    """Answer a list request from a listing: return the encoded page of its cursor.

    ``describe`` returns an entry as it is listed, or None if it is not; where that depends on the client, ``variant``
    names how. ``cut`` returns the part of the list in a view. Pages are encoded once for each view and variant,
    entries once for all views.

    Raises:
        InvalidCursor: the cursor was not given out by this list.
    """
    cursor, kind = call.params.cursor, call.request.operation
    after = None if cursor is None else _after(kind, cursor)
    revision = call.peer.revision
    view = "" if call.view is None else call.view.key
    kept = f"{revision.name} {variant} {view}"
    page = listing.pages.get((kept, after))
    if page is not None:
        listing.used.add((kept, after))
    else:
        changes = listing.changes
        part = UNFILTERED if call.view is None else cut(call.view)
        entries, more = listing.page(after, limit, part.within, part.shown)
        described: list[Any]
        if part is UNFILTERED:
            described = [item for _, entry in entries if (item := describe(entry)) is not None]
        else:
            described = []
            for key, entry in entries:
                item = describe(entry)
                if item is not None:
                    write = partial(_encode, revision, item)
                    described.append(listing.encoded(f"{revision.name} {variant}", key, entry, write))
        after_page = None if more is None else write_cursor(kind, LOCAL, position_of(more))
        result: CacheableResult = result_of(call.request, Page(described, after_page))
        if variant or (call.view is not None and not call.view.everybody):
            result = msgspec.structs.replace(result, cache_scope="private")
        page = listing.keep_page(kept, after, encode(call.connection.finish(call, result)), changes)
    return page


def private(result: R, call: Call) -> R:
    """Return a result with ``cacheScope`` private, where it depends on the caller."""
    if call.view is None or call.view.everybody:
        return result
    return msgspec.structs.replace(result, cache_scope="private")


def _encode(revision: Revision, item: Wire, _: object) -> bytes:
    return encode(revision.project(item))


def _after(kind: str, cursor: str) -> str | None:
    provider, position = read_cursor(kind, cursor)
    if provider != LOCAL:
        raise InvalidCursor
    return None if position is None else key_of(position)
