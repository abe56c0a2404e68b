"""DuckDB: files opened read-only for each request, without access to other files, the network, or extensions.

The file is closed between requests, because other processes cannot write to it while DuckDB has it open.

https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from carrel.errors import SourceUnavailable
from carrel.log import Log
from carrel.regular_file import timestamp_of
from carrel.sources.databases.database import RunningQuery, ThreadedDatabase
from carrel.sources.databases.failure import DatabaseFailed, StatementRejected, Unreachable, why_not_a_file
from carrel.sources.databases.functions import is_allowed, not_harmless
from carrel.sources.packages import needed

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from carrel.sources.databases.model import Schema
    from carrel.sources.databases.statements import Statement

__all__ = ["DuckDBDatabase"]

CONFIG = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": "512MB",
    "threads": "2",
    "lock_configuration": "true",
}
#: These call no other function or operator: a macro could have its name.
MACROS = "SELECT function_name FROM system.main.duckdb_functions() WHERE NOT internal"
INTERNAL = "SELECT function_name FROM system.main.duckdb_functions() WHERE internal"
#: Functions that words call without a parenthesis, as LOCALTIME does, and that an extension brings along.
OF_WORDS = frozenset({"current_localtime", "current_localtimestamp"})

log = Log("carrel.sources")


SHADOWED = (
    "the file has macros with the names of functions or operators of DuckDB, which any query could call: {}. "
    "The operator of the server can allow them with the option allow_functions"
)


class DuckDBDatabase(ThreadedDatabase):
    """DuckDB file."""

    sqlglot = "duckdb"
    product = "DuckDB"

    def create_engine(self) -> Engine:
        """Return the engine. It keeps no connection open."""
        import warnings

        from sqlalchemy import create_engine, pool

        with needed("duckdb: URLs", "duckdb"):
            import duckdb  # noqa: F401
            import duckdb_engine  # noqa: F401
        if wrong := why_not_a_file(self.address.path):
            raise SourceUnavailable(f"{self.address.base} cannot be opened: {wrong}", is_down=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return create_engine("duckdb://", creator=self.connect, poolclass=pool.NullPool, hide_parameters=True)

    def connect(self) -> Any:
        """Return a new connection that cannot write."""
        import duckdb
        import duckdb_engine

        config: Any = CONFIG
        return duckdb_engine.ConnectionWrapper(duckdb.connect(self.address.path, read_only=True, config=config))

    def begin(self, connection: Connection, running: RunningQuery) -> None:
        """Set ``running.interrupt``. The time limit is enforced by interrupting the statement."""
        raw: Any = connection.connection.dbapi_connection
        running.interrupt = raw.interrupt

    def file_fingerprint(self) -> Any:
        """Return the modification time, size and inode number of the file, without opening it."""
        return timestamp_of(self.address.path)

    def guard(self, connection: Connection, statement: Statement, catalog: Schema | None) -> None:
        """Reject macros of the file, which may read any table, and are found before functions of the same name.

        Syntax calls functions, too, as ``[1]`` calls list_value. So a macro with the name of any function or operator
        of DuckDB must be allowed before a query runs.
        """
        macros = self._macros(connection)
        shadowing = shadowed(connection, macros)
        if shadowing:
            raise StatementRejected(SHADOWED.format(shadowing[0][:200]))
        for name in sorted(statement.functions & macros):
            raise not_harmless(name)

    def check_account(self, connection: Connection) -> None:
        """Warn of macros because of which all queries are rejected."""
        super().check_account(connection)
        if not self.options.query and not self.options.queries:
            return
        shadowing = shadowed(connection, self._macros(connection))
        if shadowing:
            reason = SHADOWED.format(", ".join(shadowing)[:500])
            log.warning("%s: all queries are refused: %s", self.address.base, reason)

    def _macros(self, connection: Connection) -> set[str]:
        """Return the names of macros of the file that are not allowed."""
        found = {row[0].lower() for row in connection.exec_driver_sql(MACROS)}
        return {name for name in found if not is_allowed(name, self.options.allow_functions)}

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """Return the class of all errors of the driver."""
        import duckdb

        return (duckdb.Error,)

    def unreachable(self, error: Exception) -> DatabaseFailed:
        """Return the failure for a driver error: the file is locked, missing, or not a database."""
        text = str(error)
        if "lock" in text.lower():
            return Unreachable("another process is writing to the file; try again when it has closed it", is_down=False)
        wrong = why_not_a_file(self.address.path) or "the file is not a DuckDB database, or of another version"
        return Unreachable(wrong, is_down=False)


def shadowed(connection: Connection, macros: set[str]) -> list[str]:
    """Return the names of macros that DuckDB's own functions and operators have, too."""
    if not macros:
        return []
    internal = {row[0].lower() for row in connection.exec_driver_sql(INTERNAL)}
    return sorted(macros & (internal | OF_WORDS))
