"""Task that several callers wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from carrel.errors import AuthorizationError

__all__ = ["SharedTask"]


class SharedTask:
    """One task at a time, for any number of callers.

    The task continues when its waiters are cancelled, so that a login in progress can complete.
    """

    def __init__(self) -> None:
        self.running: asyncio.Task[None] | None = None

    async def run(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the running task, or start one with ``begin``.

        Raises:
            AuthorizationError: the task was cancelled with ``cancel``.
        """
        if self.running is None:
            self.running = asyncio.create_task(begin())
            self.running.add_done_callback(self._ended)
        await self.join()

    async def join(self) -> bool:
        """Wait for the running task, and return whether there was one.

        Raises:
            AuthorizationError: the task was cancelled with ``cancel``.
        """
        task = self.running
        if task is None:
            return False
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise AuthorizationError("The authorization was cancelled") from None
            raise
        return True

    async def cancel(self) -> None:
        """Cancel the running task, if any, and wait for its end."""
        task, self.running = self.running, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError, AuthorizationError):
                await task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self.running is task:
            self.running = None
        if not task.cancelled():
            task.exception()  # mark the exception as retrieved; waiters get it from the task
