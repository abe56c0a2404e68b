"""Threads for what a source reads: its own, so that a file system that hangs takes them away from nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.errors import ConfigError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["Workers"]

T = TypeVar("T")

#: Seconds that reads have to end when the source is stopped.
PATIENCE = 5.0


class Workers:
    """Up to ``number`` threads, from ``start`` to ``stop``. ``owner`` is what messages and threads are named after."""

    def __init__(self, owner: object, number: int, name: str) -> None:
        self._owner = owner
        self._number = number
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    def __bool__(self) -> bool:
        return self._pool is not None

    def start(self) -> None:
        """Make the threads, when they are needed."""
        from concurrent.futures import ThreadPoolExecutor  # not before something is shared

        self._pool = ThreadPoolExecutor(self._number, thread_name_prefix=self._name)

    async def stop(self) -> None:
        """Wait for what is under way, and start nothing any more."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
            try:
                async with asyncio.timeout(PATIENCE):
                    await asyncio.to_thread(pool.shutdown)
            except TimeoutError:
                pass  # a thread that hangs in a dead file system is left to it

    def give_up(self) -> None:
        """Start nothing any more, and wait for nothing."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)

    def check(self) -> None:
        """Check that there are threads.

        Raises:
            ConfigError: the source has not been started, or has been stopped.
        """
        if self._pool is None:
            raise ConfigError(f"{self._owner!r} has not been started, or has been stopped")

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread.

        Raises:
            ConfigError: the source has not been started, or has been stopped.
        """
        self.check()
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
