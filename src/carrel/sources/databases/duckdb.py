"""DuckDB: files opened read-only for each request, without access to other files, the network, or extensions.

The file is closed between requests, because DuckDB lets no other process write while it is open.

https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview
"""

# ruff: noqa: PTH116

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from carrel.errors import ConfigError
from carrel.sources.databases.database import Running, ThreadedDatabase
from carrel.sources.databases.failure import Failed, Refused, Unreachable

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

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
#: Table functions that compute rows, or list what is shared anyway.
ALLOWED_TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "repeat", "repeat_row"})
#: Functions that look at settings, secrets, or the process.
REFUSED = frozenset(
    {"current_setting", "getvariable", "getenv", "which_secret", "write_log", "parse_duckdb_log_message"}
)
HARMLESS = frozenset({"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7"})


class DuckDBDatabase(ThreadedDatabase):
    """DuckDB file."""

    sqlglot = "duckdb"
    product = "DuckDB"

    def create_engine(self) -> Engine:
        """Return the engine, which keeps no connection open."""
        import warnings

        from sqlalchemy import create_engine, pool

        try:
            import duckdb  # noqa: F401
            import duckdb_engine  # noqa: F401
        except ImportError as error:
            raise ConfigError(f"duckdb: URLs need {error.name}: pip install 'carrel[duckdb]'") from None
        if not os.path.isfile(self.address.path):  # noqa: PTH113
            raise ConfigError(f"{self.address.base} cannot be opened: there is no such file")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return create_engine("duckdb://", creator=self.connect, poolclass=pool.NullPool, hide_parameters=True)

    def connect(self) -> Any:
        """Return a new connection that cannot write."""
        import duckdb
        import duckdb_engine

        config: Any = CONFIG
        return duckdb_engine.ConnectionWrapper(duckdb.connect(self.address.path, read_only=True, config=config))

    def begin(self, connection: Connection, running: Running, *, guarded: bool) -> None:
        """Say how the statement is interrupted; the limit of time is kept by interrupting it."""
        raw: Any = connection.connection.dbapi_connection
        running.interrupt = raw.interrupt

    def stamps(self, connection: Connection, tables: dict[str, tuple[str | None, str]]) -> dict[str, Any]:
        """Return the time and size of the file for each table."""
        return dict.fromkeys(tables, self.file_stamp())

    def schema_stamp(self, connection: Connection) -> Any:
        """Return the time and size of the file."""
        return self.file_stamp()

    def file_stamp(self) -> Any:
        """Return the time, size and number of the file; looking at them does not open it."""
        try:
            info = os.stat(self.address.path)
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size, info.st_ino

    def check_functions(self, connection: Connection, names: set[str]) -> None:
        """Refuse functions that read files, run SQL from text, or have effects, by DuckDB's own list of functions."""
        import sqlalchemy as sa

        rows = connection.execute(
            sa.text(
                "SELECT DISTINCT lower(function_name) AS name, function_type AS kind, has_side_effects AS effects"
                " FROM duckdb_functions() WHERE lower(function_name) IN :names"
            ).bindparams(sa.bindparam("names", expanding=True)),
            {"names": sorted(names) or [""]},
        )
        found = [(row.name, row.kind, row.effects) for row in rows]
        scalar = {name for name, kind, _ in found if kind in ("scalar", "aggregate", "macro")}
        for name, kind, effects in found:
            table = "table" in kind or kind == "pragma"
            if table and name not in ALLOWED_TABLE_FUNCTIONS and name not in scalar:
                raise Refused(f"the table function {name} is not allowed: it could reach more than the tables")
            if effects and not table and name not in HARMLESS:
                raise Refused(f"the function {name} is not allowed, because it has effects besides its result")
        for name in sorted(names & REFUSED):
            raise Refused(f"the function {name} is not allowed: it could reach more than the tables")

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """Return the class of all errors of the driver."""
        import duckdb

        return (duckdb.Error,)

    def unreachable(self, error: Exception) -> Failed:
        """Return the failure for an error of the driver: a file that is locked, missing, or is no database."""
        text = str(error)
        if "lock" in text.lower():
            return Unreachable("another process is writing to the file; try again when it has closed it")
        if not os.path.isfile(self.address.path):  # noqa: PTH113
            return Unreachable("there is no such file")
        return Unreachable("the file is not a DuckDB database, or it may not be read")
