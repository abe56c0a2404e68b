"""Watch on a provider that replicas share: one of them watches for all, and publishes the changes on the bus.

The replica that holds the lock of the watch watches the provider. The others send it letters with the URIs to which
their clients have subscribed. When the lock has another holder, changes may have been missed meanwhile: each replica
tells its clients to look again, once the new holder listens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import TYPE_CHECKING

from carrel.catalog.provider import ProviderInterest, Subscribed
from carrel.log import Log
from carrel.server.provider_watch import ProviderWatch
from carrel.state.interfaces import StoreUnavailable
from carrel.state.records import Changed, LockHolder, ReplicaGone, SlotExpired, WatchedLetter, WatchLetter

if TYPE_CHECKING:
    from carrel.catalog.provider import Change, Provider
    from carrel.server.runtime import Runtime
    from carrel.state.replica import Replica

__all__ = ["SharedInterest", "SharedWatch", "listen"]

log = Log("carrel")

#: Seconds for which a replica holds the lock of a watch, unless it acquires it again.
LEASE = 10.0
#: Seconds between two attempts to acquire it; when the store is away, and otherwise.
RETRY = 1.0
RENEWAL = LEASE / 3
#: Seconds in which changed subscriptions are collected for one letter.
QUIET = 0.05


class SharedInterest(ProviderInterest):
    """The subscribed resources of one provider, here and on the replicas that this one watches for."""

    def __init__(self, outer: Subscribed, owns: Callable[[str], bool]) -> None:
        super().__init__(outer, owns)
        self.others: dict[int, set[str]] = {}
        """Subscribed URIs of other replicas, by slot."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when subscriptions here have changed."""

    @property
    def here(self) -> Collection[str]:
        """URIs with a subscription here, in normal form."""
        return super().uris

    @property
    def uris(self) -> Collection[str]:
        """URIs with a subscription, in normal form."""
        return {*self.here, *(uri for uris in self.others.values() for uri in uris)}

    @uris.setter
    def uris(self, _: Collection[str]) -> None:
        """No-op: the catalog sets the URIs."""

    def notify(self) -> None:
        """Wake up the tasks that wait for a change of ``uris``."""
        super().notify()
        self.on_change()


