"""Statistics of a table: the row count, and for each column the count of values, distinct values and nulls, min and
max.

For a large table, only the first rows are counted, and the result says so. The statistics of a database have a row per
table.
"""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa

from carrel.sources.databases.model import Schema, Table
from carrel.sources.databases.rows import Rows, source_of
from carrel.sources.databases.values import text_value

__all__ = ["COUNTED", "read_overview", "read_statistics"]

#: Maximum number of rows to examine.
COUNTED = 100_000
MAX_COLUMNS = 200
#: For a database: number of tables whose rows are counted if the database has no estimate, and maximum row count.
TABLES_COUNTED = 200
ROWS_COUNTED = 10_000
MAX_TEXT = 200
#: Types that have an order and an equality in all of the databases.
ORDERED = re.compile(
    r"(tiny|small|medium|big|huge|u|usmall|ubig|utiny)?int(eger)?\b|int[248]|serial|numeric|decimal|real|double|float|money"
    r"|char|text|varchar|uuid|date|time|year|enum|bool|string",
    re.IGNORECASE,
)
NOT_ORDERED = re.compile(r"\[|json|xml|blob|binary|bytea|struct|map|union|point|geom|bit", re.IGNORECASE)
HEAD = ("column", "type", "values", "nulls", "different", "least", "greatest")


OVERVIEW = ("table", "kind", "rows", "accuracy", "columns", "key", "references", "indexes", "meaning")


def read_overview(connection: sa.Connection, catalog: Schema) -> Rows:
    """Return the statistics of a database, a row per table. Rows are estimated by the database, or counted."""
    rows: list[tuple[Any, ...]] = []
    counted = 0
    for table in catalog.main.values():
        count, accuracy = table.rows, None if table.rows is None else "estimated"
        if count is None and "view" not in table.kind and counted < TABLES_COUNTED:
            counted += 1
            some = sa.select(sa.literal(1)).select_from(source_of(table)).limit(ROWS_COUNTED + 1).subquery()
            found = int(connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one())
            count, accuracy = min(found, ROWS_COUNTED), "exact" if found <= ROWS_COUNTED else "at least"
        refers = ", ".join(dict.fromkeys(reference.table for reference in table.references))
        key = ", ".join(table.key) or None
        shape = (len(table.columns), key, refers or None, len(table.indexes), table.comment)
        rows.append((table.id, table.kind, count, accuracy, *shape))
    return Rows(OVERVIEW, ("",) * len(OVERVIEW), rows)


def read_statistics(connection: sa.Connection, table: Table) -> tuple[Rows, int, bool]:
    """Return the statistics with a row per column, the number of examined rows, and whether these are all rows."""
    source = source_of(table)
    dialect = connection.dialect.name
    names = [column.name for column in table.columns[:MAX_COLUMNS]]
    part = sa.select(*(source.c[name].label(f"c{number}") for number, name in enumerate(names)))
    some = part.select_from(source).limit(COUNTED + 1).subquery("some_rows")
    measures: list[Any] = [sa.func.count()]
    for number, name in enumerate(names):
        column = some.c[f"c{number}"]
        measures.append(sa.func.count(column))
        type = table.column(name).type
        if is_ordered(type, dialect):
            measures += [sa.func.count(sa.distinct(column))]
            least, greatest = sa.func.min(column), sa.func.max(column)
            if dialect in ("postgresql", "duckdb"):
                least, greatest = least_text(column, type), greatest_text(column, type)
            measures += [least, greatest]
        else:
            measures += [sa.null(), sa.null(), sa.null()]
    values = list(connection.execute(sa.select(*measures).select_from(some)).one())
    total = int(values[0])
    rows: list[tuple[Any, ...]] = []
    for number, name in enumerate(names):
        count, different, least, greatest = values[1 + 4 * number : 5 + 4 * number]
        shown = [None if value is None else text_value(value)[:MAX_TEXT] for value in (least, greatest)]
        rows.append((name, table.column(name).type, count, total - count, different, *shown))
    return Rows(HEAD, ("",) * len(HEAD), rows), min(total, COUNTED), total <= COUNTED


def least_text(column: Any, type: str) -> Any:
    return sa.cast(sa.func.min(orderable(column, type)), sa.Text)


def greatest_text(column: Any, type: str) -> Any:
    return sa.cast(sa.func.max(orderable(column, type)), sa.Text)


def orderable(column: Any, type: str) -> Any:
    """Return a column that has min and max: in PostgreSQL, uuid and boolean have none."""
    return sa.cast(column, sa.Text) if re.match("uuid|bool", type, re.IGNORECASE) else column


def is_ordered(type: str, dialect: str) -> bool:
    """Return whether values of a type can be compared."""
    if NOT_ORDERED.search(type):
        return False
    return bool(ORDERED.search(type)) or dialect == "sqlite"
