"""Watches of a source: batches of several producers in one iterator, which ends with the source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection

import pytest

from carrel.catalog.provider import Change
from carrel.sources.watches import RunningWatches

CHANGE = Change("changed", "a:1")


class Producer:
    """Producer of the batches that ``send`` gives it; ``closed`` is set when it is closed."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Collection[Change]] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def batches(self) -> AsyncGenerator[Collection[Change], None]:
        try:
            while True:
                yield await self.queue.get()
        finally:
            self.closed.set()

    def send(self, *batches: Collection[Change]) -> None:
        for batch in batches:
            self.queue.put_nowait(batch)


async def test_the_empty_batch_comes_when_all_producers_have_sent_their_first() -> None:
    one, other, watches = Producer(), Producer(), RunningWatches()
    joined = watches.join(one.batches(), other.batches())
    one.send((), (), ())
    first = asyncio.ensure_future(anext(joined))
    while one.queue.qsize():
        await asyncio.sleep(0)
    assert not first.done(), "only the first empty batch of a producer counts"
    other.send(())
    async with asyncio.timeout(60):
        assert await first == ()
        one.send([CHANGE])
        assert await anext(joined) == [CHANGE]
    await joined.aclose()
    assert one.closed.is_set()
    assert other.closed.is_set()


async def test_changes_before_the_empty_batch_are_not_lost() -> None:
    one, other, watches = Producer(), Producer(), RunningWatches()
    joined = watches.join(one.batches(), other.batches())
    one.send((), [CHANGE])
    async with asyncio.timeout(60):
        assert await anext(joined) == [CHANGE]
        other.send(())
        assert await anext(joined) == ()
    await joined.aclose()


async def test_a_watch_ends_and_closes_its_producers_when_the_source_stops() -> None:
    producer, watches = Producer(), RunningWatches()
    producer.send(())
    joined = watches.join(producer.batches())
    assert await anext(joined) == ()
    waiting = asyncio.ensure_future(anext(joined, None))
    await asyncio.sleep(0)
    await watches.stop()
    assert producer.closed.is_set()
    async with asyncio.timeout(60):
        assert await waiting is None


async def test_the_error_of_a_producer_is_raised() -> None:
    async def fail() -> AsyncGenerator[Collection[Change], None]:
        yield ()
        raise OSError("gone")

    joined = RunningWatches().join(fail())
    assert await anext(joined) == ()
    with pytest.raises(OSError, match="gone"):
        await anext(joined)