class SharedWatch(ProviderWatch):
    """Watch on one provider by the replica that holds the lock ``key``."""

    _interest: SharedInterest

    def __init__(
        self,
        provider: Provider,
        runtime: Runtime,
        interest: SharedInterest,
        forming: set[ProviderWatch],
        key: str,
    ) -> None:
        self.key = key
        self._state = runtime.replica.state
        self._replica = runtime.replica
        self._holder: LockHolder | None = None
        self._watching: asyncio.Task[None] | None = None
        """Watch of this replica, which holds the lock."""
        self._is_watching = False
        """Whether that has begun to listen, or has ended."""
        self._waiting: set[int] = set()
        """Replicas that wait until it listens."""
        self._told: tuple[int, set[str]] | None = None
        """URIs that the holder, another replica, was told of, and the slot of this one at that time."""
        self._asked = False
        """Whether the holder has not confirmed yet that it watches for this replica."""
        self._wake = asyncio.Event()
        self._due = -inf
        """When the lock is acquired again, by the clock of the event loop."""
        interest.on_change = self._wake.set
        super().__init__(provider, runtime, interest, forming)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    if loop.time() >= self._due:
                        self._due = loop.time() + RENEWAL
                        await self._acquire()
                    if self._watching is None:
                        await self._tell()
                except StoreUnavailable:
                    self._due = loop.time() + RETRY
                except Exception:
                    log.exception("the watch on %s cannot be shared", self.provider.name)
                    self._due = loop.time() + RETRY
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, self._due - loop.time())):
                        await self._wake.wait()
                        await asyncio.sleep(QUIET)
                self._wake.clear()
        finally:
            await self._end()

    async def _acquire(self) -> None:
        holder = await self._state.locks.acquire(self.key, LEASE)
        if holder == self._holder:
            return
        self._holder, self._told = holder, None
        if holder.slot != self._state.slot:
            await self._end_here()
            self._interest.others.clear()
            self._waiting.clear()
        elif self._watching is None:
            self._watching = asyncio.ensure_future(self._follow())
            self._watching.add_done_callback(lambda _: self._confirm())

    async def _tell(self) -> None:
        """Tell the holder which resources clients of this replica have subscribed to."""
        holder, slot, uris = self._holder, self._state.slot, set(self._interest.here)
        before, told = self._told or (-1, set[str]())
        if holder is None:
            return
        if before != slot:
            self._asked = True
            letter = WatchLetter(self.key, slot, sorted(uris), first=True)
        elif uris != told:
            letter = WatchLetter(self.key, slot, sorted(uris - told), sorted(told - uris))
        else:
            return
        self._told = None
        if await self._state.mailbox.put(holder.slot, letter):
            self._told = slot, uris
        else:
            self._due = min(self._due, asyncio.get_running_loop().time() + RETRY)

    async def _end(self) -> None:
        may_hold = self._holder is None or self._watching is not None
        await self._end_here()
        if may_hold:
            with contextlib.suppress(StoreUnavailable):
                await self._state.locks.release(self.key)

    async def _end_here(self) -> None:
        task, self._watching, self._is_watching = self._watching, None, False
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # The holder

    def _begin(self) -> None:
        super()._begin()
        if self._watching is not None:
            self._confirm()

    def _confirm(self) -> None:
        """Tell the replicas that wait that this one listens for changes."""
        if self._watching is not None:
            self._is_watching = True
            for slot in self._waiting:
                self._replica.notify(slot, WatchedLetter(self.key, self._state.slot))
            self._waiting.clear()

    def _publish(self, changes: Collection[Change]) -> None:
        self._runtime.published(changes, {}, seen="here", provider=self.provider.name)

    def take(self, letter: WatchLetter) -> None:
        """Watch for another replica, too."""
        others = self._interest.others
        if letter.first:
            others[letter.slot] = set()
            self._waiting.add(letter.slot)
        uris = others.get(letter.slot)
        if uris is not None:
            uris.update(letter.added)
            uris.difference_update(letter.removed)
            self._interest.notify()
        if self._is_watching:
            self._confirm()

    # Other replicas

    def take_confirmation(self, letter: WatchedLetter) -> None:
        """Take the holder's word that it watches for this replica."""
        if self._asked and self._holder is not None and letter.slot == self._holder.slot:
            self._asked = False
            self._begin()

    def take_change(self, changed: Changed) -> None:
        """Drop what the provider has cached of resources that have changed, as another replica has seen."""
        if self._watching is None and changed.provider == self.provider.name:
            self.provider.outdated(changed.uris)

    def forget(self, slot: int) -> None:
        """Forget a replica that has gone. If it was the holder, try to take its place."""
        self._interest.others.pop(slot, None)
        self._waiting.discard(slot)
        if self._holder is not None and self._holder.slot == slot:
            self.retry()

    def retry(self) -> None:
        """Acquire the lock now."""
        self._due = -inf
        self._wake.set()


def listen(replica: Replica, watches: Mapping[str, SharedWatch]) -> None:
    """Pass the messages of other replicas to the watches, by key."""

    def take(letter: WatchLetter) -> None:
        if letter.watch in watches:
            watches[letter.watch].take(letter)

    def take_confirmation(letter: WatchedLetter) -> None:
        if letter.watch in watches:
            watches[letter.watch].take_confirmation(letter)

    def take_change(changed: Changed) -> None:
        if changed.provider:
            for watch in watches.values():
                watch.take_change(changed)

    def forget(notice: ReplicaGone) -> None:
        for watch in watches.values():
            watch.forget(notice.slot)

    def retry(_: SlotExpired) -> None:
        for watch in watches.values():
            watch.retry()

    replica.on(WatchLetter, take)
    replica.on(WatchedLetter, take_confirmation)
    replica.on(Changed, take_change)
    replica.on(ReplicaGone, forget)
    replica.on(SlotExpired, retry)
