"""Program of the processes that read rows: one connection to a database, one job at a time."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import Callable
from typing import IO, Any

import msgspec

from carrel.sources.databases.database import Database
from carrel.sources.databases.engines import open_database
from carrel.sources.databases.failure import DatabaseFailed
from carrel.sources.databases.processes import ERRORS, OVERSIZE, Outcome
from carrel.sources.process import RECYCLED, limit_memory, limit_time, memory_used, open_pipes, receive, send

__all__ = ["main"]


def main(memory: int, seconds: int, idle: float) -> None:
    """Run jobs until the server closes the pipe, or no job arrives for ``idle`` seconds.

    ``memory`` (bytes), and ``seconds`` of CPU for a job, are limits. The first message has the address and options.
    """
    source, target = open_pipes()
    limit_memory(memory)
    opened = receive(source)
    if opened is not None:
        database = open_database(*pickle.loads(opened))  # noqa: S301 - from the server that started this process
        asyncio.run(Jobs(database, source, target).run(seconds, idle))
    # Threads may be in the middle of something that cannot be interrupted.
    os._exit(0)


class Jobs:
    """Jobs of one process. An empty message cancels the one that is running."""

    def __init__(self, database: Database, source: IO[bytes], target: IO[bytes]) -> None:
        self._database = database
        self._source = source
        self._target = target
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._running: asyncio.Task[Outcome] | None = None

    async def run(self, seconds: int, idle: float) -> None:
        """Run jobs, with the limits of ``main``."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(end_without_memory)
        await self._database.open()
        threading.Thread(target=self._receive, args=(loop,), daemon=True).start()
        send(self._target, b"")
        while True:
            try:
                async with asyncio.timeout(idle):
                    data = await self._waiting.get()
            except TimeoutError:
                return
            limit_time(seconds)
            self._running = asyncio.create_task(outcome_of(self._database, pickle.loads(data)))  # noqa: S301
            await asyncio.wait([self._running])
            cancelled = self._running.cancelled()
            outcome = (
                Outcome(error=DatabaseFailed.__name__, arguments=("cancelled",))
                if cancelled
                else self._running.result()
            )
            self._running = None
            outcome.last = memory_used() > RECYCLED
            send(self._target, msgspec.msgpack.encode(outcome))
            if outcome.last:
                return

    def _receive(self, loop: asyncio.AbstractEventLoop) -> None:
        while (data := receive(self._source)) is not None:
            loop.call_soon_threadsafe(self._take, data)
        os._exit(0)  # the server has gone

    def _take(self, data: bytes) -> None:
        if data:
            self._waiting.put_nowait(data)
        elif self._running is not None:
            self._running.cancel()


async def outcome_of(database: Database, job: Callable[[Any], Any]) -> Outcome:
    """Run a job, and return its result or exception."""
    try:
        return Outcome(msgspec.Raw(msgspec.msgpack.encode(await database.run("", job))))
    except MemoryError:
        return Outcome(error=DatabaseFailed.__name__, arguments=(OVERSIZE,), last=True)
    except tuple(ERRORS.values()) as error:
        return Outcome(error=type(error).__name__, arguments=error.args)
    except Exception as error:
        return Outcome(error=RuntimeError.__name__, arguments=(f"{type(error).__name__}: {error}",))


def end_without_memory(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """End the process if a callback of a driver has no memory: the driver would only report a lost connection."""
    if isinstance(context.get("exception"), MemoryError):
        os._exit(1)
