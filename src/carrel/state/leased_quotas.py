"""LeasedQuotas: token buckets of a store that other processes share, without a request to the store for each take.

A replica leases a tenth of a bucket at a time, and takes tokens from its lease at once. It fetches the next lease in
the background when half of the lease is used. Tokens that are not used within ``KEEP`` seconds are put back, and all
tokens are put back when the replica stops. Leases only move tokens: all replicas together never take more than the
bucket has. Buckets of fewer than 20 tokens are not worth a lease.

While the store is away, each replica counts on its own.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from carrel.log import Log
from carrel.state.interfaces import StoreUnavailable
from carrel.state.memory_tables import MemoryQuotas

if TYPE_CHECKING:
    from carrel.state.interfaces import Quotas

__all__ = ["LeasedQuotas"]

#: Part of a bucket that is leased at a time.
SHARE = 0.1
#: Seconds for which unused tokens are kept.
KEEP = 5.0
#: Seconds for which the remembered content of an empty bucket counts; other replicas may put tokens back.
FRESH = 1.0
#: Seconds that a request waits for the store, and for which it is not asked again if it has not answered.
PATIENCE = 0.25

log = Log("carrel")


class LeasedBucket:
    """Tokens of one bucket that this replica may take."""

    __slots__ = ("at", "capacity", "fetching", "full", "known", "left", "rate", "seconds", "used")

    def __init__(self, capacity: float, seconds: float) -> None:
        self.capacity = capacity
        self.seconds = seconds
        self.rate = capacity / seconds
        self.left = 0.0
        self.used = 0.0
        """Tokens that were used since unused tokens were last put back."""
        self.full = False
        """Whether the bucket had a whole lease when it was last asked."""
        self.known: float | None = None
        """Tokens that were in the bucket at the time ``at``, if there were too few."""
        self.at = 0.0
        self.fetching: asyncio.Task[None] | None = None

    def wait_for(self, amount: float, now: float) -> float:
        """Return the seconds after which the bucket will have the tokens, as far as this is known; else 0."""
        if self.known is None or now - self.at > FRESH:
            return 0.0
        return max(0.0, (amount - self.left - self.known) / self.rate - (now - self.at))


class LeasedQuotas:
    """Token buckets of the ``quotas`` of a store, leased. ``clock`` returns a time in seconds."""

    def __init__(self, quotas: Quotas, clock: Callable[[], float] = time.monotonic) -> None:
        self._quotas = quotas
        self._clock = clock
        self._leases: dict[str, LeasedBucket] = {}
        self._alone = MemoryQuotas(clock)
        """Buckets for the time when the store is away."""
        self._away_until = -math.inf
        self._sweeping: asyncio.Task[None] | None = None

    async def take(self, name: str, amount: float, capacity: float, seconds: float) -> float:
        """Take tokens from a bucket; return 0, or the seconds after which they will be there."""
        if amount > capacity:
            return math.inf
        lease = self._leases.get(name)
        if lease is None or (lease.capacity, lease.seconds) != (capacity, seconds):
            lease = self._leases[name] = LeasedBucket(capacity, seconds)
        while lease.left < amount:
            wait = lease.wait_for(amount, self._clock())
            if wait > 0:
                return wait
            if not await self._fetched(name, lease, amount - lease.left):
                return await self._alone.take(name, amount, capacity, seconds)
        lease.left -= amount
        lease.used += amount
        if lease.full and lease.left < SHARE * capacity / 2 and SHARE * capacity >= 2 * amount:
            self._fetch(name, lease, amount)
        return 0.0

    async def _fetched(self, name: str, lease: LeasedBucket, least: float) -> bool:
        """Wait for the next lease of a bucket; return False if the store is away."""
        fetching = self._fetch(name, lease, least)
        if self._clock() < self._away_until:
            return False
        done, _ = await asyncio.wait((fetching,), timeout=PATIENCE)
        if not done:
            self._away_until = self._clock() + PATIENCE
            return False
        return fetching.exception() is None

    def _fetch(self, name: str, lease: LeasedBucket, least: float) -> asyncio.Task[None]:
        """Begin to fetch the next lease of a bucket, unless it is being fetched."""
        if lease.fetching is None:
            lease.fetching = asyncio.create_task(self._lease(name, lease, least))
            lease.fetching.add_done_callback(lambda task: self._end(lease, task))
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep())
        return lease.fetching

    @staticmethod
    def _end(lease: LeasedBucket, task: asyncio.Task[None]) -> None:
        lease.fetching = None
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, StoreUnavailable):
            log.error("leasing tokens of a limit failed", exc_info=error)

    async def _lease(self, name: str, lease: LeasedBucket, least: float) -> None:
        """Take a tenth of a bucket. If there is less, take half of it, but at least ``least``."""
        part = max(least, SHARE * lease.capacity)
        for _ in range(2):
            wait = await self._quotas.take(name, part, lease.capacity, lease.seconds)
            if wait == 0:
                lease.left += part
                lease.full = part >= SHARE * lease.capacity
                lease.known = None
                return
            lease.full, lease.known = False, part - wait * lease.rate
            # Ask later by a random time, so that the same replica is not always the first to ask.
            most = min(2 * max(0.0, least - lease.known) / lease.rate, FRESH)
            lease.at = self._clock() + random.uniform(0, most)  # noqa: S311  (not for secrets)
            if lease.known < least:
                return
            part = max(least, lease.known / 2)

    async def _sweep(self) -> None:
        while self._leases:
            await asyncio.sleep(KEEP)
            await self.put_back()
        self._sweeping = None

    async def put_back(self) -> None:
        """Put back tokens of which fewer have been used since the last call than are left."""
        backs = []
        for name, lease in list(self._leases.items()):
            unused = lease.left - lease.used
            if unused > 0:
                lease.left -= unused
                backs.append(self._put_back(name, lease, unused))
            if not lease.used and lease.fetching is None:
                del self._leases[name]
            lease.used = 0.0
        await asyncio.gather(*backs, return_exceptions=True)

    async def _put_back(self, name: str, lease: LeasedBucket, amount: float) -> None:
        await self._quotas.take(name, -amount, lease.capacity, lease.seconds)

    async def stop(self) -> None:
        """Put all tokens back."""
        tasks = [lease.fetching for lease in self._leases.values() if lease.fetching is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
            self._sweeping = None
        leases, self._leases = self._leases, {}
        backs = [self._put_back(name, lease, lease.left) for name, lease in leases.items() if lease.left > 0]
        await asyncio.gather(*backs, return_exceptions=True)
