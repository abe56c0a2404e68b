"""Reading of the schema of DuckDB, by its own table functions.

https://duckdb.org/docs/stable/sql/meta/duckdb_table_functions
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from carrel.sources.databases.model import Column, Reference, Table, TableIndex, table_id, with_key

__all__ = ["read_duckdb"]

HERE = "database_name = current_database() AND NOT internal"
TABLES = f"""
SELECT schema_name, table_name, 'table', comment, estimated_size, NULL FROM duckdb_tables() WHERE {HERE}
UNION ALL SELECT schema_name, view_name, 'view', comment, NULL, sql FROM duckdb_views() WHERE {HERE}
"""  # noqa: S608
COLUMNS = f"""
SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default, comment
FROM duckdb_columns() WHERE {HERE} ORDER BY column_index
"""  # noqa: S608
CONSTRAINTS = """
SELECT schema_name, table_name, constraint_type, constraint_text, constraint_column_names,
       referenced_table, referenced_column_names
FROM duckdb_constraints() WHERE database_name = current_database() ORDER BY constraint_index
"""
INDEXES = """
SELECT schema_name, table_name, index_name, is_unique, expressions
FROM duckdb_indexes() WHERE database_name = current_database()
"""


def read_duckdb(connection: sa.Connection, wanted: Collection[str]) -> list[Table]:
    """Return the tables and views of the wanted schemas, or of all schemas if ``wanted`` is empty."""

    def rows(text: str) -> list[Any]:
        return list(connection.exec_driver_sql(text).fetchall())

    columns: dict[Any, list[Column]] = defaultdict(list)
    for schema, table, *values in rows(COLUMNS):
        columns[schema, table].append(Column(*values))
    constraints: dict[Any, list[Any]] = defaultdict(list)
    for schema, table, *values in rows(CONSTRAINTS):
        constraints[schema, table].append(values)
    indexes: dict[Any, list[TableIndex]] = defaultdict(list)
    for schema, table, name, unique, expressions in rows(INDEXES):
        listed = str(expressions).strip("[]").split(", ")
        indexes[schema, table].append(TableIndex(name, tuple(text.strip("'\"") for text in listed), bool(unique)))
    found = []
    for schema, name, kind, comment, size, definition in rows(TABLES):
        if wanted and schema not in wanted:
            continue
        here = constraints[schema, name]
        shown = None if schema == "main" else schema
        table = Table(
            table_id(name, shown),
            schema,
            name,
            kind,
            comment,
            tuple(columns[schema, name]),
            next((tuple(names) for kind, _, names, *_ in here if kind == "PRIMARY KEY"), ()),
            references=tuple(
                Reference(tuple(names), table_id(target, shown), tuple(referred))
                for kind, _, names, target, referred in here
                if kind == "FOREIGN KEY"
            ),
            indexes=tuple(indexes[schema, name]),
            checks=tuple(text.removeprefix("CHECK") for kind, text, *_ in here if kind == "CHECK"),
            definition=definition,
            rows=size,
        )
        found.append(with_key(table, [tuple(names) for kind, _, names, *_ in here if kind == "UNIQUE"]))
    return found
