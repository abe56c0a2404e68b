"""Store in memory that processes share over a Unix socket: every record travels as MessagePack.

A test holds a ``StoreServer``; a replica in another process joins it with ``SocketState``. The calls of one connection
are answered as they are done, so that one that waits keeps no other one back.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from msgspec import Raw

from carrel.state import interfaces
from carrel.state.interfaces import LeaseExpired
from carrel.state.memory import MemoryState, MemoryTables

__all__ = ["SocketState", "StoreServer"]

PARTS = {
    "sessions": interfaces.Sessions,
    "events": interfaces.EventLog,
    "bus": interfaces.Bus,
    "mailbox": interfaces.Mailbox,
    "tasks": interfaces.TaskStore,
    "used": interfaces.UsedStates,
    "quotas": interfaces.Quotas,
}


class Ask(msgspec.Struct, array_like=True):
    """Call of a method of a part of the store."""

    id: int
    part: str
    method: str
    arguments: list[Raw]


class Told(msgspec.Struct, array_like=True):
    """What a call has returned, or the name of its error."""

    id: int
    error: str
    result: Raw


class Joined(msgspec.Struct, array_like=True):
    """What a replica knows of itself and the store."""

    slot: int
    lease: float
    bus_name: str


def signature(part: str, method: str) -> tuple[list[Any], Any]:
    """The types of the arguments of a method, and of its result."""
    hints = get_type_hints(getattr(PARTS[part], method), vars(interfaces))
    returned = hints.pop("return")
    return list(hints.values()), returned


SIGNATURES = {
    **{
        (part, method): signature(part, method)
        for part, interface in PARTS.items()
        for method in vars(interface)
        if not method.startswith("_")
    },
    ("", "start"): ([], Joined),
    ("", "stop"): ([], None),
    ("", "renew"): ([], bool),
    ("", "take_slot"): ([], Joined),
    ("", "has_replica"): ([int], bool),
}


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def frame(message: Any) -> bytes:
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(4, "big") + data


class StoreServer:
    """Serves a store on a Unix socket, within ``async with``."""

    def __init__(self, path: Path, store: MemoryTables, *, lease: float) -> None:
        self.store = store
        self._path = path
        self._lease = lease
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> StoreServer:
        self._server = await asyncio.start_unix_server(self._connected, self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state = MemoryState(self.store, lease=self._lease)
        calls: set[asyncio.Task[None]] = set()
        try:
            while True:
                ask = msgspec.msgpack.decode(await read_frame(reader), type=Ask)
                call = asyncio.create_task(self._answer(state, ask, writer))
                calls.add(call)
                call.add_done_callback(calls.discard)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the process has gone; its slot is lost when its lease expires
        finally:
            for call in calls:
                call.cancel()
            writer.close()

    async def _answer(self, state: MemoryState, ask: Ask, writer: asyncio.StreamWriter) -> None:
        types, _ = SIGNATURES[ask.part, ask.method]
        arguments = [msgspec.msgpack.decode(given, type=kind) for given, kind in zip(ask.arguments, types, strict=True)]
        error, result = "", None
        try:
            result = await getattr(getattr(state, ask.part) if ask.part else state, ask.method)(*arguments)
            if ask.method in ("start", "take_slot"):
                result = Joined(state.slot, state.lease, state.bus_name)
        except Exception as raised:
            error = type(raised).__name__
        if not writer.is_closing():
            writer.write(frame(Told(ask.id, error, Raw(msgspec.msgpack.encode(result)))))


class Part:
    """One part of the state, whose methods are calls over the socket."""

    def __init__(self, state: SocketState, part: str) -> None:
        for name, (_, returned) in SIGNATURES.items():
            if name[0] == part:
                setattr(self, name[1], method(state, *name, returned))


def method(state: SocketState, part: str, name: str, returned: Any) -> Callable[..., Any]:
    async def call(*arguments: Any) -> Any:
        return await state.call(part, name, returned, arguments)

    return call


class SocketState:
    """State of a replica whose store another process holds."""

    shared = True
    immediate = False
    slot = -1
    lease = 0.0
    bus_name = ""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[Any], Any]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._own = Part(self, "")
        for part in PARTS:
            setattr(self, part, Part(self, part))

    async def start(self) -> None:
        reader, self._writer = await asyncio.open_unix_connection(self._path)
        self._reading = asyncio.create_task(self._read(reader))
        self._join(await self._own.start())

    async def stop(self) -> None:
        assert self._writer is not None
        assert self._reading is not None
        await self._own.stop()
        self._writer.close()
        await self._reading

    async def renew(self) -> bool:
        return bool(await self._own.renew())

    async def take_slot(self) -> None:
        self._join(await self._own.take_slot())

    async def has_replica(self, slot: int) -> bool:
        return bool(await self._own.has_replica(slot))

    def _join(self, joined: Joined) -> None:
        self.slot, self.lease, self.bus_name = joined.slot, joined.lease, joined.bus_name

    async def call(self, part: str, name: str, returned: Any, arguments: tuple[Any, ...]) -> Any:
        if self._writer is None or self._writer.is_closing():
            raise ConnectionError("the store cannot be reached")
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = future, returned
        self._writer.write(frame(Ask(number, part, name, [Raw(msgspec.msgpack.encode(each)) for each in arguments])))
        try:
            return await future
        finally:
            del self._waiting[number]

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                told = msgspec.msgpack.decode(await read_frame(reader), type=Told)
                future, returned = self._waiting.get(told.id, (None, None))
                if future is None or future.done():
                    continue
                if told.error:
                    failure = LeaseExpired() if told.error == "LeaseExpired" else ConnectionError(told.error)
                    future.set_exception(failure)
                else:
                    future.set_result(msgspec.msgpack.decode(told.result, type=returned))
        except (OSError, asyncio.IncompleteReadError):
            for future, _ in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("the store has gone"))
