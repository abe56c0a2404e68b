"""The contract of shared state: the store in memory, and one whose calls pass bytes."""

from __future__ import annotations

import pytest
import pytest_asyncio

from carrel.state.contract import StateContract
from carrel.state.memory import MemoryState, MemoryStore
from support.socket_store import SocketState, StoreServer

from .encoded import EncodedState

pytestmark = pytest.mark.asyncio


class TestMemoryState(StateContract):
    """Servers in one process."""

    kind: type[MemoryState] = MemoryState

    @pytest.fixture(autouse=True)
    def store(self):
        self.now = 0.0
        self.store = MemoryStore(clock=lambda: self.now)

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
        store = MemoryStore(notices=100, clock=lambda: self.now)
        async with StoreServer(self.path, store, lease=5.0):
            yield

    async def join(self):
        state = SocketState(self.path)
        await state.start()
        return state

    async def pass_time(self, seconds):
        self.now += seconds
