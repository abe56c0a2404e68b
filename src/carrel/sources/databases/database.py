"""Database: connections on which nothing can be written, with limits of time, and cancellation that reaches them.

A function of a connection is run in a read-only transaction, which is rolled back. PostgreSQL is spoken to by asyncpg
in the event loop, the others by blocking drivers in threads; in both cases the function is an ordinary one, because
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
from carrel.sources.databases.address import Address
from carrel.sources.databases.failure import Failed, Refused, Unreachable, not_opened, translate, unreachable
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.workers import Workers
from carrel.threads import cancelled

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["Database", "Running", "ThreadedDatabase"]

T = TypeVar("T")

log = Log("carrel.sources")

CONNECT_TIMEOUT = 10.0
#: Seconds that the database is given to end a statement by itself, before the connection is interrupted.
GRACE = 1.0


class Database(ABC):
    """Database of one address: opened by ``start``, closed by ``stop``."""

    sqlglot = ""
    """Name of the SQL dialect for sqlglot."""
    product = ""
    """Name of the product, for people."""
    listens = False
    """Whether ``listen`` tells of changed rows, so that they are not looked for."""

    def __init__(self, address: Address, options: DatabaseOptions) -> None:
        self.address = address
        self.options = options

    @abstractmethod
    async def start(self) -> None:
        """Open the database.

        Raises:
            ConfigError: a driver is missing, or there is no such database.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Close all connections."""

    @abstractmethod
    async def run(self, client: str, work: Callable[[Connection], T], *, guarded: bool = False) -> T:
        """Call a function with a connection in a read-only transaction; ``guarded`` if it runs SQL of a client.

        Raises:
            Failed: the database reported an error, or a limit was reached.
        """

    def listen(self, heard: Callable[[str | None], object]) -> AbstractAsyncContextManager[None]:
        """Listen to the database: ``heard`` is called with names of changed tables, and with None when it is lost."""
        raise NotImplementedError

    def stamps(self, connection: Connection, tables: dict[str, tuple[str | None, str]]) -> dict[str, Any]:
        """Return a stamp for each of the tables (schema and name by id), that differs when its rows do."""
        return dict.fromkeys(tables)

    def file_stamp(self) -> Any:
        """Return a stamp of the file that differs when its schema or its rows do; None where there is no such thing."""
        return None

    def schema_stamp(self, connection: Connection) -> Any:
        """Return a stamp that differs when the schema does; None if only reading the schema tells."""
        return None

    def account_may_write(self, connection: Connection) -> str | None:
        """Return by which right the account could write, or None; databases without accounts have none."""
        return None

    @abstractmethod
    def check_functions(self, connection: Connection, names: set[str]) -> None:
        """Check the functions that a query calls, by their names in lower case.

        Raises:
            Refused: one has effects besides its result.
        """

    def check_account(self, connection: Connection) -> None:
        """Warn if the account may write.

        Raises:
            ConfigError: it may, and the option ``strict_role`` is set.
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
            ConfigError: the keyring is to be used, and there is none, or it has no such password.
        """
        address = self.address
        if self.options.password is not None:
            return self.options.password
        if address.password is not None or not self.options.keyring:
            return address.password
        try:
            import keyring
        except ImportError:
            raise ConfigError("passwords from the keyring need: pip install 'carrel[keyring]'") from None
        key = f"{address.kind}://{address.user or ''}@{address.host or 'localhost'}/{address.database}"
        found = keyring.get_password("carrel", key)
        if found is None:
            raise ConfigError(f"the keyring has no password for it; add it with: keyring set carrel {key}")
        return found


class Running:
    """A statement that is running in a thread; ``interrupt`` ends it, from another thread."""

    __slots__ = ("ended_by_limit", "interrupt")

    def __init__(self) -> None:
        self.interrupt: Callable[[], object] | None = None
        self.ended_by_limit = False


class ThreadedDatabase(Database):
    """Database whose driver blocks: each function runs in a thread, with a connection of its own."""

    def __init__(self, address: Address, options: DatabaseOptions) -> None:
        super().__init__(address, options)
        self._workers = Workers(address.base, f"carrel-{address.kind}", options.connections, options.connections)
        self._engine: Engine | None = None

    @abstractmethod
    def create_engine(self) -> Engine:
        """Return the engine, whose connections cannot write."""

    @abstractmethod
    def begin(self, connection: Connection, running: Running, *, guarded: bool) -> None:
        """Prepare a connection: start a read-only transaction, set the limits, and say how it is interrupted."""

    def end(self, connection: Connection) -> None:
        """Undo what ``begin`` has set."""

    async def start(self) -> None:
        """Open the database, and connect once."""
        self._engine = self.create_engine()
        self._workers.start()
        try:
            await self.run("", self.check_account)
        except Failed as error:
            await self.stop()
            raise not_opened(self.address.base, error) from None
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close all connections, and end the threads."""
        await self._workers.stop()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    async def run(self, client: str, work: Callable[[Connection], T], *, guarded: bool = False) -> T:
        """Call a function in a thread. If the caller is cancelled, the statement is interrupted."""
        running = Running()
        loop = asyncio.get_running_loop()
        limit = loop.call_later(self.options.time_limit + GRACE, self._end, running)
        try:
            return await self._workers.run(client, self._call, running, work, guarded)
        except asyncio.CancelledError:
            self._interrupt(running)
            raise
        finally:
            limit.cancel()

    def _end(self, running: Running) -> None:
        running.ended_by_limit = True
        self._interrupt(running)

    def _interrupt(self, running: Running) -> None:
        interrupt = running.interrupt
        if interrupt is not None:
            interrupt()

    def _call(self, running: Running, work: Callable[[Connection], T], guarded: bool) -> T:
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
                self.begin(connection, running, guarded=guarded)
                try:
                    if cancelled():
                        raise asyncio.CancelledError
                    return work(connection)
                finally:
                    running.interrupt = None
                    self.end(connection)
        except (MCPError, Failed, Refused):
            raise
        except Exception as error:
            if not isinstance(error, (SQLAlchemyError, OSError, *self.driver_errors())):
                raise
            raise translate(error, self.options.time_limit) from None

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """Exceptions of the driver that SQLAlchemy does not wrap, while rows are fetched."""
        return ()

    def unreachable(self, error: Exception) -> Failed:
        """Return the failure for an error while connecting; clients are not told what it says about the account."""
        return unreachable(error)
