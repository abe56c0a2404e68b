"""Options of the databases source.

This module is imported for the help of the command line, so it must import quickly.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from carrel.sources.options import Alias, Count, Globs, RedactedStruct, Secret, Size

__all__ = ["DatabaseOptions"]


class DatabaseOptions(RedactedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a database: the shared tables, the name, and the limits of one request."""

    tables: Annotated[Globs, Meta(description="share only tables that match, for example 'sales.*'")] = ()
    exclude_tables: Annotated[Globs, Meta(description="exclude tables that match")] = ()
    schemas: Annotated[
        tuple[str, ...], Meta(description="the schemas that are shared (default: all but the system's)")
    ] = ()
    alias: Alias = None
    query: Annotated[bool, Meta(description="offer a tool that runs read-only SQL queries")] = False
    queries: Annotated[dict[str, str], Meta(description="named SQL queries; :name in a query is a parameter")] = {}  # noqa: RUF012
    allow_functions: Annotated[
        tuple[str, ...],
        Meta(description="additional functions and types that queries may use, for example 'similarity'"),
    ] = ()
    password: Annotated[
        Secret | None, Meta(description="the password (default: PGPASSWORD or MYSQL_PWD, and the drivers' files)")
    ] = None
    keyring: Annotated[bool, Meta(description="take the password from the system's keyring")] = False
    role: Annotated[str | None, Meta(description="the role to switch to with SET ROLE (PostgreSQL, MariaDB)")] = None
    strict_role: Annotated[bool, Meta(description="refuse to start with a role that may write")] = False
    time_limit: Annotated[float, Meta(gt=0, description="the time limit for a statement, in seconds")] = 10.0
    max_rows: Annotated[Count, Meta(description="the maximum number of rows in a response")] = 1000
    page_rows: Annotated[Count, Meta(description="the number of rows per page if the URI has no limit")] = 100
    sample_rows: Annotated[Count, Meta(description="the number of rows in a sample if the URI has no limit")] = 10
    max_bytes: Annotated[Size, Meta(description="the maximum size of a response")] = 1024 * 1024
    interval: Annotated[float, Meta(gt=0, description="the interval between two polls, in seconds")] = 2.0
    notify: Annotated[str | None, Meta(description="the channel with notifications of changed rows (PostgreSQL)")] = (
        None
    )
    logical_decoding: Annotated[
        bool, Meta(description="read changed rows from the write-ahead log (PostgreSQL with wal_level = logical)")
    ] = False
    connections: Annotated[Count, Meta(description="the maximum number of connections to the database")] = 4
