"""Contract tests for the locks of a store: a part of ``StateContract``."""

from __future__ import annotations

import asyncio

from carrel.state.interfaces import State

__all__ = ["LockContract"]


class LockContract:
    """Tests of locks. ``StateContract`` has the fixtures."""

    second = 1.0

    async def join_with_lease(self) -> State:
        """Return another replica whose slot is lost unless it is renewed."""
        raise NotImplementedError

    async def leave(self, state: State) -> None:
        """Stop a replica."""
        await state.stop()

    async def pass_time(self, seconds: float) -> None:
        """Let the clock of the store advance."""
        await asyncio.sleep(seconds)

    async def test_one_replica_holds_a_lock_until_it_releases_it(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        found = await asyncio.gather(*(state.locks.acquire("a", 60) for state in (one, other) * 3))
        assert len(set(found)) == 1
        holder, waiting = (one, other) if found[0].slot == one.slot else (other, one)
        assert (await waiting.locks.acquire("b", 60)).slot == waiting.slot
        await waiting.locks.release("a")
        assert await waiting.locks.acquire("a", 60) == found[0]
        await holder.locks.release("a")
        taken = await waiting.locks.acquire("a", 60)
        assert taken.slot == waiting.slot
        assert taken.since > found[0].since
        assert await holder.locks.acquire("a", 60) == taken

    async def test_a_lock_that_is_not_acquired_again_in_its_lifetime_is_lost(
        self, replicas: tuple[State, State]
    ) -> None:
        one, other = replicas
        ttl = min(self.second, one.lease / 2)
        held = await one.locks.acquire("a", ttl)
        for _ in range(2):
            await self._pass(0.6 * ttl, one, other)
            assert await one.locks.acquire("a", ttl) == held
            assert await other.locks.acquire("a", 60) == held
        await self._pass(1.2 * ttl, one, other)
        assert (await other.locks.acquire("a", 60)).slot == other.slot
        assert (await one.locks.acquire("a", 60)).slot == other.slot

    async def _pass(self, seconds: float, *replicas: State) -> None:
        """Let the clock advance, while replicas keep their slots."""
        await self.pass_time(seconds)
        for state in replicas:
            assert await state.renew()

    async def test_the_lock_of_a_replica_that_has_gone_is_taken_by_another(self, replicas: tuple[State, State]) -> None:
        one, _ = replicas
        gone = await self.join_with_lease()
        slot = gone.slot
        assert (await gone.locks.acquire("a", 600)).slot == slot
        assert (await one.locks.acquire("a", 60)).slot == slot
        await self.leave(gone)
        assert (await one.locks.acquire("a", 60)).slot == one.slot
