"""ProcessorLimiter: limits the processor time for the lists of one remote server, so that other servers can work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["ProcessorLimiter"]

S = TypeVar("S")
T = TypeVar("T")

#: Bytes of JSON to process per slice, which takes a few milliseconds.
SLICE = 128 * 1024
#: Overhead of one entry, in bytes.
EACH = 128
#: Maximum share of processor time for processing the lists of one server.
SHARE = 0.5


class ProcessorLimiter:
    """Limit on the processor time for the lists of one remote server, across all of its sessions.

    Lists are processed in slices. After each slice, there is a pause, so that the share of processor time is at most
    ``SHARE``. Lists that fit into one slice are processed without a pause.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._done = 0

    async def each(
        self, entries: Iterable[S], work: Callable[[S], T], size: Callable[[S], int] = lambda _: 0
    ) -> list[T]:
        """Call ``work`` for each entry, and return the results; ``size`` returns the size of an entry in bytes."""
        found: list[T] = []
        async with self._lock:
            began = time.thread_time()
            for entry in entries:
                found.append(work(entry))
                self._done += EACH + size(entry)
                if self._done >= SLICE:
                    self._done = 0
                    await asyncio.sleep((time.thread_time() - began) * (1 / SHARE - 1))
                    began = time.thread_time()
        return found
