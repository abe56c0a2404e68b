"""The process that holds the store in memory: it answers the calls of a replica on a socket."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Coroutine
from typing import Any

from carrel.log import Log
from carrel.state.interfaces import LeaseExpired
from carrel.state.memory import MemoryState, MemoryTables
from carrel.state.remote.calls import FAILED, LEASE_EXPIRED, METHODS, OK, Frame, FrameReader, Joined, frame
from carrel.state.replica import run_now

__all__ = ["ReplicaConnection"]

log = Log("carrel")


class ReplicaConnection(asyncio.Protocol):
    """Connection of one replica to tables in memory.

    Its calls are answered as they are done, so a call that waits does not delay others. All responses of one turn of
    the event loop are one write. When the connection ends, the slot of the replica is released at once if it has no
    lease, else when its lease expires.
    """

    def __init__(self, tables: MemoryTables, *, lease: float = math.inf) -> None:
        self._tables = tables
        self._state = MemoryState(tables, lease=lease)
        self._reader = FrameReader()
        self._waiting: set[asyncio.Task[None]] = set()
        self._responses: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self.closed = asyncio.Event()

    @classmethod
    async def accept(
        cls, tables: MemoryTables, connection: socket.socket, *, lease: float = math.inf
    ) -> ReplicaConnection:
        """Answer calls on a connected socket until the other side closes it. Takes over the socket."""
        made = cls(tables, lease=lease)
        connection.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: made, sock=connection)
        return made

    @property
    def slot(self) -> int:
        """Slot of the replica."""
        return self._state.slot

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        for task in self._waiting:
            task.cancel()
        if self._state.lease == math.inf:
            self._tables.release(self._state.slot)
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        for request in self._reader.feed(data):
            method = METHODS[request.kind]
            if method.waits:
                task = asyncio.ensure_future(self._wait(request))
                self._waiting.add(task)
                task.add_done_callback(self._waiting.discard)
                continue
            try:
                result = run_now(self._call(request))
            except Exception as error:
                self._fail(request, error)
            else:
                self._respond(request, OK, result)

    def _call(self, request: Frame) -> Coroutine[Any, Any, Any]:
        method = METHODS[request.kind]
        owner = getattr(self._state, method.part) if method.part else self
        coroutine: Coroutine[Any, Any, Any] = getattr(owner, method.name)(*method.arguments.decode(request.body))
        return coroutine

    async def _wait(self, request: Frame) -> None:
        try:
            result = await self._call(request)
        except Exception as error:
            self._fail(request, error)
        else:
            self._respond(request, OK, result)

    def _fail(self, request: Frame, error: Exception) -> None:
        if isinstance(error, LeaseExpired):
            self._respond(request, LEASE_EXPIRED, str(error))
            return
        log.error("%s of the shared state failed", METHODS[request.kind].name, exc_info=error)
        self._respond(request, FAILED, f"{type(error).__name__}: {error}")

    def _respond(self, request: Frame, status: int, value: Any) -> None:
        if not self._responses:
            asyncio.get_running_loop().call_soon(self._flush)
        self._responses.append(frame(request.id, status, value))

    def _flush(self) -> None:
        responses, self._responses = self._responses, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(responses))

    # Methods of the state

    async def start(self) -> Joined:
        """Open the mailbox of the replica."""
        await self._state.start()
        return self._joined

    async def take_slot(self) -> Joined:
        """Take another slot."""
        await self._state.take_slot()
        return self._joined

    @property
    def _joined(self) -> Joined:
        return Joined(self._state.slot, self._state.lease, self._state.bus_name)

    async def renew(self) -> bool:
        """Renew the lease of the replica."""
        return await self._state.renew()

    async def has_replica(self, slot: int) -> bool:
        """Return whether a running replica has this slot."""
        return await self._state.has_replica(slot)

    async def stop(self) -> None:
        """Remove the mailbox of the replica."""
        await self._state.stop()
