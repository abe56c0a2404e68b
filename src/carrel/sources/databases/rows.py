"""Read rows of tables: a row by key, pages in key order, samples; and the rows of any query, within limits.

Pagination is by key (``WHERE key > …``), not by ``OFFSET``. So a page far into a table costs as much as the first page,
and rows that are inserted or deleted do not shift the pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement, quoted_name
from sqlalchemy.types import UserDefinedType

from carrel.sources.databases.failure import DatabaseFailed, TooMuch
from carrel.sources.databases.model import Table, join_key, values_of
from carrel.sources.databases.values import size_of, text_value

__all__ = ["Rows", "fetch", "prefix_of_key", "read_page", "read_row", "read_sample", "source_of"]

BATCH = 50
#: Types whose values the drivers return without loss. Other types are read in the text format of the database.
PLAIN = {
    "postgresql": re.compile(
        r"(smallint|integer|bigint|boolean|numeric(\(.*\))?|double precision|text|character varying(\(.*\))?|uuid"
        r"|jsonb?|bytea|date|time(stamp)?(\(\d\))? with(out)? time zone|interval.*)"
        r"|(smallint|integer|bigint|boolean|numeric(\(.*\))?|text|character varying(\(.*\))?|uuid)\[\]"
    ),
    "duckdb": re.compile(
        r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BOOLEAN|DOUBLE|DECIMAL\(.*\)|VARCHAR|UUID|BLOB|JSON"
        r"|(U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BOOLEAN|DOUBLE|VARCHAR|DECIMAL\(.*\))(\[\d*\])+"
    ),
}
BINARY = re.compile(r"\b(bytea|blob|binary|varbinary|tinyblob|mediumblob|longblob)\b", re.IGNORECASE)


class Rows(NamedTuple):
    """Rows with the names and types of their columns; ``after`` is the key of the last row if there are more."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    after: str | None = None
    more: bool = False
    keys: tuple[str, ...] = ()


