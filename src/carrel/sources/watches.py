"""Watches of a source: batches of changes of several producers joined, until the source is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing
from typing import Protocol

from carrel.catalog.provider import Change

__all__ = ["Batches", "RunningWatches"]


class Batches(Protocol):
    """Batches of changes. The first one is empty, and comes as soon as no change is missed any more."""

    def __aiter__(self) -> AsyncIterator[Collection[Change]]: ...
    async def aclose(self) -> None: ...


class RunningWatches:
    """Watches of one source, each an iterator that ``join`` returns."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def join(self, *producers: Batches) -> AsyncGenerator[Collection[Change], None]:
        """Yield the batches of producers, one empty batch for all of them, until one ends or ``stop`` is called.

        A producer continues when its batch has been taken. The errors of producers are raised.
        """
        queue: asyncio.Queue[Collection[Change]] = asyncio.Queue(1)

        async def follow(producer: Batches) -> None:
            is_first = True
            async with aclosing(producer):
                async for batch in producer:
                    if batch or is_first:
                        await queue.put(batch)
                    is_first = False

        tasks = [asyncio.create_task(follow(producer)) for producer in producers]
        self._tasks.update(tasks)
        waiting = asyncio.create_task(queue.get())
        deaf = len(tasks)
        try:
            while tasks:
                await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    break
                batch = waiting.result()
                waiting = asyncio.create_task(queue.get())
                deaf -= not batch
                if batch or not deaf:
                    yield batch
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            for one in (*tasks, waiting):
                one.cancel()
            await asyncio.gather(*tasks, waiting, return_exceptions=True)
            self._tasks.difference_update(tasks)

    async def stop(self) -> None:
        """End all watches, and wait until their producers are closed."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
