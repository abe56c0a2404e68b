"""Pagination across providers: reading of whole lists, and the cursors of a catalog.

A cursor is text with a checksum, which is valid for one list. A cursor of a catalog has the name of a provider and the
provider's own cursor. It holds no number that another replica, a restart or a change of the list could invalidate. If
its provider was removed, the list continues with the next provider by name.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import binascii
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.provider import Page, Request
from carrel.errors import InvalidCursor, ResourceTooLarge

if TYPE_CHECKING:
    from carrel.wire.resources import Resource

__all__ = [
    "ListMethod",
    "all_of",
    "decode_cursor",
    "encode_cursor",
    "page_after",
    "page_of",
    "read_cursor",
    "write_cursor",
]

T = TypeVar("T")
ListMethod: TypeAlias = Callable[[Request], MaybeAwaitable[Page[T]]]

#: Page size for reading a provider's whole list.
LEARNED = 1000

_read = msgspec.json.Decoder(tuple[str, str | None]).decode


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


def page_of(items: Sequence[T], request: Request, key: Callable[[T], str]) -> Page[T]:
    """Return the requested page of a short list in a fixed order; ``key`` is unique.

    Raises:
        InvalidCursor: the cursor names none of the items.
    """
    start = 0
    if request.cursor is not None:
        after = decode_cursor(request.cursor, "items")
        start = next((index for index, item in enumerate(items, 1) if key(item) == after), 0)
        if not start:
            raise InvalidCursor
    found = items[start : start + max(request.limit, 1)]
    more = start + len(found) < len(items)
    return Page(found, encode_cursor(key(found[-1]), "items") if more else None)


def page_after(items: Sequence[Resource], request: Request, listing: str) -> Page[Resource]:
    """Return the requested page of resources sorted by URI: those after the one that the cursor names.

    ``listing`` identifies the list. The resource that the cursor names need not be there any more.

    Raises:
        InvalidCursor: the cursor was not given out for this list.
    """
    start = 0
    if request.cursor is not None:
        start = bisect_right(items, decode_cursor(request.cursor, listing), key=lambda item: item.uri)
    end = start + max(request.limit, 1)
    found = items[start:end]
    return Page(found, encode_cursor(found[-1].uri, listing) if end < len(items) else None)


def write_cursor(listing: str, provider: str, position: str | None) -> str:
    """Return a catalog's cursor: the provider to continue with, and the position in it (None for its start)."""
    return encode_cursor(msgspec.json.encode((provider, position)).decode(), listing)


def read_cursor(listing: str, cursor: str) -> tuple[str, str | None]:
    """Return the provider and the position in a catalog's cursor.

    Raises:
        InvalidCursor: it was not made by ``write_cursor``, or for another list.
    """
    try:
        return _read(decode_cursor(cursor, listing))
    except (ValueError, msgspec.DecodeError):
        raise InvalidCursor from None


def encode_cursor(text: str, listing: str) -> str:
    """Encode any text as a cursor that is valid for one listing."""
    data = text.encode("utf-8", "surrogateescape")
    token = _checksum(data, listing) + data
    return binascii.b2a_base64(token, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def decode_cursor(cursor: str, listing: str) -> str:
    """Decode the text of a cursor.

    Raises:
        InvalidCursor: it was not issued for this listing.
    """
    if not cursor.isascii():
        raise InvalidCursor
    padded = cursor.replace("-", "+").replace("_", "/") + "=" * (-len(cursor) % 4)
    try:
        token = binascii.a2b_base64(padded, strict_mode=True)
    except binascii.Error:
        raise InvalidCursor from None
    if token[:4] != _checksum(token[4:], listing):
        raise InvalidCursor
    return token[4:].decode("utf-8", "surrogateescape")


def _checksum(text: bytes, listing: str) -> bytes:
    """Return the checksum of a cursor. It is no secret: a forged position leads only to entries that may be listed."""
    return binascii.crc32(text, binascii.crc32(listing.encode("utf-8", "surrogateescape"))).to_bytes(4, "big")
