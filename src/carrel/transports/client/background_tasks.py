"""Background tasks of a client transport: one per request, all cancelled when the transport closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from carrel.wire.base import Id

__all__ = ["BackgroundTasks"]

#: Seconds that tasks get to finish after they are cancelled.
CLEANUP = 2.0


class BackgroundTasks:
    """Background tasks of one transport, in the event loop that is running when this is created."""

    __slots__ = ("_loop", "_others", "_requests")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._requests: dict[Id, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()

    def ask(self, id: Id, work: Coroutine[Any, Any, None]) -> None:
        """Start the task of the request ``id``."""
        task = self._requests[id] = self._loop.create_task(work)
        task.add_done_callback(partial(self._finish, id))

    def _finish(self, id: Id, task: asyncio.Task[None]) -> None:
        if self._requests.get(id) is task:
            del self._requests[id]

    def abandon(self, id: Id) -> None:
        """Cancel the task of a request."""
        task = self._requests.get(id)
        if task is not None:
            task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that belongs to no request."""
        task = self._loop.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    def follow(self, task: asyncio.Task[None]) -> asyncio.Future[None]:
        """Return a future that resolves when a task ends. Cancelling the future does not cancel the task."""
        ended: asyncio.Future[None] = self._loop.create_future()

        def report(_: asyncio.Task[None]) -> None:
            if not ended.done():
                ended.set_result(None)

        task.add_done_callback(report)
        return ended

    async def close(self) -> None:
        """Cancel all tasks, and wait for them to finish."""
        tasks = {*self._requests.values(), *self._others}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLEANUP)
