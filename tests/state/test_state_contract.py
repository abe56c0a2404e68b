"""The contract of shared state: the store in memory, and one whose calls pass bytes."""

from __future__ import annotations

import pytest

from carrel.state.contract import StateContract
from carrel.state.memory import MemoryState, MemoryStore

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

    async def pass_time(self, seconds):
        self.now += seconds


class TestEncodedState(TestMemoryState):
    """Servers that pass bytes."""

    kind = EncodedState
