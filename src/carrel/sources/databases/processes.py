"""Worker processes that read rows. A large value costs memory and time only in the worker, which can be killed.

A job is a function that takes a connection (``functools.partial``), and is sent to the process with pickle. The process
is not trusted, because it reads data that others wrote: its responses are decoded as a known type only.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from carrel.sources.databases.address import DatabaseAddress
from carrel.sources.databases.database import CONNECT_TIMEOUT, GRACE, share_of
from carrel.sources.databases.failure import (
    BadValue,
    DatabaseFailed,
    QueryTimeout,
    StatementRejected,
    TooMuch,
    Unreachable,
)
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.process import ChildProcess, Crashed, ProcessTimeout, send
from carrel.sources.workers import Workers

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["ERRORS", "OVERSIZE", "DatabaseProcess", "DatabaseProcesses", "Outcome"]

T = TypeVar("T")

#: Bytes of the address space of a process.
MEMORY = 1536 * 1024 * 1024
#: Seconds without a job after which a process exits, and seconds for its start.
IDLE, START = 300.0, 60.0
OVERSIZE = "the values need more memory than one request may use; select fewer or smaller values"

ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (BadValue, DatabaseFailed, StatementRejected, QueryTimeout, TooMuch, Unreachable)
}
"""Exceptions that a process may return."""


class Outcome(msgspec.Struct, array_like=True):
    """Result of a job, or the name and arguments of its exception. After the ``last`` outcome, the process exits."""

    value: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: str | None = None
    arguments: tuple[str | int | bool, ...] = ()
    last: bool = False


class DatabaseProcess(ChildProcess):
    """Process with one connection to a database."""

    def __init__(self, address: DatabaseAddress, options: DatabaseOptions) -> None:
        # The drivers locate passwords, certificates and service files with environment variables and the working
        # directory.
        connecting = 0.0 if address.path else CONNECT_TIMEOUT
        self._seconds = max(connecting, options.time_limit) + 2 * GRACE
        arguments = (MEMORY, int(4 * self._seconds), IDLE)
        super().__init__("carrel.sources.databases.worker", arguments, environment=os.environ, idle=IDLE)
        self._opened = pickle.dumps((address, msgspec.structs.replace(options, connections=1)))

    def ask(self, job: bytes, type: type[T]) -> T:
        """Return the result of a job, or raise its exception.

        Raises:
            DatabaseFailed: the job took too long, or needed too much memory. The process was stopped.
            CancelledError: the request was cancelled.
        """
        try:
            outcome = self._ask(job)
            if outcome.error is None:
                return msgspec.msgpack.decode(outcome.value, type=type)
        except ProcessTimeout:
            self.close()
            raise QueryTimeout(
                f"the statement took longer than {self._seconds:g} seconds and could not be interrupted; "
                "request less data"
            ) from None
        except (Crashed, msgspec.MsgspecError):
            self.close()
            raise DatabaseFailed(OVERSIZE) from None
        except asyncio.CancelledError:
            raise
        except BaseException:
            self.close()
            raise
        raise ERRORS.get(outcome.error, RuntimeError)(*outcome.arguments)

    def _ask(self, job: bytes) -> Outcome:
        known = self._process
        process = self.started()
        if process is not known:
            try:
                self.exchange(process, self._opened, START)
            except BaseException:
                self.close()
                raise
        try:
            data = self.exchange(process, job, self._seconds)
        except asyncio.CancelledError:
            # The database ends a statement only if it is cancelled. A process that does not respond is killed.
            self._interrupt(process)
            raise
        outcome = msgspec.msgpack.decode(data, type=Outcome)
        if outcome.last:
            self.close()
        return outcome

    def _interrupt(self, process: subprocess.Popen[bytes]) -> None:
        """Cancel the job of the process, and wait until it is cancelled."""
        assert process.stdin is not None
        try:
            send(process.stdin, b"")
            self.wait(GRACE, cancellable=False)
        except (OSError, ValueError, ProcessTimeout, Crashed):
            self.close()


class DatabaseProcesses:
    """Processes for one database, up to ``connections`` of them, started when they are needed.

    ``reached`` is called after each job with whether the database could be reached.
    """

    def __init__(self, address: DatabaseAddress, options: DatabaseOptions, reached: Callable[[bool], None]) -> None:
        self._address = address
        self._options = options
        self._reached = reached
        self._workers = Workers(address.base, "carrel-rows", *share_of(options.connections))
        self._idle: list[DatabaseProcess] = []
        self._all: set[DatabaseProcess] = set()

    def start(self) -> None:
        """Accept jobs."""
        self._workers.start()

    async def stop(self) -> None:
        """Kill the processes."""
        for process in tuple(self._all):
            process.stop()
        await self._workers.stop()
        self._all.clear()
        self._idle.clear()

    async def run(self, client: str, job: Callable[[Connection], T], type: type[T]) -> T:
        """Call a function with a connection in a read-only transaction, in a process. ``type`` is the type of the
        result.

        Raises:
            DatabaseFailed: the database reported an error, or a limit was reached.
        """
        try:
            found: T = await self._workers.run(client, self._ask, pickle.dumps(job), type)
        except Unreachable:
            self._reached(False)
            raise
        self._reached(True)
        return found

    def _ask(self, job: bytes, type: type[T]) -> T:
        try:
            process = self._idle.pop()  # the most recently used process
        except IndexError:
            process = DatabaseProcess(self._address, self._options)
            self._all.add(process)
        try:
            return process.ask(job, type)
        except OSError:
            raise DatabaseFailed("no process for the database can be started") from None
        finally:
            self._idle.append(process)
