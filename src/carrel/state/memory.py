"""Store in memory: the default of a server, and shared state of several servers in one process.

``MemoryState()`` is the store of one server. Servers that share a ``MemoryStore`` are replicas of each other:

    store = MemoryStore()
    one, other = Server("books", state=MemoryState(store)), Server("books", state=MemoryState(store))
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import deque
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, Generic, TypeVar

import msgspec

from carrel.protocol.connection import MAX_SLOT
from carrel.state.interfaces import Bus, EventLog, Mailbox, Quotas, Sessions, TaskStore, UsedStates
from carrel.state.records import Batch, Letter, Notice, Replay, SessionRecord, TaskRecord

__all__ = ["MemoryState", "MemoryStore"]

#: Number of notices that the bus keeps.
MAX_NOTICES = 4096

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Entry(msgspec.Struct, gc=False):
    """A value, and when it expires by the clock of the store."""

    value: Any
    expires: float


class Lifetimes(Generic[K, V]):
    """Dictionary whose entries expire. Each new entry makes it look at two old ones, so that no sweep is needed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[K, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: K, value: V, ttl: float) -> None:
        """Store a value for ``ttl`` seconds."""
        if key not in self._entries:
            for _ in range(min(2, len(self._entries))):
                oldest = next(iter(self._entries))
                entry = self._entries.pop(oldest)
                if entry.expires > self._clock():
                    self._entries[oldest] = entry
        self._entries[key] = Entry(value, self._clock() + ttl)

    def renew(self, key: K, ttl: float) -> None:
        """Begin the lifetime of an entry anew."""
        self._entries[key].expires = self._clock() + ttl

    def replace(self, key: K, value: V) -> None:
        """Replace a value, and leave its lifetime as it is."""
        self._entries[key].value = value

    def get(self, key: K) -> V | None:
        """Return a value; None if it is not there (any more)."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires <= self._clock():
            del self._entries[key]
            return None
        return entry.value  # type: ignore[no-any-return]

    def pop(self, key: K) -> V | None:
        """Remove a value and return it; None if it is not there (any more)."""
        value = self.get(key)
        self._entries.pop(key, None)
        return value


class MemorySessions:
    """Sessions in memory. An id is 128 random bits."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._records: Lifetimes[str, SessionRecord] = Lifetimes(clock)
        self._subscriptions: dict[str, dict[str, str]] = {}

    async def create(self, record: SessionRecord, ttl: float) -> str:
        """Store a new session, and return its id."""
        id = secrets.token_urlsafe(16)
        self._records.put(id, record, ttl)
        for old in list(self._subscriptions)[:2]:
            self._check(old)
        return id

    async def touch(self, id: str, owner: str | None, ttl: float) -> SessionRecord | None:
        """Return a session and renew its lifetime; None if it has ended, or is of another owner."""
        record = self._records.get(id)
        if record is None or record.owner != owner:
            return None
        self._records.renew(id, ttl)
        return record

    async def update(self, id: str, record: SessionRecord) -> bool:
        """Replace the record of a session; return False if it has ended."""
        if self._records.get(id) is None:
            return False
        self._records.replace(id, record)
        return True

    async def end(self, id: str) -> bool:
        """End a session; return False if it had ended already."""
        self._subscriptions.pop(id, None)
        return self._records.pop(id) is not None

    def _check(self, id: str) -> None:
        """Drop the subscriptions of a session that has expired, and put others behind all."""
        own = self._subscriptions.pop(id)
        if self._records.get(id) is not None:
            self._subscriptions[id] = own

    async def subscribe(self, id: str, uri: str, spelled: str) -> None:
        """Add a subscription to a session."""
        if self._records.get(id) is not None:
            self._subscriptions.setdefault(id, {})[uri] = spelled

    async def unsubscribe(self, id: str, uri: str) -> None:
        """Remove a subscription from a session, if it is there."""
        own = self._subscriptions.get(id)
        if own is not None:
            own.pop(uri, None)
            if not own:
                del self._subscriptions[id]

    async def subscriptions(self, id: str) -> dict[str, str]:
        """Return the subscriptions of a session: the spelling of the client, by URI."""
        return {} if self._records.get(id) is None else dict(self._subscriptions.get(id, ()))


