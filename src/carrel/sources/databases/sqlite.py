"""SQLite: files opened read-only, every action checked by an authorizer, limits in a progress handler.

https://www.sqlite.org/c3ref/set_authorizer.html
"""

from __future__ import annotations

import sqlite3
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from carrel.errors import ConfigError
from carrel.sources.databases.database import Running, ThreadedDatabase
from carrel.sources.databases.failure import Failed, Refused, Unreachable
from carrel.threads import cancelled

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["SQLiteDatabase"]

#: Virtual machine instructions between two looks at the clock: about a millisecond.
STEPS = 20_000
BUSY_TIMEOUT = 5.0

READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
#: Functions with effects outside of the query. Most are of the command line shell only.
REFUSED = frozenset(
    {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "fsdir", "sqlite_log", "shell_add_schema"}
)
#: Pragmas by which the schema is read, and changes are noticed; none of them writes.
PRAGMAS = frozenset(
    {
        *("table_list", "table_info", "table_xinfo", "index_list", "index_info", "index_xinfo", "foreign_key_list"),
        *("data_version", "schema_version", "query_only", "encoding", "database_list"),
    }
)


class SQLiteDatabase(ThreadedDatabase):
    """SQLite file, opened with ``mode=ro`` and ``query_only``."""

    sqlglot = "sqlite"
    product = "SQLite"

    def __init__(self, address: Any, options: Any) -> None:
        super().__init__(address, options)
        self._watched: sqlite3.Connection | None = None
        self._watched_lock = threading.Lock()

    def create_engine(self) -> Engine:
        """Return the engine; each connection is authorized anew by ``begin``."""
        from sqlalchemy import create_engine, pool

        return create_engine(
            "sqlite://",
            creator=self.connect,
            poolclass=pool.QueuePool,
            pool_size=self.options.connections,
            max_overflow=0,
            hide_parameters=True,
        )

    def connect(self) -> sqlite3.Connection:
        """Return a new connection that cannot write.

        Raises:
            sqlite3.Error: the file cannot be opened, or is no database.
        """
        uri = f"file:{quote(self.address.path)}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=BUSY_TIMEOUT)
        try:
            connection.text_factory = decoded
            # Values of a gigabyte are possible otherwise, also as results of functions.
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(16 * self.options.max_bytes, 16 * 1024 * 1024))
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT count(*) FROM sqlite_schema")
        except BaseException:
            connection.close()
            raise
        return connection

    def begin(self, connection: Connection, running: Running, *, guarded: bool) -> None:
        """Set the authorizer, and the progress handler that ends the statement at the limit."""
        raw: Any = connection.connection.dbapi_connection
        until = monotonic() + self.options.time_limit

        def over() -> int:
            if monotonic() > until:
                running.ended_by_limit = True
            return int(running.ended_by_limit or cancelled())

        raw.set_progress_handler(over, STEPS)
        raw.set_authorizer(authorize_query if guarded else authorize)
        running.interrupt = raw.interrupt

    def end(self, connection: Connection) -> None:
        """Remove the handlers."""
        raw: Any = connection.connection.dbapi_connection
        if raw is not None:
            raw.set_progress_handler(None, 0)

    async def stop(self) -> None:
        """Close all connections."""
        await super().stop()
        with self._watched_lock:
            watched, self._watched = self._watched, None
        if watched is not None:
            watched.close()

    def stamps(self, connection: Connection, tables: dict[str, tuple[str | None, str]]) -> dict[str, Any]:
        """Return the data version of the file for each table: SQLite does not tell which of them has changed.

        It says whether *another* connection has written since this one looked, so it always is the same one that looks.
        https://www.sqlite.org/pragma.html#pragma_data_version
        """
        with self._watched_lock:
            if self._watched is None:
                self._watched = self.connect()
            [version] = self._watched.execute("PRAGMA data_version").fetchone()
        return dict.fromkeys(tables, version)

    def schema_stamp(self, connection: Connection) -> Any:
        """Return the schema version of the file."""
        return connection.exec_driver_sql("PRAGMA schema_version").scalar()

    def check_functions(self, connection: Connection, names: set[str]) -> None:
        """Refuse functions of the shell; the authorizer does the same."""
        for name in sorted(names & REFUSED):
            raise Refused(f"the function {name} is not allowed, because it has effects besides its result")

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """Return the class of all errors of the driver."""
        return (sqlite3.Error,)

    def unreachable(self, error: Exception) -> Failed:
        """Return the failure for an error of the driver: a file that is missing, or is no database."""
        original = getattr(error, "orig", None) or error
        if isinstance(original, sqlite3.DatabaseError) and "not a database" in str(original):
            return Unreachable("the file is not a SQLite database")
        if isinstance(original, sqlite3.OperationalError):
            return Unreachable("there is no such file, or it may not be read")
        if isinstance(original, ConfigError):
            raise original
        return Unreachable("the database cannot be reached")


def decoded(data: bytes) -> str | bytes:
    """Return text, or its bytes where they are not UTF-8, which SQLite allows."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    """Allow reading, and the pragmas that read the schema."""
    if action == sqlite3.SQLITE_PRAGMA and first is not None and first.lower() in PRAGMAS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_TRANSACTION:
        return sqlite3.SQLITE_OK
    return authorize_query(action, first, second, database, trigger)


def authorize_query(
    action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
) -> int:
    """Allow reading only."""
    if action == sqlite3.SQLITE_FUNCTION and second is not None and second.lower() in REFUSED:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY
