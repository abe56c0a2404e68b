"""Token buckets that replicas lease: accuracy, fairness, requests to the store, and a store that is away."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import httpx2
import pytest
import redis

from carrel.state import leased_quotas
from carrel.state.interfaces import StoreUnavailable
from carrel.state.leased_quotas import LeasedQuotas
from carrel.state.memory_tables import MemoryQuotas
from support.carrel_process import serving
from support.redis_servers import RedisServer, redis_server

pytestmark = pytest.mark.asyncio


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Store(MemoryQuotas):
    """Store that answers after a turn of the event loop, and counts its requests."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.requests = 0
        self.failure: Exception | None = None
        self.hangs = asyncio.Event()
        self.hangs.set()

    async def take(self, name: str, amount: float, capacity: float, seconds: float) -> float:
        self.requests += 1
        await asyncio.sleep(0)
        await self.hangs.wait()
        if self.failure is not None:
            raise self.failure
        return await super().take(name, amount, capacity, seconds)


class Replicas:
    """Replicas with one store, in a time of their own."""

    def __init__(self, count: int) -> None:
        self.clock = Clock()
        self.store = Store(self.clock)
        self.replicas = [LeasedQuotas(self.store, self.clock) for _ in range(count)]

    async def run(self, seconds: float, demand: list[float], capacity: float, fills_in: float) -> list[int]:
        """Have each replica take tokens, ``demand`` in a second; return how many it got."""
        step, taken, chance = 0.05, [0] * len(demand), Random(1)
        for number in range(round(seconds / step)):
            counts = [int((number + 1) * step * wanted) - int(number * step * wanted) for wanted in demand]
            requests = [index for index, count in enumerate(counts) for _ in range(count)]
            chance.shuffle(requests)
            for index in requests:
                self.clock.now += step / len(requests)
                taken[index] += await self.replicas[index].take("ann", 1, capacity, fills_in) == 0
            self.clock.now += 0 if requests else step
            if number % round(leased_quotas.KEEP / step) == 0:
                for replica in self.replicas:
                    await replica.put_back()
        return taken

    async def stop(self) -> None:
        for replica in self.replicas:
            await replica.stop()


@pytest.mark.parametrize(
    "demand", [[100.0, 100.0, 100.0, 100.0], [200.0, 1.0, 0.2, 0.0], [40.0, 0.0, 0.0, 0.0], [5.0, 5.0, 5.0, 5.0]]
)
@pytest.mark.parametrize("capacity", [10.0, 30.0, 600.0])
async def test_a_rate_is_kept_within_five_percent_over_a_minute(capacity: float, demand: list[float]) -> None:
    replicas = Replicas(4)
    taken = await replicas.run(60.0, demand, capacity, capacity / 10)  # 10 a second
    allowed = min(capacity + 600, 60 * sum(demand))
    assert 0.95 * allowed <= sum(taken) <= allowed + 1
    await replicas.stop()


async def test_replicas_with_the_same_demand_get_the_same() -> None:
    replicas = Replicas(3)
    taken = await replicas.run(60.0, [50.0] * 3, 60.0, 6.0)
    assert min(taken) > 0.7 * max(taken), taken
    await replicas.stop()


async def test_the_store_is_not_asked_for_each_token() -> None:
    replicas = Replicas(1)
    assert await replicas.run(10.0, [100.0], 600.0, 6.0) == [1000]
    assert replicas.store.requests < 50
    await replicas.stop()


async def test_a_client_beyond_its_limit_costs_few_requests_to_the_store() -> None:
    replicas = Replicas(1)
    assert sum(await replicas.run(60.0, [100.0], 20.0, 1200.0)) in (20, 21)
    assert replicas.store.requests < 200, "once a second, and for each token"
    await replicas.stop()


async def test_concurrent_requests_share_a_request_to_the_store() -> None:
    replicas = Replicas(1)
    found = await asyncio.gather(*(replicas.replicas[0].take("ann", 1, 1000, 1e6) for _ in range(100)))
    assert found == [0] * 100
    assert replicas.store.requests <= 3
    await replicas.stop()


async def test_unused_tokens_are_put_back() -> None:
    replicas = Replicas(2)
    one, other = replicas.replicas
    assert await one.take("ann", 1, 100, 1e9) == 0
    assert await other.take("ann", 95, 100, 1e9) > 0
    await one.put_back()  # one token was used: one more is kept
    await one.put_back()
    assert await replicas.store.take("ann", 99, 100, 1e9) == 0
    await replicas.stop()


