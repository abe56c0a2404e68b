"""The newest entries of several logs, in the order of their times, within limits of number and size."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from carrel.sources.logs.entries import LogEntry

__all__ = ["LocatedEntry", "Newest"]


class LocatedEntry(NamedTuple):
    """An entry, and the log that it is in."""

    log: str
    entry: LogEntry


class Newest:
    """Collection of entries that keeps the newest: ``most`` before ``skip`` others, of up to ``size`` characters.

    Entries are added the newest first, but may be out of order by ``margin`` seconds.
    """

    def __init__(self, most: int, size: int, margin: float, skip: int = 0) -> None:
        self._most = most + skip
        self._least = skip + 1
        self._size = size
        self._margin = margin
        self._kept: list[tuple[float, int, LocatedEntry, int]] = []  # heap, the oldest first
        self._held = 0  # characters
        self._added = 0
        self.dropped = False
        """Whether entries were dropped."""

    def take(self, log: str, entries: Iterable[LogEntry]) -> bool:
        """Add entries of a log until they are too old; return whether all were added."""
        for entry in entries:
            if self.dropped and entry.time < self._kept[0][0] - self._margin:
                return False
            self.add(log, entry)
        return True

    def add(self, log: str, entry: LogEntry) -> None:
        """Add an entry, and drop the oldest if there are too many."""
        size = sum(map(len, entry.lines)) + 1
        self._added += 1
        heapq.heappush(self._kept, (entry.time, -self._added, LocatedEntry(log, entry), size))
        self._held += size
        while len(self._kept) > self._most or (self._held > self._size and len(self._kept) > self._least):
            self._held -= heapq.heappop(self._kept)[3]
            self.dropped = True

    @property
    def oldest(self) -> float:
        """Time before which entries are not kept."""
        return self._kept[0][0] if self.dropped and self._kept else -inf

    def sorted(self) -> list[LocatedEntry]:
        """Return the entries, the oldest first."""
        return [found for _, _, found, _ in sorted(self._kept, key=lambda kept: kept[:2])]
