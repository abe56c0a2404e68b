"""Pagination cursors: opaque text that encodes a position in a listing.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import binascii

from carrel.errors import InvalidCursor
from carrel.sources.folder.position import Kind, Position

__all__ = ["read_cursor", "write_cursor"]

MAX_CURSOR = 32_768
KINDS: dict[str, Kind] = {"f": "file", "d": "directory", "e": "end"}


def write_cursor(position: Position, listing: str) -> str:
    """Encode a position as a cursor that is valid for one listing, identified by ``listing``."""
    text = "/".join((position.kind[0], *position.parts)).encode("utf-8", "surrogateescape")
    token = check_sum(text, listing) + text
    return binascii.b2a_base64(token, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def read_cursor(cursor: str, listing: str) -> Position:
    """Decode a cursor into its position.

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
    text = token[4:]
    if token[:4] != check_sum(text, listing):
        raise InvalidCursor
    kind, *parts = text.decode("utf-8", "surrogateescape").split("/")
    if kind not in KINDS or "" in parts or b"\0" in text or (kind != "d" and not parts):  # made up
        raise InvalidCursor
    return Position(KINDS[kind], tuple(parts))


def check_sum(text: bytes, listing: str) -> bytes:
    # Not a secret: a forged position leads only to what may be listed anyway.
    return binascii.crc32(text, binascii.crc32(listing.encode("utf-8", "surrogateescape"))).to_bytes(4, "big")
