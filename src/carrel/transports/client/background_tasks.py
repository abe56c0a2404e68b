"""What a transport does for its messages while others wait: one task each, and none that outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from carrel.wire.base import Id

__all__ = ["BackgroundTasks"]

#: Seconds that tasks get to end once they are cancelled.
CLEANUP = 2.0


class BackgroundTasks:
    """The tasks of one transport, in the event loop that runs when it is made."""

    __slots__ = ("_loop", "_others", "_requests")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._requests: dict[Id, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()

    def ask(self, id: Id, work: Coroutine[Any, Any, None]) -> None:
        """Do what the request ``id`` takes."""
        task = self._requests[id] = self._loop.create_task(work)
        task.add_done_callback(partial(self._finish, id))

    def _finish(self, id: Id, task: asyncio.Task[None]) -> None:
        if self._requests.get(id) is task:
            del self._requests[id]

    def abandon(self, id: Id) -> None:
        """Cancel what is done for a request."""
        task = self._requests.get(id)
        if task is not None:
            task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something that belongs to no request."""
        task = self._loop.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    def follow(self, task: asyncio.Task[None]) -> asyncio.Future[None]:
        """Return what tells that a task has ended, whatever came of it. Cancelling that does not cancel the task."""
        ended: asyncio.Future[None] = self._loop.create_future()

        def tell(_: asyncio.Task[None]) -> None:
            if not ended.done():
                ended.set_result(None)

        task.add_done_callback(tell)
        return ended

    async def close(self) -> None:
        """Cancel everything, and wait for it to end."""
        tasks = {*self._requests.values(), *self._others}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLEANUP)
