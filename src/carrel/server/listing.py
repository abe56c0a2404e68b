"""Paginated lists, whose cursors stay valid while the list changes.

Every entry gets a number that grows and is never used again, and a cursor names the number it continues after:
insertions and removals never make a reader skip or repeat other entries. A page costs O(log n + page).
"""

from __future__ import annotations

import binascii
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from carrel.errors import InvalidCursor
from carrel.protocol.encoding import encode

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.wire.base import Result

__all__ = ["Listing", "answer_page", "decode_cursor", "encode_cursor"]

T = TypeVar("T")

#: How many encoded pages a listing keeps.
MAX_PAGES = 64


class Listing(Generic[T]):
    """Paginated list of entries by key, in insertion order. May be changed from any thread."""

    def __init__(self) -> None:
        self._entries: dict[str, T] = {}
        self._numbers: dict[str, int] = {}
        self._order: list[int] = []
        self._keys: list[str] = []
        self._next = 0
        self._lock = threading.Lock()
        self.pages: dict[tuple[str, int], bytes] = {}
        """Encoded pages, by revision and start; emptied by every change."""
        self.changes = 0
        """How many changes there have been."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._entries.values()))

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def get(self, key: str) -> T | None:
        """Return the entry of ``key``, or None."""
        return self._entries.get(key)

    def put(self, key: str, entry: T) -> None:
        """Add an entry at the end, or replace the one of that key where it stands."""
        with self._lock:
            if key not in self._entries:
                self._numbers[key] = self._next
                self._order.append(self._next)
                self._keys.append(key)
                self._next += 1
            self._entries[key] = entry
            self.changes += 1
            self.pages.clear()

    def remove(self, key: str) -> T:
        """Remove an entry and return it.

        Raises:
            KeyError: there is none.
        """
        with self._lock:
            entry = self._entries.pop(key)
            position = bisect_left(self._order, self._numbers.pop(key))
            del self._order[position], self._keys[position]
            self.changes += 1
            self.pages.clear()
            return entry

    def page(self, after: int, limit: int) -> tuple[list[T], int | None]:
        """Return up to ``limit`` entries after number ``after`` (-1 for the start), and where the next page starts.

        Raises:
            InvalidCursor: there never was an entry of that number.
        """
        with self._lock:
            if after >= self._next:
                raise InvalidCursor
            start = bisect_right(self._order, after)
            keys = self._keys[start : start + limit]
            more = start + limit < len(self._order)
            return [self._entries[key] for key in keys], self._order[start + len(keys) - 1] if more else None

    def keep(self, revision: str, after: int, page: bytes, changes: int) -> bytes:
        """Cache an encoded page until the next change. ``changes`` is their count when the page was made."""
        with self._lock:
            if changes == self.changes:
                if len(self.pages) >= MAX_PAGES:
                    self.pages.clear()
                self.pages[revision, after] = page
        return page


def answer_page(
    listing: Listing[T], call: Call, limit: int, make: Callable[[list[T], str | UnsetType], Result], variant: str = ""
) -> bytes:
    """Answer a list request from a listing: return the encoded page of its cursor, made at most once per change.

    Where clients of one revision see different lists, ``variant`` identifies the one that ``make`` makes.

    Raises:
        InvalidCursor: the cursor was not given out by this listing.
    """
    cursor, kind = call.params.cursor, call.request.operation
    segment, after = (0, -1) if cursor is UNSET else decode_cursor(kind, cursor)
    if segment != 0 or not isinstance(after, int):
        raise InvalidCursor
    revision = call.peer.revision.name + variant
    page = listing.pages.get((revision, after))
    if page is None:
        changes = listing.changes
        entries, more = listing.page(after, limit)
        result = make(entries, UNSET if more is None else encode_cursor(kind, 0, more))
        page = listing.keep(revision, after, encode(call.connection.finish(call, result)), changes)
    return page


def encode_cursor(listing: str, segment: int, position: int | str) -> str:
    """Return a pagination cursor: the list, its segment, and the position in that."""
    return binascii.b2a_base64(msgspec.json.encode([listing, segment, position]), newline=False).decode()


_read_cursor = msgspec.json.Decoder(tuple[str, int, int | str]).decode


def decode_cursor(listing: str, cursor: str) -> tuple[int, int | str]:
    """Return the segment and position in a pagination cursor.

    Raises:
        InvalidCursor: it was not made by ``encode_cursor``, or for another list.
    """
    try:
        kind, segment, position = _read_cursor(binascii.a2b_base64(cursor.encode("ascii"), strict_mode=True))
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise InvalidCursor from None
    if kind != listing:
        raise InvalidCursor("Invalid params: cursor is one of another list")
    if segment < 0 or (isinstance(position, int) and position < 0):
        raise InvalidCursor
    if encode_cursor(listing, segment, position) != cursor:
        raise InvalidCursor
    return segment, position