class Stream:
    """Events of one stream, with their numbers."""

    __slots__ = ("done", "events")

    def __init__(self) -> None:
        self.events: deque[tuple[int, bytes]] = deque()
        self.done = False


class MemoryEvents:
    """Event log in memory."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._streams: Lifetimes[tuple[str, str], Stream] = Lifetimes(clock)

    async def append(self, session: str, stream: str, number: int, event: bytes, oldest: int, ttl: float) -> None:
        """Add the event with a number, and drop those with numbers below ``oldest``; renew the lifetime."""
        key = session, stream
        log = self._streams.get(key)
        if log is None:
            log = Stream()
            self._streams.put(key, log, ttl)
        else:
            self._streams.renew(key, ttl)
        log.events.append((number, event))
        while log.events and log.events[0][0] < oldest:
            log.events.popleft()

    async def finish(self, session: str, stream: str) -> None:
        """Record that no event will follow."""
        log = self._streams.get((session, stream))
        if log is not None:
            log.done = True

    async def read(self, session: str, stream: str, after: int) -> Replay | None:
        """Return the events with numbers above ``after``; None if there is no such stream in this session."""
        log = self._streams.get((session, stream))
        if log is None:
            return None
        return Replay([event for event in log.events if event[0] > after], log.done)

    async def drop(self, session: str, stream: str) -> None:
        """Remove a stream, if it is there."""
        self._streams.pop((session, stream))


class MemoryTasks:
    """Records of tasks in memory."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._records: Lifetimes[str, tuple[int, TaskRecord]] = Lifetimes(clock)
        self._owned: dict[str, dict[str, int]] = {}
        self._last = 0

    async def create(self, record: TaskRecord) -> None:
        """Store a new task."""
        self._last += 1
        self._records.put(record.id, (self._last, record), record.ttl_ms / 1000)
        if record.owner:
            self._owned.setdefault(record.owner, {})[record.id] = self._last

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task; None if it is not there (any more)."""
        found = self._records.get(id)
        return None if found is None else found[1]

    async def save(self, record: TaskRecord) -> bool:
        """Replace the record of a task; return False if it is over or not there."""
        found = self._records.get(record.id)
        if found is None or found[1].over:
            return False
        self._records.replace(record.id, (found[0], record))
        return True

    async def remove(self, id: str) -> None:
        """Remove a task, if it is there."""
        found = self._records.pop(id)
        if found is not None and found[1].owner:
            self._disown(found[1].owner, id)

    def _disown(self, owner: str, id: str) -> None:
        own = self._owned[owner]
        del own[id]
        if not own:
            del self._owned[owner]

    async def list(self, owner: str, after: int, limit: int) -> list[tuple[int, TaskRecord]]:
        """Return tasks of an owner, oldest first, each with its position."""
        page: list[tuple[int, TaskRecord]] = []
        for id, number in list(self._owned.get(owner, {}).items()):
            if number <= after:
                continue
            found = self._records.get(id)
            if found is None:
                self._disown(owner, id)
            elif len(page) < limit:
                page.append(found)
            else:
                break
        return page


class MemoryUsedStates:
    """Used request states in memory: the last step of each exchange, its answers, and whether it asked more."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._steps: Lifetimes[bytes, tuple[int, bytes, bool]] = Lifetimes(clock)

    async def use(self, exchange: bytes, step: int, answers: bytes, ttl: float) -> bool:
        """Take a step with the digest of its answers; return False if it, or another one in its place, was taken."""
        known = self._steps.get(exchange)
        if known is None:
            self._steps.put(exchange, (step, answers, False), ttl)
            return True
        last, given, asked = known
        if not asked or step < last or (step == last and answers != given):
            return False
        self._steps.put(exchange, (step, answers, False), ttl)
        return True

    async def asked(self, exchange: bytes, ttl: float) -> None:
        """Record that the handler of the last step has ended with further questions."""
        known = self._steps.get(exchange)
        if known is not None:
            self._steps.put(exchange, (known[0], known[1], True), ttl)


