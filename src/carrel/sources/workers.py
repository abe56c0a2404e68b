"""Thread pool of a source: separate, so that a hanging file system blocks no other threads. And limits of concurrent
requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.threads import ThreadPool

__all__ = ["THREADS", "THREADS_PER_CLIENT", "WAITING_PER_CLIENT", "ClientLimiter", "Workers"]

T = TypeVar("T")

THREADS = 8
THREADS_PER_CLIENT = 4
WAITING_PER_CLIENT = 4096

#: Seconds that running reads have to finish when the source is stopped.
PATIENCE = 5.0


class Workers:
    """Thread pool of one source, open from ``start`` to ``stop`` and shared fairly by its clients.

    ``owner`` appears in error messages, ``name`` in thread names.

    Raises:
        ConfigError: a number is less than 1.
    """

    def __init__(
        self,
        owner: object,
        name: str,
        threads: int = THREADS,
        per_client: int = THREADS_PER_CLIENT,
        waiting_per_client: int = WAITING_PER_CLIENT,
    ) -> None:
        if min(threads, per_client, waiting_per_client) < 1:
            raise ConfigError("The threads of a source, and the requests that wait for them, must be 1 or more")
        self._owner = owner
        self._numbers = threads, per_client, waiting_per_client
        self._name = name
        self._pool: ThreadPool | None = None

    def __bool__(self) -> bool:
        return self._pool is not None

    def start(self) -> None:
        """Open the pool and accept calls."""
        from carrel.threads import ThreadPool  # deferred import

        self._pool = ThreadPool(*self._numbers, self._name)

    async def open(self, function: Callable[[], T]) -> T:
        """Open the pool and run a first function in it. If the function fails, close the pool again."""
        self.start()
        try:
            return await self.run("", function)
        except BaseException:
            await self.stop(0)
            raise

    async def stop(self, patience: float = PATIENCE) -> None:
        """Accept no more calls and wait up to ``patience`` seconds for running ones; a hanging thread is abandoned."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close(patience)

    def check(self) -> None:
        """Check that the source has been started.

        Raises:
            ConfigError: the source has not been started, or has been stopped.
        """
        if self._pool is None:
            raise ConfigError(f"{self._owner!r} has not been started, or has been stopped")

    async def run(self, client: str, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in a thread, on behalf of a client (``Request.client``).

        Raises:
            ConfigError: the source has not been started, or has been stopped.
            ServerUnavailable: too many requests of this client wait for a thread.
        """
        self.check()
        assert self._pool is not None
        return await self._pool.run(client, function, *arguments)


class ClientLimiter:
    """Limits of concurrent requests, per client and in total; who comes later waits."""

    def __init__(self, per_client: int, total: int) -> None:
        self._per_client = per_client
        self._total = asyncio.Semaphore(total)
        self._clients: dict[str, tuple[asyncio.Semaphore, list[None]]] = {}

    @asynccontextmanager
    async def slot(self, client: str) -> AsyncIterator[None]:
        """Context manager that waits for the turn of a client, and holds it."""
        own, users = self._clients.setdefault(client, (asyncio.Semaphore(self._per_client), []))
        users.append(None)
        try:
            async with own, self._total:
                yield
        finally:
            users.pop()
            if not users:
                self._clients.pop(client, None)
