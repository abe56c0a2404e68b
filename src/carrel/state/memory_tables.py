"""Tables of the store in memory: sessions, events of streams, tasks, used request states and quotas, with lifetimes."""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from carrel.state.records import Replay, SessionRecord, TaskRecord

__all__ = [
    "Lifetimes",
    "MemoryEvents",
    "MemoryQuotas",
    "MemoryRecords",
    "MemorySessions",
    "MemoryTasks",
    "MemoryUsedStates",
]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringValue(msgspec.Struct, gc=False):
    """A value, and when it expires by the clock of the store."""

    value: Any
    expires: float


class Lifetimes(Generic[K, V]):
    """Dictionary whose entries expire. Each new entry makes it look at two old ones, so that no sweep is needed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[K, ExpiringValue] = {}

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
        self._entries[key] = ExpiringValue(value, self._clock() + ttl)

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
        self._values: dict[str, dict[str, bytes]] = {}

    async def create(self, record: SessionRecord, ttl: float) -> str:
        """Store a new session, and return its id."""
        id = secrets.token_urlsafe(16)
        self._records.put(id, record, ttl)
        for table in (self._subscriptions, self._values):
            for old in list(islice(table, 2)):
                self._check(old, table)
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
        self._values.pop(id, None)
        return self._records.pop(id) is not None

    def _check(self, id: str, table: dict[str, Any]) -> None:
        """Drop the row of a session that has expired, and put others behind all."""
        own = table.pop(id)
        if self._records.get(id) is not None:
            table[id] = own

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

    async def put_value(self, id: str, key: str, value: bytes, most: int) -> bool:
        """Store a value in a session; return False if its keys and values would have more than ``most`` bytes."""
        if self._records.get(id) is None:
            return True
        own = {**self._values.get(id, {}), key: value}
        if sum(len(name.encode()) + len(kept) for name, kept in own.items()) > most:
            return False
        self._values[id] = own
        return True

    async def get_value(self, id: str, key: str) -> bytes | None:
        """Return a value of a session, or None if the value is not set or the session has ended."""
        return None if self._records.get(id) is None else self._values.get(id, {}).get(key)

    async def delete_value(self, id: str, key: str) -> None:
        """Remove a value from a session, if it is there."""
        own = self._values.get(id, {})
        own.pop(key, None)
        if not own:
            self._values.pop(id, None)


class StreamEvents:
    """Events of one stream, with their numbers."""

    __slots__ = ("done", "events")

    def __init__(self) -> None:
        self.events: deque[tuple[int, bytes]] = deque()
        self.done = False


class MemoryEvents:
    """Event log in memory."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._streams: Lifetimes[tuple[str, str], StreamEvents] = Lifetimes(clock)

    async def append(self, session: str, stream: str, number: int, event: bytes, oldest: int, ttl: float) -> None:
        """Append a numbered event, delete events with numbers below ``oldest``, and renew the lifetime."""
        key = session, stream
        log = self._streams.get(key)
        if log is None:
            log = StreamEvents()
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
        """Record that the handler of the last step has asked for more input."""
        known = self._steps.get(exchange)
        if known is not None:
            self._steps.put(exchange, (known[0], known[1], True), ttl)


class MemoryRecords:
    """Records in memory, by key."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._records: Lifetimes[str, bytes] = Lifetimes(clock)

    async def get(self, key: str) -> bytes | None:
        """Return a record; None if it is not there (any more)."""
        return self._records.get(key)

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Store a record for ``ttl`` seconds."""
        self._records.put(key, value, ttl)

    async def take(self, key: str) -> bytes | None:
        """Return a record and remove it."""
        return self._records.pop(key)

    async def delete(self, key: str) -> None:
        """Remove a record, if it is there."""
        self._records.pop(key)


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
        missing = max(0.0, missing + amount)
        self._missing.put(name, (missing, now), missing / rate)
        return 0.0