class MemoryQuotas:
    """Token buckets in memory. A bucket that has filled up again is forgotten."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._missing: Lifetimes[str, tuple[float, float]] = Lifetimes(clock)

    async def take(self, name: str, amount: float, capacity: float, seconds: float) -> float:
        """Take tokens from a bucket; return 0, or the seconds after which they will be there."""
        if amount > capacity:
            return math.inf
        now, rate = self._clock(), capacity / seconds
        known = self._missing.get(name)
        missing = 0.0 if known is None else max(0.0, known[0] - (now - known[1]) * rate)
        lacking = missing + amount - capacity
        if lacking > 0:
            return lacking / rate
        full_in = (missing + amount) / rate
        self._missing.put(name, (missing + amount, now), full_in)
        return 0.0


class MemoryBus:
    """Bus in memory. It keeps the last ``size`` notices."""

    def __init__(self, size: int) -> None:
        self._notices: deque[Notice] = deque(maxlen=size)
        self._last = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def publish(self, notice: Notice) -> None:
        """Add a notice."""
        self._last += 1
        self._notices.append(notice)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def position(self) -> int:
        """Return the position after the last notice."""
        return self._last

    async def read(self, after: int) -> Batch:
        """Return the notices after a position; wait until there are some."""
        while self._last <= after:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        missed = self._last - after
        kept = list(self._notices)
        return Batch(self._last, kept[-missed:], missed > len(kept))


class MemoryMailbox:
    """Mailboxes in memory, as the replica in one slot sees them."""

    def __init__(self, boxes: dict[int, asyncio.Queue[Letter]], slot: int) -> None:
        self._boxes = boxes
        self._slot = slot

    async def put(self, slot: int, letter: Letter) -> bool:
        """Add a letter; return False if no replica has this slot (any more)."""
        box = self._boxes.get(slot)
        if box is None:
            return False
        box.put_nowait(letter)
        return True

    async def take(self) -> list[Letter]:
        """Return and remove the letters to this replica, oldest first; wait until there are some."""
        box = self._boxes[self._slot]
        letters = [await box.get()]
        while not box.empty():
            letters.append(box.get_nowait())
        return letters


class MemoryStore:
    """Tables that the replicas in one process share. ``notices`` is how many notices the bus keeps."""

    def __init__(self, *, notices: int = MAX_NOTICES, clock: Callable[[], float] = monotonic) -> None:
        self.sessions = MemorySessions(clock)
        self.events = MemoryEvents(clock)
        self.tasks = MemoryTasks(clock)
        self.used = MemoryUsedStates(clock)
        self.quotas = MemoryQuotas(clock)
        self.bus = MemoryBus(notices)
        self.boxes: dict[int, asyncio.Queue[Letter]] = {}
        self._slots = 0

    def take_slot(self) -> int:
        """Return a slot that no replica has had."""
        slot = self._slots
        if slot > MAX_SLOT:
            raise RuntimeError(f"There are no slots left: at most {MAX_SLOT + 1}")
        self._slots += 1
        return slot


class MemoryState:
    """State of a server in memory: its own, or a ``store`` that servers in one process share."""

    immediate = True

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.shared = store is not None
        self._store = store = store or MemoryStore()
        self.slot = store.take_slot()
        self.sessions: Sessions = store.sessions
        self.events: EventLog = store.events
        self.tasks: TaskStore = store.tasks
        self.used: UsedStates = store.used
        self.quotas: Quotas = store.quotas
        self.bus: Bus = store.bus
        self.mailbox: Mailbox = MemoryMailbox(store.boxes, self.slot)

    async def start(self) -> None:
        """Open the mailbox of this replica."""
        self._store.boxes.setdefault(self.slot, asyncio.Queue())

    async def stop(self) -> None:
        """Remove the mailbox of this replica."""
        self._store.boxes.pop(self.slot, None)
