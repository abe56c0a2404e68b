"""Database with read-only connections, time limits, and cancellation of running statements.

A function that takes a connection is run in a read-only transaction, which is rolled back. PostgreSQL uses asyncpg in
the event loop; the other databases use blocking drivers in threads. In both cases the function is synchronous, because
SQLAlchemy runs it in a greenlet for asyncpg.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.errors import ConfigError, MCPError
from carrel.log import Log
from carrel.references import from_keyring
from carrel.sources.databases.address import DatabaseAddress
from carrel.sources.databases.failure import (
    DatabaseFailed,
    StatementRejected,
    Unreachable,
    not_opened,
    translate,
    unreachable,
)
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.workers import Workers
from carrel.threads import cancelled

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from carrel.sources.databases.model import Schema
    from carrel.sources.databases.statements import Statement

__all__ = ["DATABASE", "Database", "RunningQuery", "ThreadedDatabase", "share_of"]

T = TypeVar("T")

log = Log("carrel.sources")

DATABASE = "carrel.database"
"""Key in ``Connection.info`` of the database that a connection belongs to."""
CONNECT_TIMEOUT = 10.0
#: Seconds that the database has to end a statement before the connection is interrupted.
GRACE = 1.0


def share_of(connections: int) -> tuple[int, int]:
    """Return the threads of a pool, and of one client: it leaves a connection to the others, if there are two."""
    return connections, max(1, connections - 1)


class Database(ABC):
    """Database of one address: opened by ``start``, closed by ``stop``."""

    sqlglot = ""
    """Name of the SQL dialect for sqlglot."""
    product = ""
    """Name of the product, for people."""
    listens = False
    """Whether ``listen`` reports changed rows, so that tables are not polled."""

    def __init__(self, address: DatabaseAddress, options: DatabaseOptions) -> None:
        self.address = address
        self.options = options
        self.returned: set[asyncio.Event] = set()
        """Events to set when the database can be reached again after it could not."""
        self._reachable = True

    def reached(self, reachable: bool) -> None:
        """Record whether the database could be reached."""
        if reachable and not self._reachable:
            for event in self.returned:
                event.set()
        self._reachable = reachable

    @abstractmethod
    async def open(self) -> None:
        """Open the database, without a connection yet.

        Raises:
            ConfigError: a driver is missing, or there is no such database.
        """

    async def start(self) -> None:
        """Open the database, and connect once.

        Raises:
            ConfigError: a driver is missing, or there is no such database.
        """
        await self.open()
        try:
            await self.check()
        except DatabaseFailed as error:
            await self.stop()
            raise not_opened(self.address.base, error) from None
        except BaseException:
            await self.stop()
            raise

    async def check(self) -> None:
        """Check the privileges of the account.

        Raises:
            ConfigError: it has too many privileges, or too few.
            DatabaseFailed: the database reported an error.
        """
        await self.run("", self.check_account)

    @abstractmethod
    async def stop(self) -> None:
        """Close all connections."""

    @abstractmethod
    async def run(self, client: str, work: Callable[[Connection], T]) -> T:
        """Call a function with a connection in a read-only transaction.

        Raises:
            DatabaseFailed: the database reported an error, or a limit was reached.
        """

    def listen(self, heard: Callable[[str | None], object]) -> AbstractAsyncContextManager[None]:
        """Listen to the database: ``heard`` is called with names of changed tables, and with None when the connection
        is lost.
        """
        raise NotImplementedError

    def heard(self, connection: Connection) -> set[tuple[str | None, str]]:
        """Return the tables whose changed rows ``listen`` reports, by schema and name."""
        return set()

    def digest(self, connection: Connection) -> Any:
        """Return a digest of the fingerprints of all tables, or None if the fingerprints must be compared instead."""
        return self.file_fingerprint()

    def fingerprints(self, connection: Connection, tables: dict[str, tuple[str | None, str]]) -> dict[str, Any]:
        """Return a fingerprint for each table (schema and name by id), which changes when the table's rows change."""
        return dict.fromkeys(tables, self.digest(connection))

    def file_fingerprint(self) -> Any:
        """Return a fingerprint of the file, which changes with its schema and its rows, or None if there is no file."""
        return None

    def schema_fingerprint(self, connection: Connection) -> Any:
        """Return a fingerprint that changes when the schema changes, or None if the schema must be read to find out."""
        return self.file_fingerprint()

    def account_may_write(self, connection: Connection) -> str | None:
        """Return the privilege with which the account could write, or None. Databases without accounts return None."""
        return None

    @abstractmethod
    def guard(self, connection: Connection, statement: Statement, catalog: Schema | None) -> None:
        """Check a statement against the database, and restrict the connection to the tables of a catalog.

        User-defined functions and operators may have the names of harmless ones. Without a catalog, any table may be
        read.

        Raises:
            StatementRejected: the statement calls a function that is not allowed.
        """

    def check_account(self, connection: Connection) -> None:
        """Warn if the account may write.

        Raises:
            ConfigError: the account may write, and the option ``strict_role`` is set.
        """
        right = self.account_may_write(connection)
        if right is None:
            return
        if self.options.strict_role:
            raise ConfigError(f"{self.address.base}: the account may write ({right}); strict_role is set")
        log.warning(
            "%s: the account may write (%s). Statements are checked and run in read-only transactions all the same; "
            "an account that may only read is safer",
            self.address.base,
            right,
        )

    def password(self) -> str | None:
        """Return the password from the options, the URL, or the keyring; None to leave it to the driver.

        Raises:
            ConfigError: the options name the keyring, and no keyring is available, or it does not contain the password.
        """
        address = self.address
        if self.options.password is not None:
            return self.options.password
        if address.password is not None or not self.options.keyring:
            return address.password
        key = f"{address.kind}://{address.user or ''}@{address.host or 'localhost'}/{address.database}"
        found = from_keyring("carrel", key)
        if found is None:
            raise ConfigError(f"the keyring has no password for it; add it with: keyring set carrel {key}")
        return found


