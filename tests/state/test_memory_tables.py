"""Tables of the store in memory: what is kept, and what is dropped without being asked for."""

from __future__ import annotations

import pytest

from carrel.state.memory_tables import Lifetimes, MemorySessions
from carrel.state.records import SessionRecord

RECORD = SessionRecord(revision="2025-11-25")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_entries_that_have_expired_are_dropped_when_others_come(clock: Clock) -> None:
    lifetimes: Lifetimes[int, str] = Lifetimes(clock)
    for key in range(100):
        lifetimes.put(key, "old", 10)
    clock.now = 9
    lifetimes.renew(7, 10)
    clock.now = 10
    for key in range(100, 160):
        lifetimes.put(key, "new", 10)
    assert len(lifetimes) == 61
    assert (lifetimes.get(7), lifetimes.get(8), lifetimes.get(100)) == ("old", None, "new")


def test_an_entry_is_there_until_its_lifetime_is_over(clock: Clock) -> None:
    lifetimes: Lifetimes[str, str] = Lifetimes(clock)
    lifetimes.put("a", "x", 10)
    clock.now = 9
    lifetimes.replace("a", "y")
    assert lifetimes.get("a") == "y"
    clock.now = 10
    assert lifetimes.pop("a") is None
    assert len(lifetimes) == 0


async def test_new_sessions_leave_what_living_ones_have_and_drop_what_is_left_of_others(clock: Clock) -> None:
    sessions = MemorySessions(clock)
    living, expired = await sessions.create(RECORD, 100), await sessions.create(RECORD, 10)
    for id in (living, expired):
        await sessions.subscribe(id, "a:1", "A:1")
        await sessions.put_value(id, "key", b"value", 100)
    clock.now = 10
    for _ in range(3):
        await sessions.create(RECORD, 100)
    assert await sessions.subscriptions(living) == {"a:1": "A:1"}
    assert await sessions.get_value(living, "key") == b"value"
    assert list(sessions._subscriptions) == list(sessions._values) == [living]


async def test_nothing_is_kept_for_a_session_without_subscriptions_and_values(clock: Clock) -> None:
    sessions = MemorySessions(clock)
    id = await sessions.create(RECORD, 100)
    for uri in ("a:1", "a:2"):
        await sessions.subscribe(id, uri, uri)
        await sessions.put_value(id, uri, b"", 100)
    await sessions.unsubscribe(id, "a:1")
    await sessions.delete_value(id, "a:1")
    assert (await sessions.subscriptions(id), await sessions.get_value(id, "a:2")) == ({"a:2": "a:2"}, b"")
    await sessions.unsubscribe(id, "a:2")
    await sessions.delete_value(id, "a:2")
    assert not sessions._subscriptions
    assert not sessions._values


async def test_nothing_is_kept_for_a_session_that_has_ended(clock: Clock) -> None:
    sessions = MemorySessions(clock)
    id = await sessions.create(RECORD, 10)
    clock.now = 10
    await sessions.subscribe(id, "a:1", "a:1")
    assert await sessions.put_value(id, "key", b"value", 100)
    assert not sessions._subscriptions
    assert not sessions._values
