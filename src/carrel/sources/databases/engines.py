"""Kinds of databases: the class for an address, loaded when it is opened."""

from __future__ import annotations

from carrel.sources.databases.address import DatabaseAddress
from carrel.sources.databases.database import Database
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.packages import needed

__all__ = ["open_database"]


def open_database(address: DatabaseAddress, options: DatabaseOptions) -> Database:
    """Return the database at an address, not started yet.

    Raises:
        ConfigError: a package is missing.
    """
    with needed(f"{address.kind}: URLs", "databases"):
        import sqlalchemy  # noqa: F401
        import sqlglot  # noqa: F401
    if address.kind == "sqlite":
        from carrel.sources.databases.sqlite import SQLiteDatabase

        return SQLiteDatabase(address, options)
    if address.kind == "duckdb":
        from carrel.sources.databases.duckdb import DuckDBDatabase

        return DuckDBDatabase(address, options)
    if address.kind == "mysql":
        from carrel.sources.databases.mysql import MySQLDatabase

        return MySQLDatabase(address, options)
    from carrel.sources.databases.postgres import PostgresDatabase

    return PostgresDatabase(address, options)
