"""Store in memory: the default of a server, and shared state of several servers in one process.

``MemoryState()`` is the store of one server. Servers that share ``MemoryTables`` are replicas of each other:

    tables = MemoryTables()
    one, other = Server("books", state=MemoryState(tables)), Server("books", state=MemoryState(tables))
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from time import monotonic

from carrel.protocol.connection import MAX_SLOT
from carrel.state.interfaces import Bus, EventLog, Locks, Mailbox, Quotas, RecordTable, Sessions, TaskStore, UsedStates
from carrel.state.memory_bus import MAX_NOTICES, LetterBox, MemoryBus, MemoryMailbox
from carrel.state.memory_tables import (
    MemoryEvents,
    MemoryQuotas,
    MemoryRecords,
    MemorySessions,
    MemoryTasks,
    MemoryUsedStates,
)
from carrel.state.records import LockHolder, ReplicaGone

__all__ = ["MemoryState", "MemoryTables"]


class MemoryTables:
    """Tables that the replicas in one process share. ``notices`` is how many notices the bus keeps."""

    def __init__(self, *, notices: int = MAX_NOTICES, clock: Callable[[], float] = monotonic) -> None:
        self.sessions = MemorySessions(clock)
        self.events = MemoryEvents(clock)
        self.tasks = MemoryTasks(clock)
        self.used = MemoryUsedStates(clock)
        self.quotas = MemoryQuotas(clock)
        self.records = MemoryRecords(clock)
        self.bus = MemoryBus(notices)
        self.boxes: dict[int, LetterBox] = {}
        """Mailboxes of the running replicas, by slot; None is after the last letter."""
        self.locks: dict[str, tuple[LockHolder, float]] = {}
        """Holder of each lock, and when it loses the lock."""
        self._leases: dict[int, float] = {}
        """When the leases that can be lost expire, by slot."""
        self._slots = 0
        self._clock = clock
        self._lockings = 0

    def take_slot(self) -> int:
        """Return a slot that no replica has had."""
        slot = self._slots
        if slot > MAX_SLOT:
            raise RuntimeError(f"There are no slots left: at most {MAX_SLOT + 1}")
        self._slots += 1
        return slot

    def hold(self, slot: int, lease: float) -> None:
        """Open the mailbox of a replica, and begin its lease."""
        self.boxes.setdefault(slot, LetterBox())
        self.renew(slot, lease)

    def renew(self, slot: int, lease: float) -> bool:
        """Begin a lease anew; return False if it is lost."""
        held = self.has_replica(slot)
        if held and lease != math.inf:
            self._leases[slot] = self._clock() + lease
        return held

    def has_replica(self, slot: int) -> bool:
        """Return whether a running replica has this slot."""
        now = self._clock()
        for lost in [slot for slot, expires in self._leases.items() if expires <= now]:
            self.release(lost)
        return slot in self.boxes

    def acquire(self, name: str, slot: int, ttl: float) -> LockHolder:
        """Let a replica take a lock, or hold it for longer, unless another one holds it; return its holder."""
        now = self._clock()
        held = self.locks.get(name)
        if held is not None and held[1] > now and self.has_replica(held[0].slot):
            holder = held[0]
            if holder.slot != slot:
                return holder
        else:
            self._lockings += 1
            holder = LockHolder(slot, self._lockings)
        self.locks[name] = holder, now + ttl
        return holder

    def release(self, slot: int) -> None:
        """Remove the mailbox of a replica, and tell the others."""
        self._leases.pop(slot, None)
        box = self.boxes.pop(slot, None)
        if box is not None:
            box.put_nowait(None)
            if self.boxes:
                self.bus.add(ReplicaGone(slot))


class MemoryLocks:
    """Locks in memory, as one replica sees them."""

    def __init__(self, tables: MemoryTables, slot: int) -> None:
        self._tables = tables
        self.slot = slot

    async def acquire(self, name: str, ttl: float) -> LockHolder:
        """Take a lock for ``ttl`` seconds, or hold it for so long from now on; return its holder."""
        return self._tables.acquire(name, self.slot, ttl)

    async def release(self, name: str) -> None:
        """Release a lock, if this replica holds it."""
        held = self._tables.locks.get(name)
        if held is not None and held[0].slot == self.slot:
            del self._tables.locks[name]


class MemoryState:
    """State of a server in memory: its own, or the ``tables`` that servers in one process share.

    ``lease`` is in seconds; servers in one process need none.
    """

    immediate = True
    on_one_machine = True
    machine = ""

    def __init__(self, tables: MemoryTables | None = None, *, lease: float = math.inf) -> None:
        self.lease = lease
        self.shared = tables is not None
        self._tables = tables = tables or MemoryTables()
        self.slot = tables.take_slot()
        self.bus_name = tables.bus.name
        self.sessions: Sessions = tables.sessions
        self.events: EventLog = tables.events
        self.tasks: TaskStore = tables.tasks
        self.used: UsedStates = tables.used
        self.quotas: Quotas = tables.quotas
        self.records: RecordTable = tables.records
        self.bus: Bus = tables.bus
        self._mailbox = MemoryMailbox(tables, self.slot)
        self.mailbox: Mailbox = self._mailbox
        self._locks = MemoryLocks(tables, self.slot)
        self.locks: Locks = self._locks

    def now(self) -> float:
        """Return the time, in seconds since 1970: all replicas are on one machine."""
        return time.time()

    async def start(self) -> None:
        """Open the mailbox of this replica, and begin its lease."""
        self._tables.hold(self.slot, self.lease)

    async def stop(self) -> None:
        """Remove the mailbox of this replica."""
        self._tables.release(self.slot)

    async def renew(self) -> bool:
        """Begin the lease of the slot anew; return False if it is lost."""
        return self._tables.renew(self.slot, self.lease)

    async def take_slot(self) -> None:
        """Take another slot, after the one before was lost."""
        self._tables.release(self.slot)
        self.slot = self._mailbox.slot = self._locks.slot = self._tables.take_slot()
        self._tables.hold(self.slot, self.lease)

    async def has_replica(self, slot: int) -> bool:
        """Return whether a running replica has this slot."""
        return self._tables.has_replica(slot)
