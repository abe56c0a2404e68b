"""Redis with Sentinels, and clusters of Redis: URLs, and what happens when another server becomes the master."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from carrel.errors import ConfigError
from carrel.state.interfaces import StoreUnavailable
from carrel.state.records import SessionRecord, TaskChanged
from carrel.state.redis.overview import RedisOverview
from carrel.state.redis.state import RedisState
from support.http_process import free_port
from support.redis_nodes import Cluster, Service, redis_cluster, redis_service
from support.redis_servers import redis_server

pytestmark = pytest.mark.asyncio

KEY = bytes(range(32))
RECORD = SessionRecord("2025-06-18", owner="ann")
TIMEOUT = 60


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with redis_service() as running:
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with redis_cluster() as running:
        yield running


@asynccontextmanager
async def joined(url: str) -> AsyncIterator[RedisState]:
    state = RedisState(url, [KEY])
    await state.start()
    try:
        yield state
    finally:
        try:
            await state.stop()
        except StoreUnavailable:
            pass


async def eventually(operation: Callable[[], Awaitable[object]]) -> None:
    """Repeat an operation of the store until the store is back."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            try:
                await operation()
                return
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def read_until(state: RedisState, notice: object, position: int) -> bool:
    """Read the bus until a notice arrives; return whether notices were missed before it."""
    gap = False
    async with asyncio.timeout(TIMEOUT):
        while True:
            batch = await state.bus.read(position)
            gap, position = gap or batch.gap, batch.position
            if notice in [found for _, found in batch.notices]:
                return gap


async def check_shared(one: RedisState, other: RedisState) -> None:
    """Check that two replicas share sessions, and read the messages of each other."""
    id = await one.sessions.create(RECORD, 60)
    assert await other.sessions.touch(id, "ann", 60) == RECORD
    position = await other.bus.position()
    notice = TaskChanged(id)
    await one.bus.publish(notice)
    assert not await read_until(other, notice, position)


@pytest.mark.slow
async def test_replicas_follow_the_master_that_the_sentinels_appoint(service: Service) -> None:
    async with joined(service.url) as state, joined(service.url) as other:
        await check_shared(state, other)
        id = await state.sessions.create(RECORD, 60)
        await asyncio.to_thread(service.fail_over)
        await eventually(state.bus.position)
        await eventually(other.bus.position)
        assert await state.sessions.touch(id, "ann", 60) == RECORD
        await check_shared(state, other)


@pytest.mark.slow
async def test_replicas_continue_when_the_master_is_killed(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    async with joined(service.url) as state, joined(service.url) as other:
        old = service.master
        await asyncio.to_thread(old.stop)
        with pytest.raises(StoreUnavailable):
            await state.sessions.create(RECORD, 60)
        await eventually(lambda: state.sessions.create(RECORD, 60))
        await eventually(other.bus.position)
        await check_shared(state, other)
        assert service.master is not old
        assert f"is at 127.0.0.1:{service.master.port} now" in caplog.text
        assert "right" not in caplog.text


@pytest.mark.slow
async def test_sentinels_that_are_down_do_not_matter_while_one_answers(service: Service) -> None:
    down = ",".join(f"127.0.0.1:{free_port()}" for _ in range(3))
    async with joined(service.url.replace("@", f"@{down},")) as state:
        assert await state.sessions.create(RECORD, 60)


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["silent", "*2\r\n$2\r\n\xff\xfe\r\n$1\r\n1\r\n", "*1\r\n$1\r\na\r\n", ":x\r\n"])
async def test_a_sentinel_that_answers_nonsense_does_not_matter_while_another_one_answers(
    service: Service, answer: str
) -> None:
    """It also may name a server that accepts connections and never answers."""
    served = list[asyncio.StreamWriter]()

    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)

    async def be_sentinel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)
        while data := await reader.read(65536):
            writer.write(found.encode("latin-1") if b"SENTINEL" in data else b"+OK\r\n" * data.count(b"*"))

    async with await asyncio.start_server(be_silent, "127.0.0.1", 0) as silent:
        port = str(silent.sockets[0].getsockname()[1])
        found = f"*2\r\n$9\r\n127.0.0.1\r\n${len(port)}\r\n{port}\r\n" if answer == "silent" else answer
        async with await asyncio.start_server(be_sentinel, "127.0.0.1", 0) as hostile:
            named = f"@127.0.0.1:{hostile.sockets[0].getsockname()[1]},"
            async with joined(service.url.replace("@", named)) as state:
                assert await state.sessions.create(RECORD, 60)
            for writer in served:
                writer.close()


@pytest.mark.slow
async def test_errors_of_sentinels_are_explained(service: Service) -> None:
    for wrong, message in (
        (service.url.replace("/shop", "/shops"), "knows no service shops"),
        (service.url.replace("=guard", "=wrongly"), "refuses the user or the password"),
        (service.url.replace(":right", ":wrongly"), "refuses the user or the password"),
        (service.url.partition("?")[0], "refuses the user or the password"),
    ):
        with pytest.raises(ConfigError, match=message) as raised:
            await RedisState(wrong, [KEY]).start()
        assert "wrongly" not in str(raised.value)
        assert "right" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sentinel", "cluster"])