class RunningQuery:
    """Statement that is running in a thread. ``interrupt`` is called from another thread and cancels it."""

    __slots__ = ("ended_by_limit", "interrupt")

    def __init__(self) -> None:
        self.interrupt: Callable[[], object] | None = None
        self.ended_by_limit = False


class ThreadedDatabase(Database):
    """Database with a blocking driver: each function runs in a thread with a separate connection."""

    def __init__(self, address: DatabaseAddress, options: DatabaseOptions) -> None:
        super().__init__(address, options)
        self._workers = Workers(address.base, f"carrel-{address.kind}", *share_of(options.connections))
        self._engine: Engine | None = None

    @abstractmethod
    def create_engine(self) -> Engine:
        """Return the engine, whose connections cannot write."""

    @abstractmethod
    def begin(self, connection: Connection, running: RunningQuery) -> None:
        """Prepare a connection: start a read-only transaction, set the limits, and set ``running.interrupt``."""

    def end(self, connection: Connection) -> None:
        """Undo the changes made by ``begin``."""

    async def open(self) -> None:
        """Make the engine and the threads."""
        self._engine = self.create_engine()
        self._workers.start()

    async def stop(self) -> None:
        """Close all connections, and end the threads."""
        await self._workers.stop()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    async def run(self, client: str, work: Callable[[Connection], T]) -> T:
        """Call a function in a thread. If the caller is cancelled, the statement is interrupted."""
        running = RunningQuery()
        loop = asyncio.get_running_loop()
        limit = loop.call_later(self.options.time_limit + GRACE, self._end, running)
        try:
            found: T = await self._workers.run(client, self._call, running, work)
        except asyncio.CancelledError:
            self._interrupt(running)
            raise
        except Unreachable:
            self.reached(False)
            raise
        else:
            self.reached(True)
            return found
        finally:
            limit.cancel()

    def _end(self, running: RunningQuery) -> None:
        running.ended_by_limit = True
        self._interrupt(running)

    def _interrupt(self, running: RunningQuery) -> None:
        interrupt = running.interrupt
        if interrupt is not None:
            interrupt()

    def _call(self, running: RunningQuery, work: Callable[[Connection], T]) -> T:
        from sqlalchemy.exc import SQLAlchemyError

        engine = self._engine
        if engine is None:
            raise Unreachable("the database is closed")
        try:
            connection = engine.connect()
        except Exception as error:
            log.debug("%s cannot be reached: %s", self.address.base, type(error).__name__)
            raise self.unreachable(error) from None
        try:
            with connection:
                self.begin(connection, running)
                try:
                    if cancelled():
                        raise asyncio.CancelledError
                    connection.info[DATABASE] = self
                    return work(connection)
                finally:
                    running.interrupt = None
                    self.end(connection)
        except (MCPError, DatabaseFailed, StatementRejected):
            raise
        except Exception as error:
            if not isinstance(error, (SQLAlchemyError, OSError, *self.driver_errors())):
                raise
            raise translate(error, self.options.time_limit) from None

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """Exceptions of the driver that SQLAlchemy does not wrap, while rows are fetched."""
        return ()

    def unreachable(self, error: Exception) -> DatabaseFailed:
        """Return the failure for a connection error. Details about the account are not sent to clients."""
        return unreachable(error)
