"""Damping of announced changes: how often the lists of a server are read again, however often it says they changed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable
from typing import Generic, TypeVar

__all__ = ["PAUSES", "Damping"]

K = TypeVar("K")

#: Seconds between two readings of one list that changes all the time: the first pause, and the longest.
PAUSES = (0.1, 10.0)
#: A list that has not changed for so many times its last pause, and the first pause, is read at once again.
CALM, LEAST_CALM = 2.0, 10.0


class Damping(Generic[K]):
    """Announced changes by kind, taken at once if they are rare, and with pauses that double if they are not.

    Changes of one kind that are announced before they are taken are one change. For example, a list of tools whose
    change is announced without end is taken after 0, 0.1, 0.2, 0.4 … and then every 10 seconds.
    """

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, float]] = {}
        """When a change is taken, and the pause before that, by kind."""
        self._taken: dict[K, tuple[float, float]] = {}
        """When the last change was taken, and the pause before that, by kind."""
        self._news = asyncio.Event()

    def put(self, kinds: Iterable[K]) -> None:
        """Note that something has changed."""
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
        """Wait until changes are to be taken, and return their kinds."""
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
