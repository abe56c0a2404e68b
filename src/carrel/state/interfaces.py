"""Interfaces of the state that replicas of a server share. ``carrel.state.memory`` is the default implementation.

Every implementation is held to the same contract by ``carrel.state.contract``. A stateless request uses none of this,
unless it belongs to a task or continues an earlier request.
"""

from __future__ import annotations

from typing import Protocol

from carrel.state.records import Letter, LockHolder, Notice, NoticeBatch, Replay, SessionRecord, TaskRecord

__all__ = [
    "Bus",
    "EventLog",
    "LeaseExpired",
    "Locks",
    "Mailbox",
    "Quotas",
    "RecordTable",
    "Sessions",
    "State",
    "StoreUnavailable",
    "TaskStore",
    "UsedStates",
]


class LeaseExpired(Exception):
    """The replica has no slot any more, because its lease was not renewed in time."""


class StoreUnavailable(Exception):
    """The store cannot be reached, or refuses to work. The store logs only the first failure of an outage."""


class Sessions(Protocol):
    """Sessions, each with its record, its subscriptions, and values of handlers."""

    async def create(self, record: SessionRecord, ttl: float) -> str:
        """Store a new session, and return its id: at least 128 bits that cannot be guessed, as visible ASCII."""

    async def touch(self, id: str, owner: str | None, ttl: float) -> SessionRecord | None:
        """Return a session and renew its lifetime; None if it has ended, or is of another owner."""

    async def update(self, id: str, record: SessionRecord) -> bool:
        """Replace the record of a session; return False if it has ended."""

    async def end(self, id: str) -> bool:
        """End a session; return False if it had ended already."""

    async def subscribe(self, id: str, uri: str, spelled: str) -> None:
        """Add a subscription to a session, spelled as the client does; does nothing if the session has ended."""

    async def unsubscribe(self, id: str, uri: str) -> None:
        """Remove a subscription from a session, if it is there."""

    async def subscriptions(self, id: str) -> dict[str, str]:
        """Return the subscriptions of a session: the spelling of the client, by URI."""

    async def put_value(self, id: str, key: str, value: bytes, most: int) -> bool:
        """Store a value in a session, in place of an earlier one with its key; nothing if the session has ended.

        Returns False, and stores nothing, if its keys (in UTF-8) and values would have more than ``most`` bytes.
        """

    async def get_value(self, id: str, key: str) -> bytes | None:
        """Return a value of a session, or None if the value is not set or the session has ended."""

    async def delete_value(self, id: str, key: str) -> None:
        """Remove a value from a session, if it is there."""


class EventLog(Protocol):
    """Events of resumable streams. A stream has one writer; its session is part of its key."""

    async def append(self, session: str, stream: str, number: int, event: bytes, oldest: int, ttl: float) -> None:
        """Append a numbered event, delete events with numbers below ``oldest``, and renew the lifetime."""

    async def finish(self, session: str, stream: str) -> None:
        """Record that no event will follow."""

    async def read(self, session: str, stream: str, after: int) -> Replay | None:
        """Return the events with numbers above ``after``; None if there is no such stream in this session."""

    async def drop(self, session: str, stream: str) -> None:
        """Remove a stream, if it is there."""


class Bus(Protocol):
    """Notices to all replicas, in the same order for each. Positions grow, and are below 10^17."""

    async def publish(self, notice: Notice) -> None:
        """Add a notice. The replica that publishes it reads it too."""

    async def position(self) -> int:
        """Return the position after the last notice."""

    async def read(self, after: int) -> NoticeBatch:
        """Return the notices after a position; wait until there are some."""


class Mailbox(Protocol):
    """Letters to one replica, by slot."""

    async def put(self, slot: int, letter: Letter) -> bool:
        """Add a letter; return False if no replica has this slot (any more)."""

    async def take(self) -> list[Letter]:
        """Return and remove the letters to this replica, oldest first; wait until there are some.

        Raises:
            LeaseExpired: this replica has no slot any more.
        """