async def test_servers_that_do_not_answer_are_an_error_that_names_them(kind: str) -> None:
    url = f"redis+{kind}://127.0.0.1:{free_port()},127.0.0.1:{free_port()}{'/shop' if kind == 'sentinel' else ''}"
    with pytest.raises(ConfigError) as raised:
        await RedisState(url, [KEY]).start()
    assert str(raised.value).startswith(f"{url} cannot be used: Error")


@pytest.mark.slow
async def test_a_store_is_on_the_node_of_a_cluster_that_has_its_slot(cluster: Cluster) -> None:
    for prefix in ("a", "b", "c", "d"):  # on all three masters
        states = [RedisState(cluster.url, [KEY], prefix=prefix) for _ in range(2)]
        for state in states:
            await state.start()
        await check_shared(*states)
        async with RedisOverview(cluster.url, [KEY], prefix=prefix) as overview:
            found = await overview.summary()
        assert (len(found.replicas), found.kinds["session"].records) == (2, 1)
        for state in states:
            await state.stop()


@pytest.mark.slow
async def test_commands_follow_a_slot_that_moves_to_another_node(cluster: Cluster) -> None:
    async with joined(cluster.url) as state, joined(cluster.url) as other:
        id = await state.sessions.create(RECORD, 60)
        source = cluster.master_of("{carrel}:bus")
        for target in [node for node in cluster.nodes[:3] if node is not source]:
            await asyncio.to_thread(cluster.move, "{carrel}:bus", target)
            assert cluster.master_of("{carrel}:bus") is target
            assert await state.sessions.touch(id, "ann", 60) == RECORD
            creating = [state.sessions.create(RECORD, 60) for _ in range(100)]
            assert len(set(await asyncio.gather(*creating))) == 100
            await check_shared(state, other)


@pytest.mark.slow
async def test_replicas_continue_when_the_node_of_a_cluster_is_killed() -> None:
    with redis_cluster() as cluster:
        await kill_node(cluster)


async def kill_node(cluster: Cluster) -> None:
    async with joined(cluster.url) as state, joined(cluster.url) as other:
        old = cluster.master_of("{carrel}:bus")
        await asyncio.to_thread(old.stop)
        with pytest.raises(StoreUnavailable):
            await state.sessions.create(RECORD, 60)
        await eventually(lambda: state.sessions.create(RECORD, 60))
        await eventually(other.bus.position)
        await check_shared(state, other)
        assert cluster.master_of("{carrel}:bus") is not old


@pytest.mark.slow
async def test_a_server_that_is_no_node_of_a_cluster_is_an_error() -> None:
    port = free_port()
    with (
        redis_server("redis-server", "--port", str(port)),
        pytest.raises(ConfigError, match="is not a node of a cluster"),
    ):
        await RedisState(f"redis+cluster://127.0.0.1:{port}", [KEY]).start()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis+sentinel://:pw@h:1,h:2", r"redis\+sentinel://h:1,h:2: name the service of the Sentinels"),
        ("redis+sentinel://:pw@h:nonsense/shop", "The state has a URL such as"),
        ("redis+sentinel://:pw@h,,i/shop", "The state has a URL such as"),
        ("redis+sentinel:///shop", "The state has a URL such as"),
        ("redis+sentinel://:pw@h/shop/one", "a database has a number, not 'one'"),
        ("redis+sentinel://:pw@h/shop?sentinel_secret=pw", "an option that does not exist"),
        ("redis+sentinel://:pw@h/shop?nonsense=pw", "an option that redis-py does not know"),
        ("redis+cluster://:pw@h:1/3", "a cluster has database 0 only"),
        ("redis+cluster://:pw@h:1?db=3", "a cluster has database 0 only"),
        ("redis+cluster://:pw@h:1?sentinel_password=pw", "an option that does not exist"),
        ("redis+nonsense://:pw@h", "The state has a URL such as"),
        ("unix+cluster:///pw", "The state has a URL such as"),
        ("http+sentinel://h/shop", "The state has a URL such as"),
    ],
)
async def test_a_url_of_nodes_that_is_not_valid_is_an_error_without_its_password(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        RedisState(url, [KEY])
    assert "pw" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis+sentinel://a,b:1,[::1]:2/shop/3", "redis+sentinel://a,b:1,[::1]:2/shop"),
        ("rediss+sentinel://ann:p%40w@a/shop?db=3&sentinel_password=x", "rediss+sentinel://ann@a/shop"),
        ("redis+cluster://:pw@a,b:1", "redis+cluster://a,b:1"),
        ("rediss+cluster://ann:pw@a,b:1/0?ssl_ca_certs=/ca.pem", "rediss+cluster://ann@a,b:1"),
        ("redis://ann:pw@a:1/2", "redis://ann@a:1"),
    ],
)
async def test_the_shown_address_has_no_password(url: str, shown: str) -> None:
    assert RedisOverview(url, [KEY]).shown == shown
