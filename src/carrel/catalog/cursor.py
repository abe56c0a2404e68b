"""Pagination cursors of a catalog: a list, the name of a provider, and the provider's own cursor.

A cursor holds no number that another replica, a restart or a change of the list could invalidate. If its provider was
removed, the list continues with the next provider by name.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import binascii

import msgspec

from carrel.errors import InvalidCursor

__all__ = ["key_of", "position_of", "read_cursor", "write_cursor"]

_read = msgspec.json.Decoder(tuple[str, str, str | None]).decode


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
        raise InvalidCursor("Invalid params: cursor is one of another list")
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
