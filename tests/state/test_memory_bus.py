"""The bus and mailboxes in memory: how many notices and letters they keep."""

from __future__ import annotations

import pytest

from carrel.state.memory import MemoryTables
from carrel.state.memory_bus import MAX_LETTER_BYTES, MAX_LETTERS, MAX_NOTICE_BYTES, MemoryBus, MemoryMailbox
from carrel.state.records import AnswerLetter, Changed, Letter, ReplicaGone, TailLetter, TaskMessageLetter


async def test_the_last_notices_are_kept_and_the_loss_of_earlier_ones_is_told() -> None:
    bus = MemoryBus(3)
    for slot in range(3):
        await bus.publish(ReplicaGone(slot))
    assert (await bus.read(0)).gap is False
    await bus.publish(ReplicaGone(3))
    batch = await bus.read(0)
    assert batch.gap is True
    assert [(position, notice.slot) for position, notice in batch.notices] == [(2, 1), (3, 2), (4, 3)]
    assert (await bus.read(1)).gap is False
    assert [position for position, _ in (await bus.read(2)).notices] == [3, 4]


async def test_large_notices_are_bounded_by_their_bytes_but_the_last_one_is_kept() -> None:
    bus = MemoryBus(100)
    half = Changed(uris=["x" * (MAX_NOTICE_BYTES // 2)], lists={})
    for _ in range(3):
        await bus.publish(half)
    assert len((await bus.read(0)).notices) == 2
    await bus.publish(Changed(uris=["x" * 2 * MAX_NOTICE_BYTES], lists={}))
    assert len((await bus.read(0)).notices) == 1
    for slot in range(5):
        await bus.publish(ReplicaGone(slot))
    assert len((await bus.read(0)).notices) == 5


@pytest.mark.parametrize(
    ("letter", "most"),
    [
        (AnswerLetter("s", b"x" * (MAX_LETTER_BYTES // 2)), 2),
        (TaskMessageLetter("t", b"x" * (MAX_LETTER_BYTES // 2)), 2),
        (TailLetter("s", "1"), MAX_LETTERS),
    ],
)
async def test_a_mailbox_that_its_replica_does_not_read_takes_a_number_of_letters_and_bytes(
    letter: Letter, most: int
) -> None:
    tables = MemoryTables()
    tables.hold(1, 60)
    mailbox = MemoryMailbox(tables, 1)
    for _ in range(2):
        assert [await mailbox.put(1, letter) for _ in range(most + 2)] == [True] * most + [False] * 2
        assert len(await mailbox.take()) == most, "and then it has room again"
