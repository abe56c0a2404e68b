"""State of a replica whose store another process on the same machine holds."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from carrel.state.interfaces import (
    Bus,
    EventLog,
    LeaseExpired,
    Locks,
    Mailbox,
    Quotas,
    RecordTable,
    Sessions,
    StoreUnavailable,
    TaskStore,
    UsedStates,
)
from carrel.state.remote.calls import LEASE_EXPIRED, METHODS, NUMBERS, OK, PARTS, Frame, FrameReader, Joined, frame

__all__ = ["RemoteState"]

#: Highest id of a call; the next one is 0 again.
MAX_ID = 0xFFFFFFFF


class StoreConnection(asyncio.Protocol):
    """Connection to the process that holds the store. Many calls may be in flight."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._last_id = 0
        self._calls: dict[int, tuple[int, asyncio.Future[Any]]] = {}
        """Number of the method and future result of each call, by id."""
        self._requests: list[bytes] = []
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        calls, self._calls = self._calls, {}
        for _, future in calls.values():
            if not future.done():
                future.set_exception(StoreUnavailable("the process that holds the shared state has ended"))
                future.exception()  # asyncio does not log an error that no caller retrieves
        self.closed.set()
        if not self._closing:
            self._on_lost()

    def close(self) -> None:
        """Close the connection after everything is sent."""
        self._closing = True
        self._flush()
        if self._transport is not None:
            self._transport.close()

    async def call(self, number: int, arguments: tuple[Any, ...]) -> Any:
        """Call a method of the store.

        Raises:
            LeaseExpired: the replica has no slot any more.
            StoreUnavailable: the connection is lost, or the store has failed; the call may have had an effect.
        """
        if self._transport is None:
            raise StoreUnavailable("the process that holds the shared state cannot be reached")
        loop = asyncio.get_running_loop()
        id = self._last_id = (self._last_id + 1) & MAX_ID
        future: asyncio.Future[Any] = loop.create_future()
        self._calls[id] = number, future
        if not self._requests:
            loop.call_soon(self._flush)
        self._requests.append(frame(id, number, arguments))
        return await future

    def _flush(self) -> None:
        requests, self._requests = self._requests, []
        if self._transport is not None and requests:
            self._transport.write(b"".join(requests))

    def data_received(self, data: bytes) -> None:
        for response in self._reader.feed(data):
            number, future = self._calls.pop(response.id)
            if not future.done():
                self._finish(number, future, response)

    @staticmethod
    def _finish(number: int, future: asyncio.Future[Any], response: Frame) -> None:
        decoder = METHODS[number].result
        if response.kind == OK:
            future.set_result(decoder.decode(response.body))
        elif response.kind == LEASE_EXPIRED:
            future.set_exception(LeaseExpired("The lease of the slot was not renewed in time"))
        else:
            future.set_exception(StoreUnavailable("the store has failed"))


class RemotePart:
    """One part of the state. Each method is a call to the store."""

    def __init__(self, state: RemoteState, part: str) -> None:
        for (owner, name), number in NUMBERS.items():
            if owner == part:
                setattr(self, name, remote_method(state, number))


def remote_method(state: RemoteState, number: int) -> Callable[..., Awaitable[Any]]:
    async def call(*arguments: Any) -> Any:
        return await state.connection.call(number, arguments)

    return call


class RemoteState:
    """State of a replica whose store is in another process.

    Args:
        connection: socket whose other end a ``ReplicaConnection`` serves. ``start`` takes it over.
        on_lost: called if the other process ends.
    """

    shared = True
    immediate = False
    on_one_machine = True
    machine = ""
    slot = -1
    lease = 0.0
    bus_name = ""

    def __init__(self, connection: socket.socket, on_lost: Callable[[], None] = lambda: None) -> None:
        self._socket = connection
        self.connection = StoreConnection(on_lost)
        parts = {part: RemotePart(self, part) for part in PARTS}
        self.sessions: Sessions = cast("Sessions", parts["sessions"])
        self.events: EventLog = cast("EventLog", parts["events"])
        self.bus: Bus = cast("Bus", parts["bus"])
        self.mailbox: Mailbox = cast("Mailbox", parts["mailbox"])
        self.tasks: TaskStore = cast("TaskStore", parts["tasks"])
        self.used: UsedStates = cast("UsedStates", parts["used"])
        self.quotas: Quotas = cast("Quotas", parts["quotas"])
        self.records: RecordTable = cast("RecordTable", parts["records"])
        self.locks: Locks = cast("Locks", parts["locks"])

    async def _call(self, name: str, *arguments: Any) -> Any:
        return await self.connection.call(NUMBERS["", name], arguments)

    def now(self) -> float:
        """Return the time, in seconds since 1970: all replicas are on one machine."""
        return time.time()

    async def start(self) -> None:
        """Connect, and take a slot."""
        self._socket.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self.connection, sock=self._socket)
        self._join(await self._call("start"))

    def _join(self, joined: Joined) -> None:
        self.slot, self.lease, self.bus_name = joined.slot, joined.lease, joined.bus_name

    async def stop(self) -> None:
        """Give the slot back, and disconnect."""
        with contextlib.suppress(StoreUnavailable):
            await self._call("stop")
        self.connection.close()
        await self.connection.closed.wait()

    async def renew(self) -> bool:
        """Renew the lease of the slot; return False if it is lost."""
        return bool(await self._call("renew"))

    async def take_slot(self) -> None:
        """Take another slot, after the lease of the slot was lost."""
        self._join(await self._call("take_slot"))

    async def has_replica(self, slot: int) -> bool:
        """Return whether a running replica has this slot."""
        return bool(await self._call("has_replica", slot))
