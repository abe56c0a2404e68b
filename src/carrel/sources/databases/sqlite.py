"""SQLite: files opened read-only, every action checked by an authorizer, limits in a progress handler.

https://www.sqlite.org/c3ref/set_authorizer.html
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from carrel.errors import ConfigError
from carrel.sources.databases.database import RunningQuery, ThreadedDatabase
from carrel.sources.databases.failure import DatabaseFailed, Unreachable, why_not_a_file
from carrel.sources.databases.functions import HARMLESS, TABLE_FUNCTIONS, is_allowed
from carrel.threads import cancelled

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from carrel.sources.databases.model import Schema
    from carrel.sources.databases.statements import Statement

__all__ = ["SQLiteDatabase"]

#: Virtual machine instructions between two checks of the time limit: about a millisecond.
STEPS = 20_000
BUSY_TIMEOUT = 5.0

READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
#: Endings of the tables in which virtual tables keep their rows: full text (fts3, fts4, fts5) and rtree.
SHADOWS = (
    *("_data", "_idx", "_content", "_docsize", "_config", "_segments", "_segdir", "_stat"),
    *("_node", "_parent", "_rowid"),
)
#: Pragmas that read the schema and detect changes. They do not write.
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
            sqlite3.Error: the file cannot be opened, or is not a database.
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
            for name in ("json_each", "json_tree"):  # the first use declares their columns, which queries may not
                connection.execute(f"SELECT 1 FROM {name}('[]')").close()  # noqa: S608
        except BaseException:
            connection.close()
            raise
        return connection

    def begin(self, connection: Connection, running: RunningQuery) -> None:
        """Set the authorizer, and the progress handler that ends the statement at the limit."""
        raw: Any = connection.connection.dbapi_connection
        until = monotonic() + self.options.time_limit

        def over() -> int:
            if monotonic() > until:
                running.ended_by_limit = True
            return int(running.ended_by_limit or cancelled())

        raw.set_progress_handler(over, STEPS)
        raw.set_authorizer(authorize)
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

    def digest(self, connection: Connection) -> Any:
        """Return the data version of the file: SQLite does not report which table has changed.

        The data version changes when *another* connection writes, so the same connection must always be used.
        https://www.sqlite.org/pragma.html#pragma_data_version
        """
        with self._watched_lock:
            if self._watched is None:
                self._watched = self.connect()
            [version] = self._watched.execute("PRAGMA data_version").fetchone()
        return version

    def schema_fingerprint(self, connection: Connection) -> Any:
        """Return the schema version of the file."""
        return connection.exec_driver_sql("PRAGMA schema_version").scalar()

    def guard(self, connection: Connection, statement: Statement, catalog: Schema | None) -> None:
        """Set an authorizer that rejects tables that are not shared, and functions that are not allowed."""
        raw: Any = connection.connection.dbapi_connection
        raw.set_authorizer(None)
        made = raw.execute("SELECT name, sql FROM sqlite_schema").fetchall()
        views = frozenset(name.lower() for name, sql in made if str(sql).startswith("CREATE VIEW"))
        virtual = frozenset(name.lower() for name, sql in made if str(sql).startswith("CREATE VIRTUAL"))
        shared = None
        if catalog is not None:
            names = {table.name.lower() for table in catalog.tables.values()}
            for name in names.intersection(virtual):  # the first use of a virtual table declares its columns
                raw.execute('SELECT * FROM "{}" LIMIT 0'.format(name.replace('"', '""'))).close()  # noqa: S608
            names |= {name + end for name in names.intersection(virtual) for end in SHADOWS}
            shared = names | TABLE_FUNCTIONS["sqlite"]
        raw.set_authorizer(SQLiteAuthorizer(shared, views, self.options.allow_functions))

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """Return the class of all errors of the driver."""
        return (sqlite3.Error,)

    def unreachable(self, error: Exception) -> DatabaseFailed:
        """Return the failure for a driver error: the file is missing, or not a database."""
        original = getattr(error, "orig", None) or error
        if isinstance(original, ConfigError):
            raise original
        wrong = why_not_a_file(self.address.path)
        if not wrong and isinstance(original, sqlite3.DatabaseError) and "not a database" in str(original):
            wrong = "the file is not a SQLite database"
        return Unreachable(wrong or "the database cannot be reached", is_down=not wrong)


def decoded(data: bytes) -> str | bytes:
    """Decode text. Return the bytes if they are not UTF-8, which SQLite allows."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def authorize(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
    """Allow reading, and the pragmas that read the schema."""
    if action == sqlite3.SQLITE_PRAGMA and first is not None and first.lower() in PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_OK if action in READING or action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_DENY


class SQLiteAuthorizer:
    """Authorizer for queries of clients: they read shared tables (all if None), directly or through views."""

    def __init__(self, shared: Collection[str] | None, views: Collection[str], allowed: Collection[str]) -> None:
        self._shared = shared
        self._views = views
        self._allowed = allowed

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, source: str | None
    ) -> int:
        """Return whether an action is allowed. ``source`` is the view, or the part of the query, that causes it."""
        if action == sqlite3.SQLITE_READ:
            through_view = (source or "").lower() in self._views
            # Without a column, a table is only counted; its name has been checked in the statement.
            permitted = self._shared is None or through_view or not second or (first or "").lower() in self._shared
        elif action == sqlite3.SQLITE_FUNCTION:
            name = (second or "").lower()
            permitted = name in HARMLESS["sqlite"] or is_allowed(name, self._allowed)
        else:
            permitted = action in READING
        return sqlite3.SQLITE_OK if permitted else sqlite3.SQLITE_DENY
