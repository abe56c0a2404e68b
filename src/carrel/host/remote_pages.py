"""RemotePages: splits the list pages of a remote server into pages of the requested size.

A cursor contains the remote server's cursor of a page, and the key of the last entry returned from that page.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from carrel.catalog.paging import decode_cursor, encode_cursor
from carrel.catalog.provider import Page, Request
from carrel.errors import InvalidCursor, ResourceTooLarge
from carrel.host.remote_entries import ListFormat, entries_of
from carrel.protocol.connection import UNREADABLE
from carrel.wire.base import PageResult
from carrel.wire.resources import Resource

__all__ = ["LONG", "MAX_LISTED", "RemotePages"]

#: Number of characters of a key to store and compare.
MAX_KEY = 300


class ListPosition(msgspec.Struct, frozen=True, array_like=True):
    """Position in a list: after entry ``after`` on the page at ``cursor``, or at index ``number`` if it was removed."""

    cursor: str | None
    after: str | None = None
    number: int = 0


_read = msgspec.json.Decoder(ListPosition).decode

#: Maximum number of listed URIs to remember, and maximum number of tools or prompts of a server.
MAX_LISTED = 250_000
#: Lists with more entries are long, and cached as raw JSON: decoded entries would cause long garbage collector pauses.
LONG = 10_000
#: Maximum time to live of a page, in milliseconds.
YEAR = 365 * 24 * 3600 * 1000
#: Maximum distance from the expected index at which to look for an entry after the list was fetched again.
NEAR = 1000


class RemotePages:
    """Lists of one remote server. The current page of a list is cached until a client lists from the start again.

    Only the requested entries of a fetched page are decoded.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str | None, PageResult]] = {}

    def forget(self) -> None:
        """Clear the cache, as a list has changed, or the connection is new."""
        self._kept.clear()

    async def page(
        self,
        name: str,
        list_format: ListFormat,
        request: Request,
        fetch: Callable[[str | None], Awaitable[PageResult]],
        decode: Callable[[Sequence[Raw]], Awaitable[list[Any]]],
        *,
        notified: bool = False,
    ) -> Page[Any]:
        """Return a page of a list; ``fetch`` fetches the page at a cursor of the remote server.

        ``decode`` decodes entries. ``notified``: the server notifies of changes of the list, so that a long page can be
        cached for all clients.

        Raises:
            InvalidCursor: the cursor is not from this list.
            ResourceTooLarge: the page of the remote server has too many entries.
        """
        position = ListPosition(None) if request.cursor is None else read(name, request.cursor)
        kept = self._kept.get(name)
        begins = position.after is None and not (notified and kept is not None and is_long(list_format, kept[1]))
        if kept is None or begins or kept[0] != position.cursor:
            self._kept.pop(name, None)
            result = await fetch(position.cursor)
        else:
            result = kept[1]
        entries = entries_of(list_format, result)
        if len(entries) > MAX_LISTED and list_format.entry is not Resource:
            raise ResourceTooLarge("", f"The list has more than {MAX_LISTED} entries")
        start = start_index(position, list_format, entries) if position.after is not None else 0
        part = entries[start : start + request.limit]
        end = start + len(part)
        following = None
        if end < len(entries):
            following = write(name, ListPosition(position.cursor, key_of(list_format, entries[end - 1]), end))
            if len(self._kept) < 8:  # limit the cache: further lists are fetched again for each page
                self._kept[name] = position.cursor, result
        elif result.next_cursor is not None:
            following = write(name, ListPosition(result.next_cursor))
        ttl = None if result.ttl_ms is None else min(YEAR, max(0, result.ttl_ms)) / 1000
        scope = result.cache_scope
        if scope == "public" and request.caller is not None:
            scope = "private"
        return Page(await decode(part), following, ttl, scope)


def is_long(list_format: ListFormat, page: PageResult) -> bool:
    """Return whether a page is long enough to be cached for all clients. It must not have a time to live."""
    return page.ttl_ms is None and len(entries_of(list_format, page)) > LONG


def key_of(list_format: ListFormat, entry: Raw) -> str:
    """Return the first ``MAX_KEY`` characters of an entry's key, or an empty text if the key cannot be read."""
    try:
        return str(list_format.key(entry))[:MAX_KEY]
    except UNREADABLE:
        return ""


def start_index(position: ListPosition, list_format: ListFormat, entries: Sequence[Raw]) -> int:
    """Return the index at which a page starts: after the entry in ``position``, if it is still near its old index."""
    last = min(position.number, len(entries)) - 1
    near = range(max(0, last - NEAR), min(len(entries), last + NEAR))
    for number in sorted(near, key=lambda number: abs(number - last)):
        if key_of(list_format, entries[number]) == position.after:
            return number + 1
    return last + 1


def write(listing: str, position: ListPosition) -> str:
    return encode_cursor(msgspec.json.encode(position).decode(), listing)


def read(listing: str, cursor: str) -> ListPosition:
    """Decode the position in a cursor.

    Raises:
        InvalidCursor: the cursor is not from this list.
    """
    try:
        position = _read(decode_cursor(cursor, listing))
    except (ValueError, msgspec.DecodeError, RecursionError):  # members after ``number`` are skipped, however deep
        raise InvalidCursor from None
    if position.number < 0:
        raise InvalidCursor
    return position
