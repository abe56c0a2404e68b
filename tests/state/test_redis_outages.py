"""Redis that goes away, comes back, is full, or is emptied."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
import redis

from carrel import Server
from carrel.errors import ConfigError
from carrel.state.interfaces import LeaseExpired, StoreUnavailable
from carrel.state.records import Changed, SessionRecord, TaskChanged, TaskRecord
from carrel.state.redis import connection
from carrel.state.redis.state import RedisState
from carrel.state.replica import Replica
from support.redis_servers import RedisServer, redis_server

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

KEY = bytes(range(32))
RECORD = SessionRecord("2025-06-18", owner="ann")
TIMEOUT = 60


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@asynccontextmanager
async def joined(server: RedisServer, **options: float) -> AsyncIterator[RedisState]:
    state = RedisState(server.url, [KEY], **options)
    await state.start()
    try:
        yield state
    finally:
        try:
            await state.stop()
        except StoreUnavailable:
            pass


async def until_back(state: RedisState) -> None:
    async with asyncio.timeout(TIMEOUT):
        while True:
            try:
                await state.bus.position()
                return
            except StoreUnavailable:
                await asyncio.sleep(0.02)


async def cut_off(server: RedisServer, state: RedisState) -> None:
    """Stop the server, and wait until the state knows that its connection is lost."""
    server.stop()
    async with asyncio.timeout(TIMEOUT):
        while state._client._connection is not None:
            await asyncio.sleep(0.02)


async def test_while_redis_is_away_operations_fail_and_the_log_has_one_line(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with joined(server) as state:
        server.stop()
        for _ in range(20):
            with pytest.raises(StoreUnavailable):
                await asyncio.wait_for(state.sessions.create(RECORD, 60), TIMEOUT)
        errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(errors) == 1
        assert "cannot be reached" in errors[0].getMessage()
        server.start()
        await until_back(state)
        assert await state.sessions.create(RECORD, 60)


async def test_a_replica_stops_although_redis_is_away(server: RedisServer) -> None:
    replica = Replica(RedisState(server.url, [KEY]))
    await replica.start()
    server.stop()
    await asyncio.wait_for(replica.stop(), TIMEOUT)


async def test_a_server_that_restarts_within_a_second_fails_no_operation_that_begins_then(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 30.0)  # however slow the machine is
    async with joined(server) as state:
        await cut_off(server, state)
        creating = asyncio.ensure_future(state.sessions.create(RECORD, 60))
        await asyncio.to_thread(server.start)
        assert await asyncio.wait_for(creating, TIMEOUT)


async def test_commands_wait_up_to_a_number_of_bytes(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 30.0)
    monkeypatch.setattr(connection, "MAX_WAITING", 100_000)
    async with joined(server) as state:
        await cut_off(server, state)
        appended = [
            asyncio.ensure_future(state.events.append("s", "0.1", number, bytes(10_000), 1, 60)) for number in range(20)
        ]
        with pytest.raises(StoreUnavailable, match="100000 bytes"):
            await appended[-1]
        await asyncio.to_thread(server.start)
        done = await asyncio.gather(*appended, return_exceptions=True)
        assert 5 < done.count(None) < 10


async def test_a_known_session_can_be_used_while_redis_is_away_and_an_unknown_one_not(server: RedisServer) -> None:
    async with joined(server) as state, joined(server) as other:
        id, unknown = await state.sessions.create(RECORD, 60), await other.sessions.create(RECORD, 60)
        server.stop()
        assert await state.sessions.touch(id, "ann", 60) == RECORD
        assert await state.sessions.touch(id, "bob", 60) is None
        with pytest.raises(StoreUnavailable):
            await state.sessions.touch(unknown, "ann", 60)
        server.start()


async def test_all_replicas_look_again_after_a_notice_was_lost(server: RedisServer) -> None:
    async with joined(server) as state, joined(server) as other:
        position = await other.bus.position()
        reading = asyncio.ensure_future(other.bus.read(position))
        server.stop()
        with pytest.raises(StoreUnavailable):
            await state.bus.publish(Changed(["memo://1"]))
        server.start()
        batch = await asyncio.wait_for(reading, TIMEOUT)
        assert batch.gap
        assert batch.position > position
        await until_back(state)
        await state.bus.publish(TaskChanged("t"))
        async with asyncio.timeout(TIMEOUT):
            while TaskChanged("t") not in [notice for _, notice in batch.notices]:
                batch = await other.bus.read(batch.position)


async def test_after_flushall_the_slot_is_lost_and_positions_go_on(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with joined(server) as state, joined(server) as other:
        id = await state.sessions.create(RECORD, 60)
        await state.bus.publish(TaskChanged("t"))
        position = await other.bus.position()
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.flushall()
        assert not await state.renew()
        await state.take_slot()
        assert not await other.renew()
        await other.take_slot()
        assert state.slot != other.slot
        assert await other.sessions.touch(id, "ann", 60) is None
        batch = await asyncio.wait_for(other.bus.read(position), TIMEOUT)
        assert batch.gap
        assert batch.position > position
        assert "not written by replicas" not in caplog.text, "a skipped position is no forgery"


@pytest.mark.parametrize("busy", [False, True])
async def test_a_slot_that_flushall_has_removed_is_lost_without_a_renewal(server: RedisServer, busy: bool) -> None:
    async with joined(server, lease=3600.0) as state:
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.flushall()
        taking = asyncio.ensure_future(state.mailbox.take())
        async with asyncio.timeout(TIMEOUT):
            while not taking.done():
                if busy:
                    await state.bus.publish(TaskChanged("t"))
                await asyncio.sleep(0.01)
        assert isinstance(taking.exception(), LeaseExpired)


async def test_a_full_redis_is_an_outage_that_is_logged_once(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with joined(server) as state:
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.config_set("maxmemory", 1)
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    await state.sessions.create(RECORD, 60)
            client.config_set("maxmemory", 0)
        assert len([record for record in caplog.records if "refuses to store" in record.getMessage()]) == 1
        assert await state.sessions.create(RECORD, 60)


async def test_a_failover_to_a_redis_that_is_behind_loses_the_latest_records_and_all_look_again(
    server: RedisServer,
) -> None:
    async with joined(server) as state, joined(server) as late:
        kept = await state.sessions.create(RECORD, 60)
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.save()
        lost = await late.sessions.create(RECORD, 60)
        for _ in range(3):
            await late.bus.publish(Changed(["memo://1"]))
        position = await late.bus.position()
        reading = asyncio.ensure_future(state.bus.read(position))
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)  # with what it has saved
        batch = await asyncio.wait_for(reading, TIMEOUT)
        assert batch.gap
        await until_back(state)
        await until_back(late)
        assert await state.sessions.touch(kept, "ann", 60) == RECORD
        assert await late.sessions.touch(lost, "ann", 60) is None


async def test_a_slot_that_a_redis_which_is_behind_gives_to_another_replica_is_lost(server: RedisServer) -> None:
    async with joined(server) as state:
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.save()
        async with joined(server) as late:
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)  # it knows nothing of ``late``
            await until_back(late)
            async with joined(server) as new:
                assert new.slot == late.slot
                assert not await late.renew()
                assert await new.renew()
                assert await state.renew()
                await late.take_slot()
                assert len({state.slot, late.slot, new.slot}) == 3
                assert await late.renew()


async def test_a_redis_that_takes_longer_than_a_second_counts_as_away(
    server: RedisServer,
) -> None:
    async with joined(server) as state:
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(state.sessions.create(RECORD, 60), TIMEOUT)
        server.process.send_signal(signal.SIGCONT)
        await until_back(state)
        assert await state.sessions.create(RECORD, 60)


async def unchanged(data: bytes) -> bytes:
    return data


@asynccontextmanager
async def forwarding(
    server: RedisServer,
    request: Callable[[bytes], Awaitable[bytes]] = unchanged,
    response: Callable[[bytes], Awaitable[bytes]] = unchanged,
) -> AsyncIterator[str]:
    """Listen, and forward what ``request`` and ``response`` return for the data; give the URL."""
    connections: list[asyncio.Task[Any]] = []

    async def forward(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], Awaitable[bytes]]
    ) -> None:
        while data := await reader.read(1 << 20):
            writer.write(await change(data))
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.append(task)
        there = await asyncio.open_unix_connection(server.socket)
        await asyncio.gather(forward(reader, there[1], request), forward(there[0], writer, response))

    path = server.path / "forwarding"
    async with await asyncio.start_unix_server(serve, path):
        yield f"unix://{path}"
        await asyncio.wait(connections, timeout=TIMEOUT)
    path.unlink(missing_ok=True)


async def test_on_a_slow_network_commands_share_the_delay(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 30.0)
    sent: list[bytes] = []

    async def record(data: bytes) -> bytes:
        sent.append(data)
        return await late(data)

    async def late(data: bytes) -> bytes:
        await asyncio.sleep(0.2)
        return data

    async with forwarding(server, request=record, response=late) as url:
        state = RedisState(url, [KEY])
        await state.start()
        sent.clear()
        ids = await asyncio.gather(*(state.sessions.create(RECORD, 60) for _ in range(50)))
        assert len(set(ids)) == 50
        assert len([data for data in sent if b"EVALSHA" in data]) <= 2, "in one pipeline"
        await state.stop()


async def test_a_response_that_is_not_one_of_redis_is_an_outage(server: RedisServer) -> None:
    garbage: list[bytes] = []

    async def damage(data: bytes) -> bytes:
        return garbage.pop() if garbage else data

    async with forwarding(server, response=damage) as url:
        state = RedisState(url, [KEY])
        await state.start()
        garbage += [b":one\r\n", b"$two\r\n", b"*-9\r\n\0\r\n"]
        async with asyncio.timeout(TIMEOUT):
            while garbage:
                try:
                    await state.sessions.create(RECORD, 60)
                except StoreUnavailable:
                    await asyncio.sleep(0.02)
        await until_back(state)
        assert await state.sessions.create(RECORD, 60)
        await state.stop()


async def test_replicas_have_the_clock_of_redis() -> None:
    with redis_server(clock=True) as server:
        assert server.clock is not None
        server.clock.advance(-600)
        async with joined(server) as state, joined(server) as other:
            assert abs(time.time() - 600 - state.now()) < TIMEOUT
            assert abs(state.now() - other.now()) < TIMEOUT
            assert await state.renew()
            assert abs(time.time() - 600 - state.now()) < TIMEOUT


async def test_scripts_that_were_flushed_are_sent_again(server: RedisServer) -> None:
    async with joined(server) as state:
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            client.script_flush()
        assert await state.sessions.create(RECORD, 60)


async def test_a_wrong_password_is_an_error_at_the_start_that_does_not_show_it() -> None:
    with redis_server("redis-server", "--requirepass", "right") as server:
        url = f"unix://:wrongly@{server.socket}"
        with pytest.raises(ConfigError, match="refuses the user or the password") as raised:
            await RedisState(url, [KEY]).start()
        assert "wrongly" not in str(raised.value)
        state = RedisState(f"unix://:right@{server.socket}", [KEY])
        await state.start()
        await state.stop()


async def test_replicas_with_other_keys_are_refused(server: RedisServer) -> None:
    async with joined(server):
        with pytest.raises(ConfigError, match="have other state_keys"):
            await RedisState(server.url, [bytes(32)]).start()
        rotated = RedisState(server.url, [bytes(32), KEY])
        await rotated.start()
        await rotated.stop()
    new = RedisState(server.url, [bytes(32)])  # the older key is no longer needed
    await new.start()
    await new.stop()
    with pytest.raises(ConfigError, match="have other state_keys"):
        await RedisState(server.url, [KEY]).start()


async def test_a_reader_of_redis_learns_no_id_and_no_content(server: RedisServer) -> None:
    async with joined(server) as state:
        record = SessionRecord("2025-06-18", owner="https://issuer.example ann")
        id = await state.sessions.create(record, 60)
        await state.sessions.subscribe(id, "memo://secret", "memo://secret")
        await state.sessions.put_value(id, "secret-name", b"secret-value", 1000)
        await state.events.append(id, "0.1", 1, b"secret-event", 1, 60)
        await state.bus.publish(Changed(["memo://secret"]))
        await state.quotas.take("sessions 192.0.2.1", 1, 10, 60)
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            keys = client.keys()
            dumps = b"".join(client.dump(key) + key for key in keys)  # type: ignore[operator]
            assert {int(client.pttl(key)) > 0 for key in keys} == {True}, "every key has a lifetime"
        for secret in (id, "memo://secret", "secret-name", "secret-value", "secret-event", "ann", "192.0.2.1"):
            assert secret.encode() not in dumps


@pytest.mark.parametrize("url", ["http://127.0.0.1", "redis://127.0.0.1:nonsense", "redis://:pw@h?nonsense=1"])
async def test_a_url_that_is_not_valid_is_an_error_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        RedisState(url, [KEY])
    assert "pw" not in str(raised.value)


async def test_a_server_with_redis_needs_keys() -> None:
    with pytest.raises(ConfigError, match="all replicas need the same state_keys"):
        _ = Server("s", state="redis://127.0.0.1").endpoint.replica


async def test_entries_on_the_bus_that_no_replica_has_written_are_ignored(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with joined(server) as state, joined(server) as other:
        position = await other.bus.position()
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            for field, value in ((b"sealed", b"junk"), (b"gone", b"junk"), (b"other", b"")):
                id = client.hincrby("{carrel}:counters", "position", 1)
                client.xadd("{carrel}:bus", {field: value}, id=f"{id}-0")
        await state.bus.publish(Changed(["memo://after"]))
        notices: list[object] = []
        async with asyncio.timeout(TIMEOUT):
            while not notices:
                batch = await other.bus.read(position)
                position = batch.position
                notices += [notice for _, notice in batch.notices]
        assert notices == [Changed(["memo://after"])]
        logged = [record for record in caplog.records if "not written by replicas" in record.getMessage()]
        assert len(logged) == 2, "once for each replica"


async def test_a_task_that_somebody_puts_into_the_list_of_another_owner_is_not_shown(server: RedisServer) -> None:
    async with joined(server) as state:
        record = TaskRecord(id="t", owner="ann", slot=state.slot, created=0, updated=0, ttl_ms=60_000, tool="job")
        await state.tasks.create(record)
        await state.tasks.create(msgspec.structs.replace(record, id="u", owner="eve"))
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            lists = {key: client.zrange(key, 0, -1) for key in client.keys("{carrel}:owner:*")}  # type: ignore[union-attr]
            for key in lists:
                for name in {name for names in lists.values() for name in names}:
                    client.zadd(key, {name: 1_000})
        for owner, id in (("ann", "t"), ("eve", "u")):
            assert [each.id for _, each in await state.tasks.list(owner, 0, 10)] == [id]


async def test_state_is_shared_by_a_server_that_has_a_tool_with_tasks(server: RedisServer) -> None:
    app = Server("jobs")

    @app.tool(task="optional")
    async def job(word: str) -> str:
        return word

    app.share_state(server.url, [KEY])
    assert isinstance(app.endpoint.replica.state, RedisState)
