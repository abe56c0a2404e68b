"""Encoded pages of the lists that an author registers: made once per change, for all callers with the same view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from carrel.catalog.cursor import key_of, position_of, read_cursor, write_cursor
from carrel.catalog.listing import Listing
from carrel.errors import InvalidCursor
from carrel.protocol.encoding import encode
from carrel.wire.base import CacheableResult

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.wire.base import Wire

__all__ = ["answer_page"]

T = TypeVar("T")
#: Name of the provider in the cursors: that of ``LocalProvider``.
LOCAL = ""


def answer_page(
    listing: Listing[T],
    call: Call,
    limit: int,
    make: Callable[[Sequence[Any], str | None], CacheableResult],
    describe: Callable[[T], Wire | None],
    view: str = "",
    shown: Callable[[str], bool] | None = None,
) -> bytes:
    """Answer a list request from a listing: return the encoded page of its cursor.

    ``describe`` returns an entry as it is listed, or None if it is not. Callers who see different entries, as ``shown``
    says by their keys, have different ``view`` keys; entries themselves are encoded once for all of them.

    Raises:
        InvalidCursor: the cursor was not given out by this list.
    """
    cursor, kind = call.params.cursor, call.request.operation
    after = None if cursor is None else _after(kind, cursor)
    revision = call.peer.revision
    variant = f"{revision.name} {view}"
    page = listing.pages.get((variant, after))
    if page is None:
        changes = listing.changes
        entries, more = listing.page(after, limit)
        described: list[Any]
        if shown is None:
            described = [item for _, entry in entries if (item := describe(entry)) is not None]
        else:
            described = [
                listing.encoded(revision.name, key, entry, lambda entry: encode(revision.project(describe(entry))))  # type: ignore[type-var]
                for key, entry in entries
                if shown(key)
            ]
        result = make(described, None if more is None else write_cursor(kind, LOCAL, position_of(more)))
        if view:
            result = msgspec.structs.replace(result, cache_scope="private")
        page = listing.keep_page(variant, after, encode(call.connection.finish(call, result)), changes)
    return page


def _after(kind: str, cursor: str) -> str | None:
    provider, position = read_cursor(kind, cursor)
    if provider != LOCAL:
        raise InvalidCursor
    return None if position is None else key_of(position)
