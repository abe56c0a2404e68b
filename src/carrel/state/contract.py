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

import pytest
import pytest_asyncio

from carrel.protocol.connection import MAX_SLOT
from carrel.protocol.revisions import LATEST_HANDSHAKE, REVISIONS
from carrel.state.interfaces import LeaseExpired, State
from carrel.state.lock_contract import LockContract
from carrel.state.records import (
    AnswerLetter,
    CancelTaskLetter,
    Changed,
    ConnectionLetter,
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
    WatchedLetter,
    WatchLetter,
)
from carrel.state.task_contract import TaskContract
from carrel.wire.base import ClientCapabilities, Implementation

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
    Changed(["memo://1"], provider="memo"),
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
    ConnectionLetter("c", 1, "message", b"\x00\xff", 1, 2),
    WatchLetter("w", 1, ["memo://é"], first=True),
    WatchedLetter("w", 1),
]


class StateContract(TaskContract, LockContract):
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
        id = await one.sessions.create(RECORD, 10 * self.second)
        await self.pass_time(0.2 * self.second)
        for owner in ("bob", "", None):
            assert await other.sessions.touch(id, owner, 60) is None
        assert await other.sessions.touch(id, RECORD.owner, 60) == RECORD
        anonymous = await one.sessions.create(SessionRecord(LATEST_HANDSHAKE.name), 60)
        assert await one.sessions.touch(anonymous, "bob", 60) is None
        assert await one.sessions.touch(anonymous, None, 60) == SessionRecord(LATEST_HANDSHAKE.name)

    async def test_a_stranger_does_not_renew_a_session(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        id = await one.sessions.create(RECORD, 0.3 * self.second)
        assert await other.sessions.touch(id, "bob", 60) is None
        await self.pass_time(0.4 * self.second)
        assert await one.sessions.touch(id, RECORD.owner, 60) is None

    async def test_a_session_ends_after_its_lifetime_unless_it_is_renewed(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        used = await one.sessions.create(RECORD, 0.4 * self.second)
        unused = await one.sessions.create(RECORD, 0.4 * self.second)
        await self.pass_time(0.2 * self.second)
        assert await other.sessions.touch(used, RECORD.owner, 0.4 * self.second) is not None
        await self.pass_time(0.3 * self.second)
        assert await one.sessions.touch(unused, RECORD.owner, 60) is None
        assert await one.sessions.touch(used, RECORD.owner, 0.1 * self.second) is not None
        await self.pass_time(0.2 * self.second)
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
        id = await one.sessions.create(RECORD, 0.4 * self.second)
        changed = SessionRecord(OLDER, RECORD.owner, log_level=None)
        assert await one.sessions.update(id, changed)
        assert await other.sessions.touch(id, RECORD.owner, 0.4 * self.second) == changed
        await self.pass_time(0.2 * self.second)
        assert await one.sessions.update(id, RECORD)
        await self.pass_time(0.3 * self.second)
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
        short = await one.sessions.create(RECORD, 0.3 * self.second)
        assert await one.sessions.put_value(short, "a", b"1", 100)
        await self.pass_time(0.4 * self.second)
        assert await other.sessions.get_value(short, "a") is None

    async def test_the_values_of_a_session_have_at_most_so_many_bytes(self, replicas: tuple[State, State]) -> None:
        one, other = replicas
        id = await one.sessions.create(RECORD, 60)
        assert await one.sessions.put_value(id, "é", b"12345", 10)
        assert not await other.sessions.put_value(id, "b", b"123", 10)
        assert await other.sessions.get_value(id, "b") is None
        assert await other.sessions.put_value(id, "b", b"12", 10)
        assert await one.sessions.put_value(id, "é", b"1234", 10), "a replaced value does not count"
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
        await one.events.append("s", "0.2", 1, b"x", 1, 0.4 * self.second)
        await self.pass_time(0.2 * self.second)
        await one.events.append("s", "0.2", 2, b"y", 1, 0.4 * self.second)
        await self.pass_time(0.3 * self.second)
        renewed = await other.events.read("s", "0.2", 0)
        assert renewed is not None
        assert [number for number, _ in renewed.events] == [1, 2]
        await self.pass_time(0.2 * self.second)
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
