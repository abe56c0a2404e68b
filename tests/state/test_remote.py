"""State over a socket: frames, many calls in flight, failures, and the end of either process."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest
import pytest_asyncio

from carrel.state.interfaces import StoreUnavailable
from carrel.state.memory import MemoryTables
from carrel.state.records import ReplicaGone, SessionRecord, TailLetter
from carrel.state.remote.calls import FrameReader, frame
from carrel.state.remote.process import hold
from carrel.state.remote.state import RemoteState
from carrel.state.remote.store import ReplicaConnection

pytestmark = pytest.mark.asyncio

RECORD = SessionRecord("2025-11-25", "ann")
PATIENCE = 20


class Pair:
    """A replica and its connection at the store."""

    def __init__(self, state, connection):
        self.state = state
        self.connection = connection
        self.lost = False

    def lose(self):
        self.lost = True


@pytest_asyncio.fixture
async def joined():
    pairs = []
    tables = MemoryTables()

    async def join():
        held, given = socket.socketpair()
        connection = await ReplicaConnection.accept(tables, held)
        pair = Pair(None, connection)
        pair.state = RemoteState(given, pair.lose)
        await pair.state.start()
        pairs.append(pair)
        return pair

    yield join
    for pair in pairs:
        pair.state.connection.close()
        await pair.connection.closed.wait()


async def test_frames_are_read_whole_whatever_the_pieces_they_come_in():
    sent = [(1, 0, ["a"]), (2, 7, None), (3, 255, b"x" * 1000)]
    data = b"".join(frame(*each) for each in sent)
    for size in (1, 2, 9, 10, 500, len(data)):
        reader, read = FrameReader(), []
        for start in range(0, len(data), size):
            read += reader.feed(data[start : start + size])
        assert [(each.id, each.kind) for each in read] == [(1, 0), (2, 7), (3, 255)]
        assert [frame(*each[:2], value) for each, (*_, value) in zip(read, sent, strict=True)] == [
            frame(*each) for each in sent
        ]


async def test_calls_of_one_turn_are_one_write_each_way(joined, monkeypatch):
    pair = await joined()
    writes = []
    for end in (pair.state.connection, pair.connection):
        transport = end._transport
        monkeypatch.setattr(end, "_transport", Writes(transport, writes))
    ids = await asyncio.gather(*(pair.state.sessions.create(RECORD, 60) for _ in range(100)))
    assert len(set(ids)) == 100
    assert len(writes) == 2


class Writes:
    """Transport whose writes are recorded."""

    def __init__(self, transport, writes):
        self._transport = transport
        self._writes = writes

    def write(self, data):
        self._writes.append(data)
        self._transport.write(data)

    def __getattr__(self, name):
        return getattr(self._transport, name)


async def test_a_call_that_waits_delays_no_other(joined):
    one, other = await joined(), await joined()
    reading = [asyncio.ensure_future(one.state.bus.read(0)), asyncio.ensure_future(one.state.mailbox.take())]
    id = await asyncio.wait_for(one.state.sessions.create(RECORD, 60), PATIENCE)
    assert await other.state.sessions.touch(id, "ann", 60) == RECORD
    assert not any(each.done() for each in reading)
    assert await other.state.mailbox.put(one.state.slot, TailLetter("s", "t"))
    assert await asyncio.wait_for(reading[1], PATIENCE) == [TailLetter("s", "t")]
    reading[0].cancel()


async def test_a_value_of_several_megabytes_passes_whole(joined):
    one, other = await joined(), await joined()
    event = os.urandom(8 * 1024 * 1024)
    await one.state.events.append("s", "0.1", 1, event, 1, 60)
    replay = await asyncio.wait_for(other.state.events.read("s", "0.1", 0), PATIENCE)
    assert replay.events == [(1, event)]


async def test_a_replica_whose_process_ends_is_gone_for_the_others_at_once(joined):
    one, other = await joined(), await joined()
    slot, position = one.state.slot, await other.state.bus.position()
    one.state.connection._transport.abort()
    batch = await asyncio.wait_for(other.state.bus.read(position), PATIENCE)
    assert [notice for _, notice in batch.notices] == [ReplicaGone(slot)]
    assert not await other.state.has_replica(slot)
    assert not await other.state.mailbox.put(slot, TailLetter("s", "t"))


async def test_if_the_store_ends_calls_fail_and_the_replica_is_told(joined):
    pair = await joined()
    reading = asyncio.ensure_future(pair.state.bus.read(0))
    await asyncio.sleep(0)
    pair.connection.close()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(reading, PATIENCE)
    with pytest.raises(StoreUnavailable):
        await pair.state.sessions.create(RECORD, 60)
    assert pair.lost


async def test_a_replica_that_stops_is_not_told_that_the_store_has_ended(joined):
    pair = await joined()
    await pair.state.stop()
    await pair.connection.closed.wait()
    assert not pair.lost


async def test_a_call_that_fails_in_the_store_is_logged_there_and_fails_here(joined, monkeypatch, caplog):
    pair = await joined()

    async def fail(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(pair.connection._state.quotas, "take", fail)
    with pytest.raises(StoreUnavailable):
        await pair.state.quotas.take("a", 1, 2, 3)
    assert "take of the shared state failed" in caplog.text
    assert await pair.state.bus.position() == 0, "the connection goes on"


async def test_the_process_with_the_store_ends_when_its_parent_has_closed_the_socket_with_unread_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        holding = asyncio.create_task(asyncio.to_thread(hold, theirs, 0.01))
        await asyncio.to_thread(ours.recv, 1, socket.MSG_PEEK)
        ours.close()
        await asyncio.wait_for(holding, 10)
    assert caplog.text == ""