class Written(UserDefinedType[Any]):
    """Type by its name in the database."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        """Return the name."""
        return self.name


def source_of(table: Table) -> sa.TableClause:
    """Return the table for queries, with its names quoted."""
    names = [column.name for column in table.columns]
    names += [name for name in table.key if name not in names]
    columns: list[Any] = [sa.column(quoted_name(name, quote=True)) for name in names]
    schema = None if table.schema is None else quoted_name(table.schema, quote=True)
    return sa.table(quoted_name(table.name, quote=True), *columns, schema=schema)


def selected(table: Table, source: sa.TableClause, dialect: str) -> list[ColumnElement[Any]]:
    """Return the columns of a table, uncommon types as text, followed by the key columns as text."""
    plain = PLAIN.get(dialect)
    found: list[ColumnElement[Any]] = []
    for column in table.columns:
        value: ColumnElement[Any] = source.c[column.name]
        if plain is not None and not plain.fullmatch(column.type):
            value = sa.cast(value, sa.Text)
        found.append(value.label(quoted_name(column.name, quote=True)))
    for number, name in enumerate(table.key):
        key: ColumnElement[Any] = source.c[name]
        if dialect in ("postgresql", "duckdb") and not BINARY.search(table.column(name).type):
            key = sa.cast(key, sa.Text)
        found.append(key.label(f"carrel_key_{number}"))
    return found


def bound(table: Table, name: str, text: str, dialect: str) -> ColumnElement[Any]:
    """Return a value of a key column from its text.

    Raises:
        DatabaseFailed: it is not a value of the type.
    """
    type = table.column(name).type
    if BINARY.search(type):
        try:
            return sa.literal(bytes.fromhex(text.removeprefix("0x")), sa.LargeBinary)
        except ValueError:
            raise DatabaseFailed("bytes are written as hexadecimal digits: 0x00ff") from None
    value: ColumnElement[Any] = sa.literal(text, sa.String)
    if dialect in ("postgresql", "duckdb"):
        return sa.cast(sa.cast(value, sa.Text), Written(type))
    return value


def read_row(connection: sa.Connection, table: Table, key: Sequence[str], max_bytes: int) -> Rows | None:
    """Return the row with a key, or None.

    Raises:
        TooMuch: the row has more bytes than the limit.
    """
    dialect = connection.dialect.name
    source = source_of(table)
    query = sa.select(*selected(table, source, dialect)).select_from(source)
    for name, text in zip(table.key, key, strict=True):
        query = query.where(source.c[name] == bound(table, name, text, dialect))
    found = fetch(connection, query.limit(2), 2, max_bytes)
    return trimmed(table, found, more=False) if found.rows else None


def read_page(connection: sa.Connection, table: Table, after: Sequence[str] | None, limit: int, max_bytes: int) -> Rows:
    """Return the rows after a key, in the order of the key; a page is shorter if it would exceed the byte limit.

    Raises:
        TooMuch: its first row has more bytes than the limit.
    """
    dialect = connection.dialect.name
    source = source_of(table)
    query = sa.select(*selected(table, source, dialect)).select_from(source)
    if after is not None:
        columns = [source.c[name] for name in table.key]
        values = [bound(table, name, text, dialect) for name, text in zip(table.key, after, strict=True)]
        query = query.where(beyond(columns, values))
    query = query.order_by(*(source.c[name] for name in table.key)).limit(limit + 1)
    try:
        found = fetch(connection, query, limit + 1, max_bytes)
    except TooMuch as error:
        if not error.fitting:
            raise
        found = fetch(connection, query, error.fitting, max_bytes)
        return trimmed(table, found, more=True)
    more = len(found.rows) > limit
    return trimmed(table, found._replace(rows=found.rows[:limit]), more=more)


def beyond(columns: Sequence[ColumnElement[Any]], values: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    """Return the condition that a row comes after a key: ``a > 1 OR (a = 1 AND b > 2)``; ``a >= 1`` is for indexes."""
    condition: ColumnElement[bool] = columns[-1] > values[-1]
    for column, value in reversed(list(zip(columns[:-1], values[:-1], strict=True))):
        condition = sa.and_(column >= value, sa.or_(column > value, sa.and_(column == value, condition)))
    return condition


def read_sample(connection: sa.Connection, table: Table, limit: int, max_bytes: int) -> Rows:
    """Return the first rows of a table, in the order of the database.

    Raises:
        TooMuch: its first row has more bytes than the limit.
    """
    source = source_of(table)
    query = sa.select(*selected(table, source, connection.dialect.name)).select_from(source).limit(limit)
    try:
        return trimmed(table, fetch(connection, query, limit, max_bytes), more=False)
    except TooMuch as error:
        if not error.fitting:
            raise
        return trimmed(table, fetch(connection, query, error.fitting, max_bytes), more=False)


def trimmed(table: Table, found: Rows, *, more: bool) -> Rows:
    """Return rows without the key columns at the end."""
    width = len(table.columns)
    keys = tuple(join_key([text_value(value) for value in row[width:]]) for row in found.rows) if table.key else ()
    return Rows(
        found.columns[:width],
        tuple(column.type for column in table.columns),
        [row[:width] for row in found.rows],
        keys[-1] if more and keys else None,
        more,
        keys,
    )


def fetch(connection: sa.Connection, query: Any, limit: int, max_bytes: int) -> Rows:
    """Return the rows of a query, which the database sends as they are fetched; ``more`` if there are over ``limit``.

    ``query`` is a SQLAlchemy query, or text.

    Raises:
        TooMuch: they have more bytes than the limit; the rest is not fetched.
    """
    streaming = connection.execution_options(stream_results=True, max_row_buffer=BATCH)
    if isinstance(query, str):
        text = query.replace("%", "%%") if connection.dialect.paramstyle in ("format", "pyformat") else query
        result = streaming.exec_driver_sql(text)
    else:
        result = streaming.execute(query)
    try:
        names = tuple(unique(result.keys()))
        rows: list[tuple[Any, ...]] = []
        size = 0
        while batch := result.fetchmany(min(BATCH, limit + 1 - len(rows))):
            for row in batch:
                if len(rows) >= limit:
                    return Rows(names, ("",) * len(names), rows, more=True)
                size += sum(map(size_of, row)) + sum(map(len, names)) + 2 * len(names)
                if size > max_bytes:
                    raise TooMuch(len(rows))
                rows.append(tuple(row))
        return Rows(names, ("",) * len(names), rows)
    finally:
        result.close()


def unique(names: Any) -> list[str]:
    """Return the names of columns. Number repeated names."""
    found: list[str] = []
    for name in map(str, names):
        number, shown = 1, name
        while shown in found:
            number += 1
            shown = f"{name}_{number}"
        found.append(shown)
    return found


def prefix_of_key(connection: sa.Connection, table: Table, typed: str, limit: int) -> list[str]:
    """Return the keys that begin with the typed text, in their order.

    If the key has several columns, all typed values except the last one are complete.
    """
    given = [typed] if len(table.key) == 1 else values_of(typed)
    if not given or len(given) > len(table.key) or len(typed) > 200 or "\0" in typed:
        return []
    if any(BINARY.search(table.column(name).type) for name in table.key):
        return []
    dialect = connection.dialect.name
    source = source_of(table)
    texts = [sa.cast(source.c[name], sa.CHAR if dialect == "mysql" else sa.Text) for name in table.key]
    query = sa.select(*texts).select_from(source)
    for name, value in zip(table.key, given[:-1], strict=False):
        query = query.where(source.c[name] == bound(table, name, value, dialect))
    if given[-1]:
        query = query.where(texts[len(given) - 1].startswith(given[-1], autoescape=True))
    found = connection.execute(query.order_by(*(source.c[name] for name in table.key)).limit(limit)).fetchall()
    return [join_key(map(str, row)) for row in found if None not in row]
