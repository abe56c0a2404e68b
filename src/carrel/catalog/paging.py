"""Pagination across providers: reading of whole lists, and the cursors of a catalog.

A cursor of a catalog is a list, the name of a provider, and the provider's own cursor. It holds no number that another
replica, a restart or a change of the list could invalidate. If its provider was removed, the list continues with the
next provider by name.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import binascii
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias, TypeVar

import msgspec

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.provider import Page, Request
from carrel.errors import InvalidCursor, ResourceTooLarge

__all__ = ["ListMethod", "all_of", "key_of", "position_of", "read_cursor", "write_cursor"]

T = TypeVar("T")
ListMethod: TypeAlias = Callable[[Request], MaybeAwaitable[Page[T]]]

#: Page size for reading a provider's whole list.
LEARNED = 1000

_read = msgspec.json.Decoder(tuple[str, str, str | None]).decode


async def all_of(
    method: ListMethod[T], request: Request | None = None, *, limit: int | None = None
) -> AsyncIterator[T]:
    """Yield all entries of a list of a provider, page by page. ``limit`` is how many entries and pages it may have.

    Raises:
        InvalidCursor: the list repeats a cursor.
        ResourceTooLarge: there are more than ``limit``.
    """
    count = 0
    request = request or Request()
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        page = await resolved(method(request.page(cursor, LEARNED)))
        count += len(page.items)
        if limit is not None and (count > limit or len(seen) > limit):
            raise ResourceTooLarge("", f"The list has more than {limit} entries or pages")
        for item in page.items:
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return
        if cursor in seen:
            raise InvalidCursor("The list repeats a cursor")
        seen.add(cursor)


def write_cursor(listing: str, provider: str, position: str | None) -> str:
    """Return a cursor: the list, the provider to continue with, and the position in it (None for its start)."""
    return binascii.b2a_base64(msgspec.json.encode((listing, provider, position)), newline=False).decode()


def read_cursor(listing: str, cursor: str) -> tuple[str, str | None]:
    """Return the provider and the position in a cursor.

    Raises:
        InvalidCursor: it was not made by ``write_cursor``, or for another list.
    """
    try:
        kind, provider, position = _read(binascii.a2b_base64(cursor.encode("ascii"), strict_mode=True))
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise InvalidCursor from None
    if kind != listing:
        raise InvalidCursor("Invalid params: cursor: it was issued for another list")
    if write_cursor(listing, provider, position) != cursor:
        raise InvalidCursor
    return provider, position


def position_of(key: str) -> str:
    """Return the cursor that continues a list, ordered by key, after ``key``."""
    return f"{binascii.crc32(key.encode('utf-8', 'surrogatepass')):08x}{key}"


def key_of(position: str) -> str:
    """Return the key in a cursor of a list.

    Raises:
        InvalidCursor: it was not made by ``position_of``.
    """
    key = position[8:]
    if position_of(key) != position:
        raise InvalidCursor
    return key
