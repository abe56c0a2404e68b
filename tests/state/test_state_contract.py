"""The contract of shared state: the store in memory, stores whose calls pass bytes, Redis and Valkey."""

from __future__ import annotations

import math
import socket
import time

import pytest
import pytest_asyncio

from carrel.state.contract import StateContract
from carrel.state.memory import MemoryState, MemoryTables
from carrel.state.redis.state import RedisState
from carrel.state.remote.state import RemoteState
from carrel.state.remote.store import ReplicaConnection
from support.encoded_state import EncodedState
from support.redis_nodes import redis_cluster
from support.redis_servers import age, redis_server

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


class TestRemoteState(StateContract):
    """Servers whose store is at the other end of a socket, without leases and with leases."""

    notices = 200

    @pytest_asyncio.fixture(autouse=True)
    async def store(self):
        self.now = 0.0
        self.store = MemoryTables(notices=100, clock=lambda: self.now)
        self.connections = []
        yield
        for connection in self.connections:
            await connection.closed.wait()

    async def join(self, lease=math.inf):
        held, given = socket.socketpair()
        self.connections.append(await ReplicaConnection.accept(self.store, held, lease=lease))
        state = RemoteState(given)
        await state.start()
        return state

    async def join_with_lease(self):
        return await self.join(5.0)

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


@pytest.mark.slow
@pytest.mark.exhaustive
class TestClusterState(OnRedis):
    """Servers that share a cluster of Redis. The store of each test is on another node."""

    __test__ = True

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls):
        with redis_cluster() as cluster:
            yield cluster

    async def pass_time(self, seconds):
        now = time.monotonic()
        age(self.server.master_of(f"{{{self.prefix}}}:bus"), self.prefix, max(0.0, seconds - (now - self.passed)))
        self.passed = now
