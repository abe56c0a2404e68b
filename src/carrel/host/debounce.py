"""Debouncer: debounces list change notifications, to limit how often the lists of a server are read."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable
from typing import Generic, TypeVar

__all__ = ["PAUSES", "Debouncer"]

K = TypeVar("K")

#: Seconds between two reads of a list that changes all the time: first and maximum pause.
PAUSES = (0.1, 10.0)
#: A change is taken without a pause if the last one was more than CALM times its pause, and LEAST_CALM times the first
#: pause, ago.
CALM, LEAST_CALM = 2.0, 10.0


class Debouncer(Generic[K]):
    """Debounced changes, by kind: a rare change is taken at once, frequent changes after exponentially growing pauses.

    Changes of one kind that are put before they are taken count as one change. For example, if a server sends tool list
    notifications all the time, they are taken with pauses of 0, 0.1, 0.2, 0.4 … and at most 10 seconds.
    """

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, float]] = {}
        """When a change is due, and the pause before it, by kind."""
        self._taken: dict[K, tuple[float, float]] = {}
        """When the last change was taken, and the pause before it, by kind."""
        self._news = asyncio.Event()

    def put(self, kinds: Iterable[K]) -> None:
        """Record changes."""
        now = asyncio.get_running_loop().time()
        for kind in kinds:
            if kind in self._due:
                continue
            last, pause = self._taken.get(kind, (-math.inf, 0.0))
            if now - last > max(CALM * pause, LEAST_CALM * PAUSES[0]):
                self._due[kind] = now, 0.0
            else:
                pause = min(max(PAUSES[0], 2 * pause), PAUSES[1])
                self._due[kind] = last + pause, pause
            self._news.set()

    async def take(self) -> Collection[K]:
        """Wait until changes are due, and return their kinds."""
        loop = asyncio.get_running_loop()
        while not (taken := [kind for kind, (when, _) in self._due.items() if when <= loop.time()]):
            self._news.clear()
            alarm = loop.call_at(min(self._due.values())[0], self._news.set) if self._due else None
            try:
                await self._news.wait()
            finally:
                if alarm is not None:
                    alarm.cancel()
        for kind in taken:
            self._taken[kind] = loop.time(), self._due.pop(kind)[1]
        return taken

    def done(self, kinds: Iterable[K]) -> None:
        """Record that taken changes have been processed, and restart their pauses: processing may have taken a long
        time.
        """
        now = asyncio.get_running_loop().time()
        for kind in kinds:
            pause = self._taken[kind][1]
            self._taken[kind] = now, pause
            if kind in self._due:
                pause = self._due[kind][1]
                self._due[kind] = now + pause, pause
