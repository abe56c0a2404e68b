"""Contract tests for stores of shared state, as a pytest class to inherit.

    class TestRedisState(StateContract):
        async def join(self):                   # another replica of the same store, started
            ...
        async def pass_time(self, seconds): ... # wait, or move the clock of the store

The tests are asynchronous and need pytest-asyncio. Stores must be empty when a test begins; what ``join`` has started
is stopped at the end of the test by ``leave``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from carrel.protocol.connection import MAX_SLOT
from carrel.protocol.revisions import LATEST_HANDSHAKE, REVISIONS
from carrel.state.interfaces import LeaseExpired, State
from carrel.state.records import (
    AnswerLetter,
    CancelTaskLetter,
    Changed,
    FollowLetter,
    HearTaskLetter,
    Letter,
    Notice,
    ReplicaGone,
    RequestCancelled,
    SessionEnded,
    SessionMessage,
    SessionRecord,
    SubscriptionChanged,
    TailLetter,
    TaskAnswerLetter,
    TaskChanged,
    TaskMessageLetter,
    TaskRecord,
)
from carrel.wire.base import ClientCapabilities, Implementation
from carrel.wire.client_features import InputRequest
from carrel.wire.jsonrpc import ErrorObject

__all__ = ["StateContract"]

TIMEOUT = 10  # seconds; nothing here takes a tenth of it

OLDER = next(name for name, row in REVISIONS.items() if not row.stateless and name != LATEST_HANDSHAKE.name)
RECORD = SessionRecord(
    LATEST_HANDSHAKE.name,
    owner="https://issuer.example ann",
    client="192.0.2.1",
    info=Implementation("client", "1.0", title="A client"),
    capabilities=ClientCapabilities(elicitation={"form": {}}, roots={"listChanged": True}),
    log_level=3,
)
NOTICES: list[Notice] = [
    Changed(["memo://1", "memo://é"], {"tools_list_changed": ["é"], "resources_list_changed": None}),
    SessionEnded("s"),
    RequestCancelled("s", 7),
    RequestCancelled("s", "7"),
    SubscriptionChanged("s", "memo://1", "memo:1"),
    SubscriptionChanged("s", "memo://1", None),
    TaskChanged("t"),
    SessionMessage("s", 1, b"{}", ("task", "t")),
    SessionMessage("s", 1, b"{}"),
    ReplicaGone(1),
]
LETTERS: list[Letter] = [
    AnswerLetter("s", b'{"jsonrpc":"2.0","id":1,"result":{}}'),
    FollowLetter("s", "0.1", 1),
    TailLetter("s", "0.1"),
    CancelTaskLetter("t"),
    TaskAnswerLetter("t", "elicit-1", b"{}"),
    HearTaskLetter("t", 1),
    TaskMessageLetter("t", b"{}"),
]


def task(id: str, owner: str = "ann", ttl_ms: int = 60_000, **fields: Any) -> TaskRecord:
    return TaskRecord(id=id, owner=owner, slot=0, tool="index", created=1.5, updated=2.5, ttl_ms=ttl_ms, **fields)


class StateContract:
    """Tests that every implementation of ``carrel.state.interfaces.State`` has to pass.

    ``notices`` is a number of notices of which the bus does not keep all.
    """

    notices = 20_000

    async def join(self) -> State:
        """Return another replica of the store of this test, started."""
        raise NotImplementedError

    async def join_with_lease(self) -> State:
        """Return another replica whose slot is lost unless it is renewed, if the others never lose theirs."""
        return await self.join()

    async def leave(self, state: State) -> None:
        """Stop a replica at the end of a test."""
        await state.stop()

    async def pass_time(self, seconds: float) -> None:
        """Let the clock of the store advance."""
        await asyncio.sleep(seconds)

    @pytest_asyncio.fixture
    async def replicas(self) -> AsyncIterator[tuple[State, State]]:
        one, other = await self.join(), await self.join()
        yield one, other
        await self.leave(one)
        await self.leave(other)

    # Slots

    async def test_every_replica_has_a_slot_of_its_own(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        assert one.slot != other.slot
        assert all(0 <= state.slot <= MAX_SLOT for state in replicas)
        assert one.shared
        assert other.shared
        assert one.bus_name == other.bus_name
        assert one.bus_name.isalnum()

    async def test_a_lease_that_is_renewed_is_kept(self) -> None:
        one, other = await self._lease(), await self._lease()
        slots = one.slot, other.slot
        for _ in range(3):
            await self.pass_time(0.6 * one.lease)
            assert await one.renew()
            assert await other.renew()
        assert (one.slot, other.slot) == slots
        assert await one.has_replica(other.slot)
        assert await other.mailbox.put(one.slot, LETTERS[0])
        await self.leave(other)
        assert not await one.has_replica(slots[1])
        await self.leave(one)

    async def test_a_lease_that_is_not_renewed_is_lost_and_its_slot_is_nobodys(self) -> None:
        one, other = await self._lease(), await self._lease()
        lost, position = one.slot, await other.bus.position()
        waiting = asyncio.ensure_future(one.mailbox.take())
        await self.pass_time(0.6 * other.lease)
        assert await other.renew()
        await self.pass_time(0.6 * other.lease)
        assert await other.renew()
        batch = await asyncio.wait_for(other.bus.read(position), TIMEOUT)
        assert [notice for _, notice in batch.notices] == [ReplicaGone(lost)]
        assert not await other.has_replica(lost)
        assert not await other.mailbox.put(lost, LETTERS[0])
        assert not await one.renew(), "a lease that is lost is not found again"
        for taking in (waiting, asyncio.ensure_future(one.mailbox.take())):
            with pytest.raises(LeaseExpired):
                await asyncio.wait_for(taking, TIMEOUT)
        third = await self._lease()
        await one.take_slot()
        assert len({one.slot, other.slot, third.slot, lost}) == 4
        assert await other.mailbox.put(one.slot, LETTERS[1])
        assert await asyncio.wait_for(one.mailbox.take(), TIMEOUT) == LETTERS[1:2], "the letters before are lost"
        for state in (one, other, third):
            await self.leave(state)

    async def test_replicas_that_begin_at_once_have_different_slots(self) -> None:
        states = await asyncio.gather(*(self._lease() for _ in range(8)))
        await asyncio.gather(*(state.take_slot() for state in states[:4]))
        assert len({state.slot for state in states}) == len(states)
        for state in states:
            await self.leave(state)

    async def _lease(self) -> State:
        """Return another replica, if its slot can be lost."""
        state = await self.join_with_lease()
        if state.lease == math.inf:
            await self.leave(state)
            pytest.skip("slots of this store are not lost")
        return state

    # Sessions

    async def test_a_session_created_on_one_replica_is_found_on_another(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        id = await one.sessions.create(RECORD, 60)
        assert await other.sessions.touch(id, RECORD.owner, 60) == RECORD
        assert id != await one.sessions.create(RECORD, 60)
        assert len(id) >= 22
        assert all(0x21 <= ord(character) <= 0x7E for character in id)

    async def test_a_session_is_found_by_its_owner_only(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        id = await one.sessions.create(RECORD, 10)
        await self.pass_time(0.2)
        for owner in ("bob", "", None):
            assert await other.sessions.touch(id, owner, 60) is None
        assert await other.sessions.touch(id, RECORD.owner, 60) == RECORD
        anonymous = await one.sessions.create(SessionRecord(LATEST_HANDSHAKE.name), 60)
        assert await one.sessions.touch(anonymous, "bob", 60) is None
        assert await one.sessions.touch(anonymous, None, 60) == SessionRecord(LATEST_HANDSHAKE.name)

    async def test_a_stranger_does_not_renew_a_session(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        id = await one.sessions.create(RECORD, 0.3)
        assert await other.sessions.touch(id, "bob", 60) is None
        await self.pass_time(0.4)
        assert await one.sessions.touch(id, RECORD.owner, 60) is None

    async def test_a_session_ends_after_its_lifetime_unless_it_is_renewed(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        used, unused = await one.sessions.create(RECORD, 0.4), await one.sessions.create(RECORD, 0.4)
        await self.pass_time(0.2)
        assert await other.sessions.touch(used, RECORD.owner, 0.4) is not None
        await self.pass_time(0.3)
        assert await one.sessions.touch(unused, RECORD.owner, 60) is None
        assert await one.sessions.touch(used, RECORD.owner, 0.1) is not None
        await self.pass_time(0.2)
        assert await other.sessions.touch(used, RECORD.owner, 60) is None
        assert not await one.sessions.update(used, RECORD)
        assert not await one.sessions.end(used)

    async def test_a_session_ends_once_and_for_all_replicas(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        id = await one.sessions.create(RECORD, 60)
        assert await other.sessions.end(id)
        assert not await one.sessions.end(id)
        assert await one.sessions.touch(id, RECORD.owner, 60) is None
        assert not await one.sessions.update(id, RECORD)
        assert not await one.sessions.end("nonesuch")

    async def test_the_record_of_a_session_can_be_replaced(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        id = await one.sessions.create(RECORD, 0.4)
        changed = SessionRecord(OLDER, RECORD.owner, log_level=None)
        assert await one.sessions.update(id, changed)
        assert await other.sessions.touch(id, RECORD.owner, 0.4) == changed
        await self.pass_time(0.2)
        assert await one.sessions.update(id, RECORD)
        await self.pass_time(0.3)
        assert await one.sessions.touch(id, RECORD.owner, 1) is None, "replacing a record does not renew it"

    async def test_subscriptions_belong_to_one_session_and_end_with_it(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        id, second = await one.sessions.create(RECORD, 60), await other.sessions.create(RECORD, 60)
        await one.sessions.subscribe(id, "memo://1", "memo:1")
        await one.sessions.subscribe(id, "memo://2", "memo://2")
        await other.sessions.subscribe(id, "memo://1", "MEMO://1")
        await other.sessions.subscribe(second, "memo://3", "memo://3")
        assert await other.sessions.subscriptions(id) == {"memo://1": "MEMO://1", "memo://2": "memo://2"}
        assert await one.sessions.subscriptions(second) == {"memo://3": "memo://3"}
        await other.sessions.unsubscribe(id, "memo://1")
        await other.sessions.unsubscribe(id, "memo://9")
        await other.sessions.unsubscribe("nonesuch", "memo://1")
        assert await one.sessions.subscriptions(id) == {"memo://2": "memo://2"}
        await one.sessions.end(id)
        assert await one.sessions.subscriptions(id) == {}
        await one.sessions.subscribe(id, "memo://1", "memo://1")
        assert await one.sessions.subscriptions(id) == {}, "a session that has ended has no subscriptions"

    async def test_values_belong_to_one_session_and_end_with_it(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        id, second = await one.sessions.create(RECORD, 60), await other.sessions.create(RECORD, 60)
        assert await one.sessions.put_value(id, "a", b"1", 100)
        assert await other.sessions.put_value(id, "b", b'"\xc3\xa9"', 100)
        assert await other.sessions.put_value(id, "a", b"2", 100)
        assert await other.sessions.get_value(id, "a") == b"2"
        assert await one.sessions.get_value(id, "b") == b'"\xc3\xa9"'
        assert await one.sessions.get_value(second, "a") is None
        await other.sessions.delete_value(id, "b")
        await other.sessions.delete_value(id, "c")
        await other.sessions.delete_value("nonesuch", "a")
        assert await one.sessions.get_value(id, "b") is None
        await one.sessions.end(id)
        assert await other.sessions.get_value(id, "a") is None
        assert await one.sessions.put_value(id, "a", b"1", 100), "nothing is stored, and nothing was too large"
        assert await one.sessions.get_value(id, "a") is None
        short = await one.sessions.create(RECORD, 0.3)
        assert await one.sessions.put_value(short, "a", b"1", 100)
        await self.pass_time(0.4)
        assert await other.sessions.get_value(short, "a") is None

    async def test_the_values_of_a_session_have_at_most_so_many_bytes(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        id = await one.sessions.create(RECORD, 60)
        assert await one.sessions.put_value(id, "é", b"12345", 10)
        assert not await other.sessions.put_value(id, "b", b"123", 10)
        assert await other.sessions.get_value(id, "b") is None
        assert await other.sessions.put_value(id, "b", b"12", 10)
        assert await one.sessions.put_value(id, "é", b"1234", 10), "what is replaced does not count"
        assert not await other.sessions.put_value(id, "é", b"123456", 10)
        assert await one.sessions.get_value(id, "é") == b"1234"

    # Event log

    async def test_events_are_read_in_order_after_a_number(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        for number in range(1, 6):
            await one.events.append("s", "0.1", number, b"event %d" % number, 1, 60)
        replay = await other.events.read("s", "0.1", 2)
        assert replay is not None
        assert replay.events == [(number, b"event %d" % number) for number in (3, 4, 5)]
        assert not replay.done
        await one.events.finish("s", "0.1")
        last = await other.events.read("s", "0.1", 5)
        assert last is not None
        assert (last.events, last.done) == ([], True)

    async def test_no_session_reads_the_streams_of_another(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        await one.events.append("s", "0.1", 1, b"secret", 1, 60)
        for session, stream in (("t", "0.1"), ("", "0.1"), ("s", "0.2"), ("s0", ".1"), ("s", "0.10")):
            assert await other.events.read(session, stream, 0) is None
            await other.events.drop(session, stream)
            await other.events.finish(session, stream)
        kept = await other.events.read("s", "0.1", 0)
        assert kept is not None
        assert (kept.events, kept.done) == ([(1, b"secret")], False)

    async def test_events_below_the_oldest_number_are_dropped(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        for number in range(1, 10):
            await one.events.append("s", "0.1", number, b"x", max(1, number - 2), 60)
        replay = await other.events.read("s", "0.1", 0)
        assert replay is not None
        assert [number for number, _ in replay.events] == [7, 8, 9]

    async def test_a_stream_that_is_dropped_or_too_old_is_not_there(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        await one.events.append("s", "0.1", 1, b"x", 1, 60)
        await other.events.drop("s", "0.1")
        assert await one.events.read("s", "0.1", 0) is None
        await one.events.append("s", "0.2", 1, b"x", 1, 0.4)
        await self.pass_time(0.2)
        await one.events.append("s", "0.2", 2, b"y", 1, 0.4)
        await self.pass_time(0.3)
        renewed = await other.events.read("s", "0.2", 0)
        assert renewed is not None
        assert [number for number, _ in renewed.events] == [1, 2]
        await self.pass_time(0.2)
        assert await other.events.read("s", "0.2", 0) is None

    # Bus

    async def test_all_replicas_read_the_same_notices_in_the_same_order(self, replicas: tuple[State, State]) -> None:
        starts = [await state.bus.position() for state in replicas]
        for number, notice in enumerate(NOTICES):
            await replicas[number % 2].bus.publish(notice)
        for state, position in zip(replicas, starts, strict=True):
            read: list[Notice] = []
            while len(read) < len(NOTICES):
                batch = await asyncio.wait_for(state.bus.read(position), TIMEOUT)
                assert not batch.gap
                assert batch.position > position
                position = batch.position
                read += [notice for _, notice in batch.notices]
                assert [number for number, _ in batch.notices] == sorted({number for number, _ in batch.notices})
                assert batch.notices[-1][0] == position
            assert read == NOTICES
            assert position == await state.bus.position()

    async def test_reading_the_bus_waits_for_a_notice(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        position = await one.bus.position()
        readers = [asyncio.ensure_future(state.bus.read(position)) for state in (one, one, other)]
        await asyncio.sleep(0)
        assert not any(reader.done() for reader in readers)
        readers[0].cancel()
        await other.bus.publish(NOTICES[0])
        for reader in readers[1:]:
            assert [notice for _, notice in (await asyncio.wait_for(reader, TIMEOUT)).notices] == NOTICES[:1]

    async def test_a_reader_that_was_away_for_too_long_is_told_of_the_gap(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        position = await other.bus.position()
        for _ in range(self.notices):
            await one.bus.publish(TaskChanged("t"))
        batch = await asyncio.wait_for(other.bus.read(position), TIMEOUT)
        assert batch.gap
        recent = await one.bus.position()
        await one.bus.publish(NOTICES[0])
        after = await asyncio.wait_for(other.bus.read(recent), TIMEOUT)
        assert ([notice for _, notice in after.notices], after.gap) == (NOTICES[:1], False)

    # Mailboxes

    async def test_letters_reach_the_replica_they_are_for_in_order_and_once(
        self, replicas: tuple[State, State]
    ) -> None:
        one, other = replicas
        for letter in LETTERS:
            assert await one.mailbox.put(other.slot, letter)
        assert await other.mailbox.put(one.slot, LETTERS[-1])
        taken: list[Letter] = []
        while len(taken) < len(LETTERS):
            taken += await asyncio.wait_for(other.mailbox.take(), TIMEOUT)
        assert taken == LETTERS
        assert await asyncio.wait_for(one.mailbox.take(), TIMEOUT) == LETTERS[-1:]
        waiting = asyncio.ensure_future(other.mailbox.take())
        await asyncio.sleep(0)
        assert not waiting.done()
        await one.mailbox.put(other.slot, LETTERS[0])
        assert await asyncio.wait_for(waiting, TIMEOUT) == LETTERS[:1]

    async def test_a_letter_to_a_slot_without_a_replica_is_refused(self, replicas: tuple[State, State]) -> None:
        one, _ = replicas
        third = await self.join()
        assert await one.mailbox.put(third.slot, LETTERS[0])
        await self.leave(third)
        assert not await one.mailbox.put(third.slot, LETTERS[0])
        assert not await one.mailbox.put(MAX_SLOT, LETTERS[0])

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
        await one.tasks.create(task("b", ttl_ms=400))
        await self.pass_time(0.2)
        assert await one.tasks.save(task("b", ttl_ms=400, message="still working"))
        await self.pass_time(0.3)
        assert await other.tasks.get("b") is None, "saving does not renew a task"
        assert not await one.tasks.save(task("b", ttl_ms=400))
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
        assert [record.id for _, record in rest] == ["a2", "a4", "a5"], "a cursor survives what is removed"
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
        assert await one.used.use(b"x", 1, b"a", 0.3)
        await self.pass_time(0.2)
        assert not await other.used.use(b"x", 1, b"a", 60)
        await one.used.asked(b"x", 0.3)
        await self.pass_time(0.2)
        assert not await other.used.use(b"x", 1, b"b", 60)
        await self.pass_time(0.2)
        assert await other.used.use(b"x", 1, b"a", 60)

    # Quotas

    async def test_a_bucket_is_shared_and_fills_again(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        assert await one.quotas.take("ann", 6, 10, 1.0) == 0
        wait = await other.quotas.take("ann", 6, 10, 1.0)
        assert 0 < wait <= 0.2
        assert await other.quotas.take("ann", 3, 10, 1.0) == 0, "what was refused took nothing"
        assert await other.quotas.take("bob", 10, 10, 1.0) == 0
        await self.pass_time(0.6)
        assert await one.quotas.take("ann", 6, 10, 1.0) == 0
        await self.pass_time(2.0)
        assert await one.quotas.take("ann", 10, 10, 1.0) == 0
        assert await one.quotas.take("ann", 1, 10, 1.0) > 0, "a bucket holds no more than its capacity"

    async def test_what_a_bucket_never_holds_is_never_there(self, replicas: tuple[State, State]) -> None:
        one, _ = replicas
        assert await one.quotas.take("ann", 11, 10, 1.0) == math.inf
        assert await one.quotas.take("ann", 10, 10, 1.0) == 0