class TaskStore(Protocol):
    """Records of tasks. A terminal status is final: the first one that is saved stands."""

    async def create(self, record: TaskRecord) -> None:
        """Store a new task, for ``record.ttl_ms`` milliseconds."""

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task; None if it is not there (any more)."""

    async def save(self, record: TaskRecord) -> bool:
        """Replace the record of a task; return False if it is over or not there. Its lifetime stays as it was."""

    async def remove(self, id: str) -> None:
        """Remove a task, if it is there."""

    async def list(self, owner: str, after: int, limit: int) -> list[tuple[int, TaskRecord]]:
        """Return tasks of an owner, oldest first, each with its position; ``after`` is a position, 0 at first."""


class UsedStates(Protocol):
    """Request states that were used: each step of an exchange (multi round-trip request) is taken once."""

    async def use(self, exchange: bytes, step: int, answers: bytes, ttl: float) -> bool:
        """Take a step with the digest of its answers; return False if it, or another one in its place, was taken.

        The same step with the same answers may be taken again if the handler has asked for more input.
        """

    async def asked(self, exchange: bytes, ttl: float) -> None:
        """Record that the handler of the last step has asked for more input."""


class Quotas(Protocol):
    """Token buckets, by name."""

    async def take(self, name: str, amount: float, capacity: float, seconds: float) -> float:
        """Take tokens from a bucket of ``capacity``, which fills from empty in ``seconds``.

        Returns 0 if they were there, and otherwise the seconds after which they will be (infinite if there are never so
        many); then none are taken. A bucket begins full. A negative amount puts tokens back, up to the capacity.
        """


class RecordTable(Protocol):
    """Records of other parts of a server, such as logins, by key. Each has a lifetime in seconds."""

    async def get(self, key: str) -> bytes | None:
        """Return a record; None if it is not there (any more)."""

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Store a record, in place of an earlier one with its key."""

    async def take(self, key: str) -> bytes | None:
        """Return a record and remove it: only one of several concurrent callers gets it."""

    async def delete(self, key: str) -> None:
        """Remove a record, if it is there."""


class Locks(Protocol):
    """Locks, by name. One replica holds a lock, until it releases it, loses its slot, or does not acquire it again."""

    async def acquire(self, name: str, ttl: float) -> LockHolder:
        """Take a lock for ``ttl`` seconds, or hold it for so long from now on; return its holder.

        The holder is another replica if it holds the lock already.
        """

    async def release(self, name: str) -> None:
        """Release a lock, if this replica holds it."""


class State(Protocol):
    """Shared state as one replica sees it."""

    sessions: Sessions
    events: EventLog
    bus: Bus
    mailbox: Mailbox
    tasks: TaskStore
    used: UsedStates
    quotas: Quotas
    records: RecordTable
    locks: Locks

    @property
    def slot(self) -> int:
        """Number of this replica, 0 to ``MAX_SLOT``; valid after ``start``. No other replica has it meanwhile."""

    @property
    def lease(self) -> float:
        """Seconds after which the slot is lost unless it is renewed; infinite if it is never lost."""

    @property
    def bus_name(self) -> str:
        """Name of the bus, of letters and digits: a new bus has a new one; valid after ``start``."""

    @property
    def shared(self) -> bool:
        """Whether other replicas use the same store: only then are bus and mailbox read.

        A store that is not shared is in this process, and ``immediate``.
        """

    @property
    def on_one_machine(self) -> bool:
        """Whether all replicas are on the same machine: each of them sees changes of local files."""

    @property
    def machine(self) -> str:
        """Name that replicas have in common if they are on the same machine; empty if that is not known."""

    @property
    def immediate(self) -> bool:
        """Whether no method waits, except ``Bus.read`` and ``Mailbox.take``: then they need no task."""

    def now(self) -> float:
        """Return the time by a clock that all replicas share, in seconds since 1970; valid after ``start``."""

    async def start(self) -> None:
        """Connect, and take a slot."""

    async def renew(self) -> bool:
        """Begin the lease of the slot anew; return False if it is lost.

        A slot of another replica that is lost is published as ``ReplicaGone`` by then.
        """

    async def take_slot(self) -> None:
        """Take another slot, after the one before was lost."""

    async def has_replica(self, slot: int) -> bool:
        """Return whether a running replica has this slot."""

    async def stop(self) -> None:
        """Give the slot back, and disconnect."""
