"""Slots of the replicas in memory, and their leases."""

from __future__ import annotations

import pytest

from carrel.protocol.connection import MAX_SLOT
from carrel.state.memory import MemoryTables


def test_no_slot_is_taken_twice_and_the_last_one_is_the_largest_that_requests_can_name() -> None:
    store = MemoryTables()
    assert [store.take_slot() for _ in range(3)] == [0, 1, 2]
    store._slots = MAX_SLOT
    assert store.take_slot() == MAX_SLOT
    with pytest.raises(RuntimeError, match=f"at most {MAX_SLOT + 1}$"):
        store.take_slot()


@pytest.mark.parametrize(("now", "held"), [(29, True), (30, False), (31, False)])
def test_a_lease_that_was_not_renewed_ends_after_its_seconds(now: float, held: bool) -> None:
    clock = 0.0
    store = MemoryTables(clock=lambda: clock)
    slot = store.take_slot()
    store.hold(slot, 30)
    clock = now
    assert store.has_replica(slot) is held
    assert store.renew(slot, 30) is held
    clock = now + 29
    assert store.has_replica(slot) is held, "a lease that was lost is not renewed"