async def test_a_replica_that_stops_puts_all_tokens_back() -> None:
    replicas = Replicas(1)
    assert await replicas.replicas[0].take("ann", 1, 100, 1e9) == 0
    await replicas.stop()
    assert await replicas.store.take("ann", 99, 100, 1e9) == 0


async def test_more_tokens_than_a_bucket_has_are_never_there() -> None:
    replicas = Replicas(1)
    assert await replicas.replicas[0].take("ann", 11, 10, 1) == math.inf
    assert await replicas.replicas[0].take("ann", 10, 10, 1) == 0
    await replicas.stop()


async def test_large_amounts_are_taken_from_the_lease_and_the_bucket() -> None:
    replicas = Replicas(1)
    (one,) = replicas.replicas
    assert await one.take("ann", 1, 1000, 1000) == 0
    assert await one.take("ann", 998, 1000, 1000) == 0
    assert 0 < await one.take("ann", 11, 1000, 1000) <= 11
    await replicas.stop()


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), RuntimeError("broken")])
async def test_while_the_store_is_away_each_replica_counts_on_its_own(failure: Exception) -> None:
    replicas = Replicas(2)
    replicas.store.failure = failure
    for replica in replicas.replicas:
        taken = [await replica.take("ann", 1, 20, 1e6) for _ in range(30)]
        assert taken.count(0) == 20
        assert min(taken[20:]) > 0
    replicas.store.failure = None
    assert [await replicas.replicas[0].take("ann", 1, 20, 1e6) for _ in range(20)] == [0] * 20
    assert await replicas.replicas[1].take("ann", 1, 20, 1e6) > 0
    await replicas.stop()


async def test_a_store_that_does_not_answer_holds_up_no_request_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leased_quotas, "PATIENCE", 0.01)
    replicas = Replicas(1)
    replicas.store.hangs.clear()
    taken = [await replicas.replicas[0].take("ann", 1, 20, 1e6) for _ in range(30)]
    assert taken.count(0) == 20
    assert replicas.store.requests == 1
    replicas.store.hangs.set()
    await replicas.stop()


# Replicas in processes

BURST, EACH = 600, 250
CONFIGURATION = f"""
[app]
file = "server.py"
[[limits.rules]]
requests = "1/second"
burst = {BURST}
per = "all"
"""
SERVER = """
from carrel import Server

app = Server("shop")
app.resources.add("note://one", "1")
"""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "crowd", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "resources/list",
}
REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {"_meta": META}}


@pytest.fixture
def store() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


async def admitted(http: httpx2.AsyncClient, url: str, count: int) -> int:
    """Send requests to one replica, ten at a time; return how many it has admitted."""
    numbers = iter(range(count))

    async def send() -> int:
        found = 0
        for _ in numbers:
            response = await http.post(url, json=REQUEST)
            assert response.status_code in (200, 429), response.text
            found += response.status_code == 200
        return found

    return sum(await asyncio.gather(*(send() for _ in range(10))))


def script_calls(store: RedisServer) -> int:
    with redis.Redis(unix_socket_path=str(store.socket)) as client:
        return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])


@pytest.mark.slow
async def test_replicas_in_processes_share_a_limit_in_redis(
    store: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARREL_STATE_KEYS", "ab" * 32)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "carrel.toml").write_text(CONFIGURATION)
    start = ("run", "--config", "carrel.toml", "--state", store.url)
    with ExitStack() as stack:
        urls = [stack.enter_context(serving(*start, cwd=str(tmp_path)))[0] for _ in range(3)]
        async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
            begun, calls = time.monotonic(), script_calls(store)
            each = await asyncio.gather(*(admitted(http, url, EACH) for url in urls))
            lasted, calls = time.monotonic() - begun, script_calls(store) - calls
            assert sum(each) <= BURST + lasted + 1
            assert sum(each) >= BURST * 0.8, "each of the two that end first has up to a tenth left"
            assert min(each) > 0.5 * max(each), each
            assert calls < 100 + 6 * lasted, "far fewer than requests"

            total = sum(each)
            async with asyncio.timeout(120):  # what the others have left is put back
                while total < BURST:
                    total += await admitted(http, urls[0], 10)
                    await asyncio.sleep(0.1)
            assert total <= BURST + time.monotonic() - begun + 10

            store.stop()
            total = 0
            async with asyncio.timeout(120):  # the replica counts on its own, once it knows that the store is away
                while total < BURST:
                    total += await admitted(http, urls[0], 50)
            assert await admitted(http, urls[0], 50) < 50
