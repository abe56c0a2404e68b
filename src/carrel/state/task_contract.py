"""Contract tests for the tasks, used request states and quotas of a store: a part of ``StateContract``."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from carrel.state.interfaces import State
from carrel.state.records import TaskRecord
from carrel.wire.client_features import InputRequest
from carrel.wire.jsonrpc import ErrorObject

__all__ = ["TaskContract"]


def task(id: str, owner: str = "ann", ttl_ms: int = 60_000, **fields: Any) -> TaskRecord:
    return TaskRecord(id=id, owner=owner, slot=0, tool="index", created=1.5, updated=2.5, ttl_ms=ttl_ms, **fields)


class TaskContract:
    """Tests of tasks, used request states and quotas. ``StateContract`` has the fixtures.

    ``second`` is the unit of lifetimes, in seconds: larger ones depend less on the speed of the machine, if
    ``pass_time`` does not wait.
    """

    second = 1.0

    async def pass_time(self, seconds: float) -> None:
        """Let the clock of the store advance."""
        await asyncio.sleep(seconds)

    # Tasks

    async def test_a_task_created_on_one_replica_is_fetched_on_another(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        question = InputRequest(method="elicitation/create", params={"message": "Who?"})
        asking = task("a", status="input_required", message="asking", input_requests={"elicit-1": question})
        await one.tasks.create(task("a"))
        assert await other.tasks.get("a") == task("a")
        assert await one.tasks.save(asking)
        assert await other.tasks.get("a") == asking
        failed = task("a", status="failed", error=ErrorObject(-32603, "Internal error", {"x": 1}))
        assert await other.tasks.save(failed)
        assert await one.tasks.get("a") == failed
        assert await one.tasks.get("b") is None

    async def test_the_first_terminal_status_of_a_task_stands(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        for number, final in enumerate(("completed", "failed", "cancelled")):
            id = str(number)
            await one.tasks.create(task(id))
            ends = [task(id, status=status) for status in ("completed", "failed", "cancelled")]
            ends.sort(key=lambda record: record.status != final)
            saved = await asyncio.gather(*(state.tasks.save(end) for end in ends for state in (one, other)))
            assert saved.count(True) == 1, "there is one final answer"
            stands = await other.tasks.get(id)
            assert stands == ends[saved.index(True) // 2]
            assert not await one.tasks.save(task(id, status="working"))
            assert await one.tasks.get(id) == stands

    async def test_a_task_that_is_removed_or_too_old_is_not_there(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        await one.tasks.create(task("a"))
        await other.tasks.remove("a")
        await other.tasks.remove("a")
        assert await one.tasks.get("a") is None
        assert not await one.tasks.save(task("a"))
        await one.tasks.create(task("b", ttl_ms=round(400 * self.second)))
        await self.pass_time(0.2 * self.second)
        assert await one.tasks.save(task("b", ttl_ms=round(400 * self.second), message="still working"))
        await self.pass_time(0.3 * self.second)
        assert await other.tasks.get("b") is None, "saving does not renew a task"
        assert not await one.tasks.save(task("b", ttl_ms=round(400 * self.second)))
        assert await one.tasks.list("ann", 0, 10) == []

    async def test_tasks_are_listed_by_owner_in_pages_oldest_first(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        for number in range(5):
            await (one, other)[number % 2].tasks.create(task(f"a{number}"))
            await one.tasks.create(task(f"b{number}", "bob"))
        first = await other.tasks.list("ann", 0, 2)
        assert [record.id for _, record in first] == ["a0", "a1"]
        await one.tasks.remove("a1")
        await one.tasks.remove("a3")
        await one.tasks.create(task("a5"))
        rest = await one.tasks.list("ann", first[-1][0], 10)
        assert [record.id for _, record in rest] == ["a2", "a4", "a5"], "a cursor stays valid when items are removed"
        assert await one.tasks.list("ann", rest[-1][0], 10) == []
        assert await one.tasks.list("eve", 0, 10) == []

    # Used request states

    async def test_a_step_is_taken_once(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        taken = await asyncio.gather(*(state.used.use(b"x", 1, b"a", 60) for state in (*replicas, *replicas)))
        assert taken.count(True) == 1
        assert not await other.used.use(b"x", 1, b"b", 60)
        assert not await other.used.use(b"x", 2, b"a", 60), "the handler has not asked again"
        assert await one.used.use(b"y", 1, b"a", 60)

    async def test_a_step_that_asked_again_may_be_repeated_with_the_same_answers_until_the_next_one(
        self, replicas: tuple[State, State]
    ) -> None:
        one, other = replicas
        assert await one.used.use(b"x", 1, b"a", 60)
        await one.used.asked(b"x", 60)
        assert not await other.used.use(b"x", 1, b"other", 60)
        assert await other.used.use(b"x", 1, b"a", 60)
        assert not await one.used.use(b"x", 1, b"a", 60), "the repeated handler has not ended"
        await other.used.asked(b"x", 60)
        assert await one.used.use(b"x", 2, b"b", 60)
        await one.used.asked(b"x", 60)
        assert not await other.used.use(b"x", 1, b"a", 60), "only one of the next steps is taken"

    async def test_used_states_are_known_for_their_lifetime(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        assert await one.used.use(b"x", 1, b"a", 0.3 * self.second)
        await self.pass_time(0.2 * self.second)
        assert not await other.used.use(b"x", 1, b"a", 60)
        await one.used.asked(b"x", 0.3 * self.second)
        await self.pass_time(0.2 * self.second)
        assert not await other.used.use(b"x", 1, b"b", 60)
        await self.pass_time(0.2 * self.second)
        assert await other.used.use(b"x", 1, b"a", 60)

    # Other records

    async def test_a_record_is_there_until_it_expires_or_is_removed(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        await one.records.put("a", b"1", 60)
        await one.records.put("a", b"2", 0.3 * self.second)
        await one.records.put("b", b"3", 60)
        assert await other.records.get("a") == b"2"
        assert await other.records.get("c") is None
        await other.records.delete("b")
        await other.records.delete("b")
        assert await one.records.get("b") is None
        await self.pass_time(0.5 * self.second)
        assert await other.records.get("a") is None
        assert await other.records.take("a") is None

    async def test_of_many_who_take_a_record_one_gets_it(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        await one.records.put("a", b"1", 60)
        taken = await asyncio.gather(*(replica.records.take("a") for replica in (one, other) * 5))
        assert taken.count(b"1") == 1
        assert taken.count(None) == 9

    # Quotas

    async def test_a_bucket_is_shared_and_fills_again(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        assert await one.quotas.take("ann", 6, 10, 1.0) == 0
        wait = await other.quotas.take("ann", 6, 10, 1.0)
        assert 0 < wait <= 0.2
        assert await other.quotas.take("ann", 3, 10, 1.0) == 0, "a rejected request takes nothing"
        assert await other.quotas.take("bob", 10, 10, 1.0) == 0
        await self.pass_time(0.6)
        assert await one.quotas.take("ann", 6, 10, 1.0) == 0
        await self.pass_time(2.0)
        assert await one.quotas.take("ann", 10, 10, 1.0) == 0
        assert await one.quotas.take("ann", 1, 10, 1.0) > 0, "a bucket holds no more than its capacity"

    async def test_tokens_are_put_back_up_to_the_capacity(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        assert await one.quotas.take("ann", 10, 10, 1000.0) == 0
        assert await one.quotas.take("ann", -4, 10, 1000.0) == 0
        assert await other.quotas.take("ann", 5, 10, 1000.0) > 0
        assert await other.quotas.take("ann", 4, 10, 1000.0) == 0
        assert await one.quotas.take("ann", -20, 10, 1000.0) == 0
        assert await other.quotas.take("ann", 10, 10, 1000.0) == 0
        assert await one.quotas.take("ann", 1, 10, 1000.0) > 0

    async def test_what_a_bucket_never_holds_is_never_there(self, replicas: tuple[State, State]) -> None:
        one, _ = replicas
        assert await one.quotas.take("ann", 11, 10, 1.0) == math.inf
        assert await one.quotas.take("ann", 10, 10, 1.0) == 0
