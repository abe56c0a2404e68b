"""Connections between two replicas: messages in both directions, through their mailboxes.

One replica offers a service by name, others open connections to the service, and both ends send and receive.
A message that is too long for a letter is put into short-lived records of the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeAlias, TypeVar

from carrel.log import Log
from carrel.state.interfaces import State, StoreUnavailable
from carrel.state.records import ConnectionLetter, Letter, SlotExpired

__all__ = ["MAX_MESSAGE", "MailboxConnection", "MailboxConnections", "ReplicaLost", "Service"]

T = TypeVar("T")
log = Log("carrel")

#: Seconds between the letters with which the replica that has opened a connection shows that it is alive.
PING = 5.0
#: Seconds without a letter after which a served connection is lost.
PATIENCE = 30.0
#: Seconds after which sending is tried again when the store has failed.
RETRY = 0.5
#: Bytes of a message that are put into a letter. Longer messages are put into records.
MAX_LETTER = 64 * 1024
#: Bytes of one record of a long message, and the seconds for which it is kept.
PART = 512 * 1024
PART_TTL = 120.0
#: Maximum number of bytes of a message.
MAX_MESSAGE = 64 * 1024 * 1024


class MailingReplica(Protocol):
    """Interface of ``Replica`` for connections."""

    state: State

    def on(self, kind: type[T], handler: Callable[[T], None]) -> None:
        """Call a handler with each letter of a kind, and with ``SlotExpired``."""

    def check_slot(self) -> None:
        """Check that the lease of the slot has not expired."""

    async def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of an operation of the store that a request needs."""

    def notify(self, slot: int, letter: Letter) -> None:
        """Send a letter."""

    def write(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run an operation of the store after all earlier ones."""


class ReplicaLost(Exception):
    """The other replica has stopped, has lost its slot, does not have the service, or has closed the connection."""


class MailboxConnection:
    """One end of a connection. The connection is lost when the other end is closed or its replica is gone."""

    def __init__(self, replica: MailingReplica, slot: int, id: str) -> None:
        self.slot = slot
        self.id = id
        self.lost = asyncio.Event()
        """Set when no message can be sent any more."""
        self.alive = True
        """Whether a letter has arrived since this was set to False."""
        self._replica = replica
        self._here = replica.state.slot
        self._incoming: deque[ConnectionLetter] = deque()
        self._outgoing: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._received = self._sent = 0
        self._writing: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        """Number of messages that are not sent yet."""
        return len(self._outgoing)

    @property
    def queued_bytes(self) -> int:
        """Bytes of the messages that are not sent yet."""
        return sum(map(len, self._outgoing))

    def send(self, message: bytes) -> None:
        """Send a message after all earlier ones, also if the store is away meanwhile; a no-op if the connection is
        lost.

        Raises:
            ValueError: the message has more than ``MAX_MESSAGE`` bytes.
        """
        if len(message) > MAX_MESSAGE:
            raise ValueError(f"a message to another replica has {len(message)} bytes, more than {MAX_MESSAGE}")
        if not self.lost.is_set():
            self._outgoing.append(message)
            if self._writing is None:
                self._writing = asyncio.create_task(self._write())

    async def receive(self) -> bytes:
        """Wait for the next message, and return it.

        Raises:
            ReplicaLost: the connection is lost, and all messages that arrived before have been received.
        """
        while not self._incoming:
            if self.lost.is_set():
                raise ReplicaLost
            self._arrived.clear()
            await self._arrived.wait()
        letter = self._incoming.popleft()
        if not letter.parts:
            return letter.body
        parts = []
        for index in range(letter.parts):
            part = await self._read(self._part(letter.slot, letter.number, index))
            if part is None:
                self.lose()
                raise ReplicaLost
            parts.append(part)
        return b"".join(parts)

    async def sent(self) -> None:
        """Wait until all messages are sent, or the connection is lost."""
        if self._writing is not None:
            await asyncio.wait((self._writing,))

    def take(self, letter: ConnectionLetter) -> None:
        """Take a letter of the other end. A repeated letter, whose first delivery seemed to fail, is ignored."""
        if letter.number > self._received:
            self._received = letter.number
            self._incoming.append(letter)
            self._arrived.set()

    def lose(self) -> None:
        """Record that the connection is lost."""
        self.lost.set()
        self._outgoing.clear()
        self._arrived.set()

    def stop(self) -> None:
        """Stop sending."""
        self.lose()
        if self._writing is not None:
            self._writing.cancel()

    def letter(self, kind: str, body: bytes = b"", number: int = 0, parts: int = 0) -> ConnectionLetter:
        """Return a letter to the other end."""
        return ConnectionLetter(self.id, self._here, kind, body, number, parts)

    def _part(self, slot: int, number: int, index: int) -> str:
        """Return the key of the record with a part of a long message from a slot."""
        return f"connection {self.id} {slot} {number} {index}"

    async def _read(self, key: str) -> bytes | None:
        """Return a part of a long message, and remove it."""
        records = self._replica.state.records
        while True:
            try:
                part = await records.get(key)
            except StoreUnavailable:
                if self.lost.is_set():
                    return None
                await asyncio.sleep(RETRY)
                continue
            self._replica.write(records.delete(key))
            return part

    async def _write(self) -> None:
        try:
            while self._outgoing:
                try:
                    await self._put(self._outgoing[0])
                except StoreUnavailable:
                    await asyncio.sleep(RETRY)
                    continue
                if self._outgoing:
                    self._outgoing.popleft()
                    self._sent += 1
        except Exception:
            log.exception("a message to another replica could not be sent")
            self.lose()
        finally:
            self._writing = None

    async def _put(self, message: bytes) -> None:
        number, state = self._sent + 1, self._replica.state
        letter = self.letter("message", message, number)
        if len(message) > MAX_LETTER:
            parts = [message[start : start + PART] for start in range(0, len(message), PART)]
            for index, part in enumerate(parts):
                await state.records.put(self._part(self._here, number, index), part, PART_TTL)
            letter = self.letter("message", b"", number, len(parts))
        if not await state.mailbox.put(self.slot, letter):
            self.lose()


Service: TypeAlias = Callable[[MailboxConnection], Awaitable[None]]
"""Serves one connection, and is cancelled when the connection is lost."""


class MailboxConnections:
    """Connections of one replica with others, which open them to a service by name."""

    def __init__(self, replica: MailingReplica) -> None:
        self._replica = replica
        self._services: dict[str, Service] = {}
        self._ends: dict[str, MailboxConnection] = {}
        self._serving: set[asyncio.Task[None]] = set()
        replica.on(ConnectionLetter, self._on_letter)
        replica.on(SlotExpired, self._on_slot_expired)

    def serve(self, name: str, service: Service) -> None:
        """Offer a service to other replicas."""
        self._services[name] = service

    def withdraw(self, name: str) -> None:
        """Stop offering a service. Its connections continue."""
        self._services.pop(name, None)

    @asynccontextmanager
    async def open(self, slot: int, name: str) -> AsyncIterator[MailboxConnection]:
        """Open a connection to a service of the replica ``slot``, and close it in the end.

        If the replica does not have the service, the connection is lost.

        Raises:
            ReplicaLost: no replica has this slot.
            ServerUnavailable: the store has failed, or this replica has lost its own slot.
        """
        replica = self._replica
        replica.check_slot()
        connection = MailboxConnection(replica, slot, secrets.token_hex(16))
        self._ends[connection.id] = connection
        try:
            if not await replica.ask(replica.state.mailbox.put(slot, connection.letter("open", name.encode()))):
                raise ReplicaLost
        except BaseException:
            del self._ends[connection.id]
            raise
        pinging = asyncio.create_task(self._ping(connection))
        try:
            yield connection
        finally:
            pinging.cancel()
            self._close(connection)

    async def _ping(self, connection: MailboxConnection) -> None:
        """Lose a connection if the other replica is gone. The other end loses it if it gets no letters."""
        while True:
            await asyncio.sleep(PING)
            with contextlib.suppress(StoreUnavailable):
                if not await self._replica.state.mailbox.put(connection.slot, connection.letter("ping")):
                    connection.lose()
                    return

    def _close(self, connection: MailboxConnection) -> None:
        lost = connection.lost.is_set()
        connection.stop()
        if self._ends.pop(connection.id, None) is not None and not lost:
            self._replica.notify(connection.slot, connection.letter("close"))

    async def _serve(self, service: Service, connection: MailboxConnection) -> None:
        """Serve a connection until the service has ended, or the connection is lost: also if no letters arrive."""
        working = asyncio.ensure_future(service(connection))
        losing = asyncio.ensure_future(connection.lost.wait())
        try:
            while True:
                connection.alive = False
                done, _ = await asyncio.wait((working, losing), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
                if done or not connection.alive:
                    break
            error = working.exception() if working.done() and not working.cancelled() else None
            if error is not None and not isinstance(error, ReplicaLost):
                log.error("a service for another replica failed", exc_info=error)
            await connection.sent()
        finally:
            for task in (working, losing):
                task.cancel()
            await asyncio.wait((working, losing))
            self._close(connection)

    def _on_letter(self, letter: ConnectionLetter) -> None:
        connection = self._ends.get(letter.connection)
        if connection is not None:
            connection.alive = True
        if letter.kind == "open" and connection is None:
            connection = MailboxConnection(self._replica, letter.slot, letter.connection)
            service = self._services.get(letter.body.decode())
            if service is None:
                self._replica.notify(letter.slot, connection.letter("close"))
                return
            self._ends[connection.id] = connection
            task = asyncio.create_task(self._serve(service, connection))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        elif connection is None:
            if letter.kind != "close":
                unknown = MailboxConnection(self._replica, letter.slot, letter.connection)
                self._replica.notify(letter.slot, unknown.letter("close"))
        elif letter.kind == "close":
            connection.lose()
        elif letter.kind == "message":
            connection.take(letter)

    def _on_slot_expired(self, _: SlotExpired) -> None:
        for connection in list(self._ends.values()):
            connection.lose()

    async def finish(self, seconds: float) -> None:
        """Wait for the services in progress for at most so many seconds."""
        if self._serving:
            await asyncio.wait(self._serving, timeout=seconds)

    async def stop(self) -> None:
        """Lose all connections, and stop the services."""
        for connection in list(self._ends.values()):
            connection.lose()
        if self._serving:
            await asyncio.wait(self._serving)
