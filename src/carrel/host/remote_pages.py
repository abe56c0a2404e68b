"""Pages of the lists of a remote server, cut to the sizes that are asked for, with cursors that say where to go on.

A cursor is the remote server's own cursor of a page and the key of the last entry of it that has been shown.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from carrel.catalog.provider import Page, Request
from carrel.errors import InvalidCursor
from carrel.wire.base import PageResult

__all__ = ["RemotePages"]

T = TypeVar("T")


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Where a list goes on: after an entry of the page at ``cursor``; ``number`` is used if the entry has gone."""

    listing: str
    cursor: str | None
    after: str | None = None
    number: int = 0


_read = msgspec.json.Decoder(Position).decode


class RemotePages:
    """Lists of one remote server. The page in which a reader is, is kept until the list is begun again."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str | None, PageResult]] = {}

    def forget(self) -> None:
        """Forget all pages: a list has changed, or there is another connection."""
        self._kept.clear()

    async def page(
        self,
        listing: str,
        request: Request,
        fetch: Callable[[str | None], Awaitable[PageResult]],
        items_of: Callable[[Any], Sequence[T]],
        key_of: Callable[[T], str],
    ) -> Page[T]:
        """Return a page of a list; ``fetch`` gets that of one of the remote server's own cursors.

        Raises:
            InvalidCursor: the cursor was not given out for this list.
        """
        position = Position(listing, None) if request.cursor is None else read(listing, request.cursor)
        kept = self._kept.get(listing)
        if kept is None or position.after is None or kept[0] != position.cursor:
            self._kept.pop(listing, None)
            result = await fetch(position.cursor)
        else:
            result = kept[1]
        items = items_of(result)
        start = place(position, [key_of(item) for item in items]) if position.after is not None else 0
        part = items[start : start + request.limit]
        end = start + len(part)
        following = None
        if end < len(items):
            following = write(Position(listing, position.cursor, key_of(items[end - 1]), end))
            if len(self._kept) < 8:  # readers of more lists than that at a time fetch again
                self._kept[listing] = position.cursor, result
        elif result.next_cursor is not None:
            following = write(Position(listing, result.next_cursor))
        ttl = None if result.ttl_ms is None else result.ttl_ms / 1000
        scope = result.cache_scope
        if scope == "public" and request.caller is not None:
            scope = "private"
        return Page(part, following, ttl, scope)


def place(position: Position, keys: Sequence[str]) -> int:
    """Return the number of the entry at which a page goes on."""
    assert position.after is not None
    try:
        return keys.index(position.after) + 1
    except ValueError:
        return min(position.number, len(keys))


def write(position: Position) -> str:
    return binascii.b2a_base64(msgspec.json.encode(position), newline=False).decode()


def read(listing: str, cursor: str) -> Position:
    """Return the position in a cursor.

    Raises:
        InvalidCursor: it was not given out for this list.
    """
    try:
        position = _read(binascii.a2b_base64(cursor.encode("ascii"), strict_mode=True))
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise InvalidCursor from None
    if position.listing != listing or write(position) != cursor or position.number < 0:
        raise InvalidCursor
    return position
