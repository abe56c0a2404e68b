"""SQL queries: named queries from ``carrel.toml``, with parameters, and queries of the query tool.

Both kinds are checked: ``statements`` checks the statement, the database checks its functions. Then the query runs in a
read-only transaction. The text of a parameter is never inserted into the statement.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from carrel.errors import ConfigError
from carrel.near_names import did_you_mean
from carrel.sources.databases.database import DATABASE
from carrel.sources.databases.failure import DatabaseFailed, StatementRejected
from carrel.sources.databases.model import Schema
from carrel.sources.databases.rows import Rows, fetch
from carrel.sources.databases.statements import PARAMETER, Statement, check_statement

__all__ = ["NamedQuery", "prepare", "read_queries", "run_query", "why_not_prepared"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
RESERVED = ("format", "limit")
COMMENT = re.compile(r"\s*--([^\n]*)\n")


class NamedQuery(NamedTuple):
    """Query with a name. ``description`` is the comment at the beginning of its text."""

    name: str
    statement: Statement
    description: str | None


def read_queries(texts: Mapping[str, str], dialect: str, allowed: Collection[str] = ()) -> dict[str, NamedQuery]:
    """Return the queries by name, checked.

    Raises:
        ConfigError: a query has an invalid name, or is not a read-only query.
    """
    found = {}
    for name, text in sorted(texts.items()):
        if not NAME.fullmatch(name):
            raise ConfigError(f"queries: {name!r} is not usable as a name: letters, digits, _ and -")
        try:
            statement = check_statement(text, dialect, parameters=True, allowed=allowed)
        except StatementRejected as error:
            raise ConfigError(f"queries: {name}: {error}") from None
        for parameter in statement.parameters:
            if parameter in RESERVED:
                raise ConfigError(f"queries: {name}: a parameter cannot be called {parameter}")
        comment = COMMENT.match(text)
        found[name] = NamedQuery(name, statement, comment[1].strip() if comment else None)
    return found


def prepare(connection: sa.Connection, query: NamedQuery) -> None:
    """Prepare a query without running it, to check that its tables, columns and functions exist.

    Raises:
        StatementRejected: it calls a function that is not allowed.
    """
    statement = query.statement
    connection.info[DATABASE].guard(connection, statement, None)
    dialect = connection.dialect.name
    if dialect == "postgresql":
        parameter_types(connection, statement)
        return
    text = statement.sql
    for name in statement.parameters:
        text = text.replace(PARAMETER.format(name), "?" if dialect == "mysql" else "NULL")
    if dialect == "mysql":
        connection.execute(sa.text("PREPARE carrel_query FROM :text"), {"text": text})
        connection.exec_driver_sql("DEALLOCATE PREPARE carrel_query")
    else:
        connection.execute(sa.text("EXPLAIN " + text.replace(":", "\\:"))).close()


def why_not_prepared(query: NamedQuery, error: DatabaseFailed | StatementRejected, catalog: Schema) -> str:
    """Return why a query cannot be used. For an unknown table or column, suggest a similar name."""
    names = {table.name for table in catalog.tables.values()}
    names |= {column.name for table in catalog.tables.values() for column in table.columns}
    used = set(re.findall(r"\w+", query.statement.sql)) - names - {"public"}
    missing = [word for word in re.findall(r"\w+", str(error)) if word in used]
    hint = next(filter(None, (did_you_mean(word, names) for word in missing)), "")
    return f"queries: {query.name}: {error}{hint}"


def run_query(
    connection: sa.Connection,
    statement: Statement,
    values: Mapping[str, str],
    limit: int,
    max_bytes: int,
    catalog: Schema | None = None,
) -> Rows:
    """Return the rows of a checked statement. It may read only the tables of the catalog, or any table without a
    catalog.

    Raises:
        StatementRejected: it calls a function that is not allowed.
        TooMuch: the rows have more bytes than the limit.
    """
    connection.info[DATABASE].guard(connection, statement, catalog)
    if not statement.parameters:
        return fetch(connection, statement.sql, limit, max_bytes)
    types = parameter_types(connection, statement)
    text = statement.sql.replace(":", "\\:")
    for name in statement.parameters:
        value = f"CAST(:{name} AS {types[name]})" if name in types else f":{name}"
        text = text.replace(PARAMETER.format(name), value)
    query = sa.text(text).bindparams(*(sa.bindparam(name, type_=sa.String) for name in statement.parameters))
    given: dict[str, Any] = {name: values[name] for name in statement.parameters}
    return fetch(connection, query.bindparams(**given), limit, max_bytes)


def parameter_types(connection: sa.Connection, statement: Statement) -> dict[str, str]:
    """Return the parameter types that PostgreSQL infers; it does not convert text automatically."""
    if connection.dialect.name != "postgresql":
        return {}
    sql = statement.sql
    for number, name in enumerate(statement.parameters, 1):
        sql = sql.replace(PARAMETER.format(name), f"${number}")

    async def prepare(raw: Any) -> list[Any]:
        return list((await raw.prepare(sql)).get_parameters())

    pooled: Any = connection.connection.dbapi_connection
    found = pooled.run_async(prepare)
    quote = connection.dialect.identifier_preparer.quote_identifier
    names = [f"{quote(type.schema)}.{quote(type.name)}" for type in found]
    return dict(zip(statement.parameters, names, strict=True))
