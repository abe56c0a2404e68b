"""Pagination cursors: opaque text that encodes a position in a listing.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import binascii
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from carrel.catalog.provider import Page, Request
from carrel.errors import InvalidCursor
from carrel.sources.folder.position import Kind, TreePosition
from carrel.wire.resources import Resource

__all__ = ["decode", "encode", "page_after", "page_of", "read_cursor", "write_cursor"]

T = TypeVar("T")

MAX_CURSOR = 32_768
KINDS: dict[str, Kind] = {"f": "file", "d": "directory", "e": "end"}


def write_cursor(position: TreePosition, listing: str) -> str:
    """Encode a position as a cursor that is valid for one listing, identified by ``listing``."""
    return encode("/".join((position.kind[0], *position.parts)), listing)


def read_cursor(cursor: str, listing: str) -> TreePosition:
    """Decode a cursor into its position.

    Raises:
        InvalidCursor: it was not issued for this listing.
    """
    kind, *parts = decode(cursor, listing).split("/")
    if kind not in KINDS or "" in parts or "\0" in "".join(parts) or (kind != "d" and not parts):  # forged
        raise InvalidCursor
    return TreePosition(KINDS[kind], tuple(parts))


def page_of(items: Sequence[T], request: Request, key: Callable[[T], str]) -> Page[T]:
    """Return the requested page of a short list in a fixed order; ``key`` is unique.

    Raises:
        InvalidCursor: the cursor names none of the items.
    """
    start = 0
    if request.cursor is not None:
        after = decode(request.cursor, "items")
        start = next((index for index, item in enumerate(items, 1) if key(item) == after), 0)
        if not start:
            raise InvalidCursor
    found = items[start : start + max(request.limit, 1)]
    more = start + len(found) < len(items)
    return Page(found, encode(key(found[-1]), "items") if more else None)


def page_after(items: Sequence[Resource], request: Request, listing: str) -> Page[Resource]:
    """Return the requested page of resources sorted by URI: those after the one that the cursor names.

    ``listing`` identifies the list. The resource that the cursor names need not be there any more.

    Raises:
        InvalidCursor: the cursor was not issued for this list.
    """
    start = 0
    if request.cursor is not None:
        start = bisect_right(items, decode(request.cursor, listing), key=lambda item: item.uri)
    end = start + max(request.limit, 1)
    found = items[start:end]
    return Page(found, encode(found[-1].uri, listing) if end < len(items) else None)


def encode(text: str, listing: str) -> str:
    """Encode any text as a cursor that is valid for one listing."""
    data = text.encode("utf-8", "surrogateescape")
    token = check_sum(data, listing) + data
    return binascii.b2a_base64(token, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def decode(cursor: str, listing: str) -> str:
    """Decode the text of a cursor.

    Raises:
        InvalidCursor: it was not issued for this listing.
    """
    if len(cursor) > MAX_CURSOR or not cursor.isascii():
        raise InvalidCursor
    padded = cursor.replace("-", "+").replace("_", "/") + "=" * (-len(cursor) % 4)
    try:
        token = binascii.a2b_base64(padded, strict_mode=True)
    except binascii.Error:
        raise InvalidCursor from None
    if token[:4] != check_sum(token[4:], listing):
        raise InvalidCursor
    return token[4:].decode("utf-8", "surrogateescape")


def check_sum(text: bytes, listing: str) -> bytes:
    # Not a secret: a forged position gives access only to entries that may be listed anyway.
    return binascii.crc32(text, binascii.crc32(listing.encode("utf-8", "surrogateescape"))).to_bytes(4, "big")
