"""Connections between replicas: messages of any size in order, and their end when one of the replicas is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from carrel.errors import ServerUnavailable
from carrel.state import connections
from carrel.state.connections import MAX_MESSAGE, MailboxConnection, ReplicaLost
from carrel.state.interfaces import StoreUnavailable
from carrel.state.memory import MemoryState, MemoryTables
from carrel.state.records import ConnectionLetter, SlotExpired
from carrel.state.redis.state import RedisState
from carrel.state.replica import Replica
from support.redis_servers import RedisServer, redis_server

KEY = bytes(32)
PATIENCE = 60.0


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[MemoryTables | RedisServer]:
    if request.param == "memory":
        yield MemoryTables()
    else:
        with redis_server() as running:
            yield running


@asynccontextmanager
async def joined(store: MemoryTables | RedisServer, number: int = 2) -> AsyncIterator[list[Replica]]:
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        found = []
        for _ in range(number):
            state = MemoryState(store) if isinstance(store, MemoryTables) else RedisState(store.url, [KEY])
            replica = Replica(state)
            await replica.start()
            stack.push_async_callback(stop, replica)
            found.append(replica)
        yield found


async def stop(replica: Replica) -> None:
    with suppress(StoreUnavailable):
        await replica.stop()


async def echo(connection: MailboxConnection) -> None:
    while True:
        connection.send(await connection.receive())


async def test_messages_of_any_size_arrive_in_order(store: MemoryTables | RedisServer) -> None:
    async with joined(store) as (one, other):
        one.connections.serve("echo", echo)
        messages = [b"", b"a", b"b" * 1_500_000, b"c", bytes(range(256)) * 300]
        async with other.connections.open(one.state.slot, "echo") as connection:
            for message in messages:
                connection.send(message)
            assert [await connection.receive() for _ in messages] == messages
        with pytest.raises(ReplicaLost):
            await connection.receive()


async def test_a_message_that_is_too_long_is_refused(store: MemoryTables | RedisServer) -> None:
    async with joined(store) as (one, other):
        one.connections.serve("echo", echo)
        async with other.connections.open(one.state.slot, "echo") as connection:
            with pytest.raises(ValueError, match="more than"):
                connection.send(bytes(MAX_MESSAGE + 1))
            connection.send(b"short")
            assert await connection.receive() == b"short"


async def test_a_service_ends_with_its_connection(store: MemoryTables | RedisServer) -> None:
    ended = asyncio.Event()

    async def wait(connection: MailboxConnection) -> None:
        connection.send(b"begun")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with joined(store) as (one, other):
        one.connections.serve("wait", wait)
        async with other.connections.open(one.state.slot, "wait") as connection:
            assert await connection.receive() == b"begun"
        await ended.wait()


async def test_a_connection_is_lost_without_service_slot_or_answer(store: MemoryTables | RedisServer) -> None:
    async def fail(connection: MailboxConnection) -> None:
        connection.send(b"last words")
        raise RuntimeError("on purpose")

    async with joined(store) as (one, other):
        one.connections.serve("fail", fail)
        async with other.connections.open(one.state.slot, "unknown") as connection:
            with pytest.raises(ReplicaLost):
                await connection.receive()
        async with other.connections.open(one.state.slot, "fail") as connection:
            assert await connection.receive() == b"last words"
            with pytest.raises(ReplicaLost):
                await connection.receive()
        unused = next(slot for slot in range(3) if slot not in (one.state.slot, other.state.slot))
        with pytest.raises(ReplicaLost):
            async with other.connections.open(unused, "fail"):
                pass


async def test_a_replica_that_stops_is_noticed(
    store: MemoryTables | RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PING", 0.05)
    async with joined(store) as (one, other):
        one.connections.serve("echo", echo)
        async with other.connections.open(one.state.slot, "echo") as connection:
            connection.send(b"hello")
            assert await connection.receive() == b"hello"

            async def gone(slot: int, letter: ConnectionLetter) -> bool:
                return False

            with monkeypatch.context() as patch:
                patch.setattr(other.state.mailbox, "put", gone)
                with pytest.raises(ReplicaLost):
                    await connection.receive()


async def test_a_service_ends_when_the_other_replica_is_gone(
    store: MemoryTables | RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.1)
    ended = asyncio.Event()

    async def wait(connection: MailboxConnection) -> None:
        connection.send(b"begun")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with joined(store) as (one, other):
        one.connections.serve("wait", wait)
        async with other.connections.open(one.state.slot, "wait") as connection:
            assert await connection.receive() == b"begun"
            await ended.wait()  # no letter arrives for longer than that


async def test_connections_are_lost_with_the_slot() -> None:
    async with joined(MemoryTables()) as (one, other):
        one.connections.serve("echo", echo)
        async with other.connections.open(one.state.slot, "echo") as connection:
            connection.send(b"hello")
            assert await connection.receive() == b"hello"
            other._pass(SlotExpired(other.state.slot))
            with pytest.raises(ReplicaLost):
                await connection.receive()


async def test_messages_wait_for_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "RETRY", 0.01)
    async with joined(MemoryTables()) as (one, other):
        one.connections.serve("echo", echo)
        put, failures = other.state.mailbox.put, 3

        async def failing(slot: int, letter: ConnectionLetter) -> bool:
            nonlocal failures
            if failures and letter.kind == "message":
                failures -= 1
                if failures:
                    raise StoreUnavailable
                await put(slot, letter)
                raise StoreUnavailable  # although the letter has arrived
            return await put(slot, letter)

        async with other.connections.open(one.state.slot, "echo") as connection:
            monkeypatch.setattr(other.state.mailbox, "put", failing)
            connection.send(b"one")
            connection.send(b"two")
            assert [await connection.receive(), await connection.receive()] == [b"one", b"two"]

        async def away(slot: int, letter: ConnectionLetter) -> bool:
            raise StoreUnavailable

        monkeypatch.setattr(other.state.mailbox, "put", away)
        with pytest.raises(ServerUnavailable):
            async with other.connections.open(one.state.slot, "echo"):
                pass
        monkeypatch.setattr(other.state.mailbox, "put", put)
