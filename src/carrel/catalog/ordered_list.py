"""Lists of entries in the order of their keys, a page at a time."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from carrel.uri.parse import SIMPLE

if TYPE_CHECKING:
    from carrel.uri.intervals import Intervals

__all__ = ["OrderedList"]

T = TypeVar("T")

#: Maximum bytes of encoded pages that a listing caches.
MAX_PAGE_BYTES = 4 * 1024 * 1024


class OrderedList(Generic[T]):
    """Entries in the order of their keys. Thread-safe.

    A page starts after a key, even if the key has been removed: insertions and removals never make a reader skip or
    repeat other entries. A page costs O(log n + page), the first page after insertions O(n).
    """

    def __init__(self) -> None:
        self.entries: dict[str, T] = {}
        """All entries by key. Do not change them."""
        self._keys: list[str] = []
        self._sorted = True
        self._lock = threading.Lock()
        self.pages: dict[tuple[str, str | None], bytes] = {}
        """Encoded pages by view (including the revision) and the key they start after; every change clears it."""
        self.used: set[tuple[str, str | None]] = set()
        """Keys of ``pages`` that were used again after they were cached; other pages are evicted first."""
        self._page_bytes = 0
        self._encoded: dict[str, dict[str, msgspec.Raw]] = {}
        self._other: set[str] = set()
        """Keys that are not canonical URIs for certain."""
        self.changes = 0
        """Number of changes so far."""

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[T]:
        return iter([entry for _, entry in sorted(self.entries.copy().items())])

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def get(self, key: str) -> T | None:
        """Return the entry of ``key``, or None."""
        return self.entries.get(key)

    def put(self, key: str, entry: T) -> None:
        """Add an entry, or replace the entry with the same key."""
        with self._lock:
            if key not in self.entries:
                self._keys.append(key)
                self._sorted = len(self._keys) == 1 or (self._sorted and self._keys[-2] < key)
            self.entries[key] = entry
            if SIMPLE.match(key) is None:
                self._other.add(key)
            self._forget(key)

    def remove(self, key: str) -> T:
        """Remove an entry and return it.

        Raises:
            KeyError: no entry has this key.
        """
        with self._lock:
            entry = self.entries.pop(key)
            self._sort()
            del self._keys[bisect_right(self._keys, key) - 1]
            self._other.discard(key)
            self._forget(key)
            return entry

    def _sort(self) -> None:
        if not self._sorted:
            self._keys.sort()
            self._sorted = True

    def _forget(self, key: str) -> None:
        self.changes += 1
        self.pages.clear()
        self.used.clear()
        self._page_bytes = 0
        for encoded in self._encoded.values():
            encoded.pop(key, None)

    def page(
        self,
        after: str | None,
        limit: int,
        within: Intervals | None = None,
        shown: Callable[[str], bool] | None = None,
        select: Callable[[Sequence[str], Collection[str]], list[str]] | None = None,
    ) -> tuple[list[tuple[str, T]], str | None]:
        """Return up to ``limit`` keys and entries after a key (None: from the start), and the last key if more follow.

        Keys outside the intervals ``within`` are skipped by bisection; other keys that are not ``shown`` are left out.
        The page has no gaps: it is a page of the filtered list. ``select`` returns the keys of a list that are
        ``shown``, if it is faster; it also takes the keys that are not canonical URIs for certain.
        """
        if shown is None:
            return self._part(after, limit, within)
        found: list[tuple[str, T]] = []
        while True:
            part, last = self._part(after, limit + 1, within)
            if select is not None:
                keys = select([key for key, _ in part], self._other)
                if len(keys) < len(part):
                    known = dict(part)
                    part = [(key, known[key]) for key in keys]
                found += part
                if len(found) > limit:
                    del found[limit:]
                    return found, found[-1][0]
                part = []
            for entry in part:
                if shown(entry[0]):
                    if len(found) == limit:
                        return found, found[-1][0]
                    found.append(entry)
            if last is None:
                return found, None
            after = last

    def _part(self, after: str | None, limit: int, within: Intervals | None) -> tuple[list[tuple[str, T]], str | None]:
        with self._lock:
            self._sort()
            start = 0 if after is None else bisect_right(self._keys, after)
            if within is None:
                keys, then = self._keys[start : start + limit], start + limit
            else:
                keys, then = within.select(self._keys, start, limit)
            more = then < len(self._keys)
            return [(key, self.entries[key]) for key in keys], keys[-1] if more and keys else None

    def encoded(
        self, revision: str, found: Iterable[tuple[str, T]], encode: Callable[[T], bytes | None]
    ) -> list[msgspec.Raw]:
        """Return entries encoded for a revision: once, for the pages of all views. None leaves an entry out."""
        known = self._encoded.setdefault(revision, {})
        raws: list[msgspec.Raw] = []
        for key, entry in found:
            raw = known.get(key)
            if raw is None:
                data = encode(entry)
                if data is None:
                    continue
                raw = msgspec.Raw(data)
                with self._lock:
                    if self.entries.get(key) is entry:
                        known[key] = raw
            raws.append(raw)
        return raws

    def keep_page(self, view: str, after: str | None, page: bytes, changes: int) -> bytes:
        """Keep an encoded page until the next change. ``changes`` is their count when the page was made."""
        with self._lock:
            if changes == self.changes and (view, after) not in self.pages:
                self.pages[view, after] = page
                self._page_bytes += len(page)
                while self._page_bytes > MAX_PAGE_BYTES:
                    oldest = next(iter(self.pages))
                    given = self.pages.pop(oldest)
                    if oldest in self.used:  # once more round
                        self.used.discard(oldest)
                        self.pages[oldest] = given
                    else:
                        self._page_bytes -= len(given)
        return page
