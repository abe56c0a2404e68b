"""The contract of shared state: the store in memory, stores whose calls pass bytes, Redis and Valkey."""

from __future__ import annotations

import time

import pytest
import pytest_asyncio

from carrel.state.contract import StateContract
from carrel.state.memory import MemoryState, MemoryTables
from carrel.state.redis.state import RedisState
from support.redis_servers import age, redis_server
from support.socket_store import SocketState, StoreServer

from .encoded import EncodedState

pytestmark = pytest.mark.asyncio


class TestMemoryState(StateContract):
    """Servers in one process."""

    kind: type[MemoryState] = MemoryState
    notices = 200

    @pytest.fixture(autouse=True)
    def store(self):
        self.now = 0.0
        self.store = MemoryTables(notices=100, clock=lambda: self.now)

    async def join(self):
        state = self.kind(self.store)
        await state.start()
        return state

    async def join_with_lease(self):
        state = self.kind(self.store, lease=5.0)
        await state.start()
        return state

    async def pass_time(self, seconds):
        self.now += seconds


class TestEncodedState(TestMemoryState):
    """Servers that pass bytes."""

    kind = EncodedState


class TestSocketState(StateContract):
    """Servers in several processes, whose store is in another one."""

    notices = 200

    @pytest_asyncio.fixture(autouse=True)
    async def store(self, tmp_path):
        self.now = 0.0
        self.path = tmp_path / "store"
        store = MemoryTables(notices=100, clock=lambda: self.now)
        async with StoreServer(self.path, store, lease=5.0):
            yield

    async def join(self):
        state = SocketState(self.path)
        await state.start()
        return state

    async def pass_time(self, seconds):
        self.now += seconds


class OnRedis(StateContract):
    """Servers that share a Redis or a Valkey."""

    __test__ = False
    notices = 2000
    second = 100.0
    program = ""
    clock = False

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls):
        with redis_server(cls.program, clock=cls.clock) as server:
            yield server

    @pytest.fixture(autouse=True)
    def store(self, server, request):
        self.server = server
        self.prefix = request.node.name
        self.passed = time.monotonic()

    async def join(self):
        state = RedisState(self.server.url, [bytes(32)], prefix=self.prefix, notices=500)
        await state.start()
        return state


@pytest.mark.slow
class TestRedisState(OnRedis):
    """Servers that share a Redis."""

    __test__ = True
    program = "redis-server"
    clock = True

    async def pass_time(self, seconds):
        self.server.clock.advance(seconds)


@pytest.mark.slow
class TestValkeyState(OnRedis):
    """Servers that share a Valkey."""

    __test__ = True
    program = "valkey-server"

    async def pass_time(self, seconds):
        now = time.monotonic()
        age(self.server, self.prefix, max(0.0, seconds - (now - self.passed)))
        self.passed = now
