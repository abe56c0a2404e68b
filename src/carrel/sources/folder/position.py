"""Paths under the root of a shared folder, and positions in a walk over them."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from carrel.catalog.paging import decode_cursor, encode_cursor
from carrel.errors import InvalidCursor

__all__ = ["START", "Kind", "Parts", "TreePosition", "position_of"]

Parts: TypeAlias = tuple[str, ...]
"""A path under the root, as its names. The root itself is ``()``."""

Kind: TypeAlias = Literal["file", "directory", "end"]
KINDS: dict[str, Kind] = {"f": "file", "d": "directory", "e": "end"}


class TreePosition(NamedTuple):
    """Position in a walk: after a file, before a directory and its contents, or after them."""

    kind: Kind
    parts: Parts

    def cursor(self, listing: str) -> str:
        """Return a cursor that is valid for one listing."""
        return encode_cursor("/".join((self.kind[0], *self.parts)), listing)


START = TreePosition("directory", ())


def position_of(cursor: str | None, listing: str) -> TreePosition:
    """Return the position in a cursor, by default the start.

    Raises:
        InvalidCursor: it was not issued for this listing.
    """
    if cursor is None:
        return START
    kind, *parts = decode_cursor(cursor, listing).split("/")
    if kind not in KINDS or "" in parts or "\0" in "".join(parts) or (kind != "d" and not parts):  # made up
        raise InvalidCursor
    return TreePosition(KINDS[kind], tuple(parts))
