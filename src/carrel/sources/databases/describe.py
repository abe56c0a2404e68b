"""Describe the schema of a database as Markdown and JSON, and render its data dictionary.

The schema contains the facts that a model needs to write a query: each table with its columns, types, keys and
comments, briefly. The dictionary is for people: it has one Markdown table for each database table.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from carrel.sources.databases.model import Column, Reference, Schema, Table
from carrel.sources.databases.render import csv_line, table_of

__all__ = ["dictionary_csv", "dictionary_markdown", "json_of", "schema_text", "table_text"]


def schema_text(catalog: Schema) -> str:
    """Return the schema of all tables as text."""
    title = " ".join(filter(None, (catalog.product, "database", catalog.name)))
    tables = list(catalog.main.values())
    views = sum("view" in table.kind for table in tables)
    counted = f"{len(tables) - views} tables, {views} views"
    return "\n".join(
        [f"# {title}", "", counted, "", *(table_text(table, catalog.partitions(table)) for table in tables)]
    )


def table_text(table: Table, partitions: Collection[str] = ()) -> str:
    """Return the schema of a table as text.

    ## orders (table, about 1,200 rows): Orders of customers
    - id INTEGER, primary key
    - customer_id INTEGER, refers to customers.id: Who has ordered
    """
    about = [table.kind] + ([f"about {table.rows:,} rows"] if table.rows is not None else [])
    lines = [f"## {table.id} ({', '.join(about)}){noted(table.comment)}"]
    lines += [f"- {column.name} {', '.join(traits(table, column))}{noted(column.comment)}" for column in table.columns]
    if len(table.key) > 1:
        lines.append(f"- {table.key_kind}: {', '.join(table.key)}")
    lines += [
        f"- ({', '.join(reference.columns)}) refers to {reference.table} ({', '.join(reference.referred)})"
        for reference in table.references
        if len(reference.columns) > 1
    ]
    lines += [
        f"- {'unique index' if index.unique else 'index'} {index.name} ({', '.join(index.columns)})"
        for index in table.indexes
    ]
    lines += [f"- check {check}" for check in table.checks]
    lines += [f"- partitions: {', '.join(partitions)}"] if partitions else []
    if table.definition:
        lines += ["", "```sql", table.definition.strip(), "```"]
    return "\n".join(lines) + "\n"


def traits(table: Table, column: Column) -> list[str]:
    """Return the type and the constraints of a column."""
    found = [column.type or "(any type)"]
    if table.key == (column.name,):
        found.append(table.key_kind)
    elif not column.nullable:
        found.append("not null")
    if column.default is not None:
        found.append(f"default {column.default}")
    return found + [
        f"refers to {reference.table}.{reference.referred[0] if reference.referred else '(its key)'}"
        for reference in table.references
        if reference.columns == (column.name,)
    ]


def noted(comment: str | None) -> str:
    return f": {' '.join(comment.split())}" if comment else ""


def json_of(value: Schema | Table) -> str:
    """Return the schema of the database, or of a table, as JSON."""
    if isinstance(value, Schema):
        about: dict[str, Any] = {"product": value.product, "database": value.name}
        return msgspec.json.encode({**about, "tables": list(value.tables.values())}).decode()
    return msgspec.json.encode(value).decode()


HEAD = ("column", "type", "null", "key", "default", "meaning")


def dictionary_rows(table: Table) -> list[list[str]]:
    """Return the entries of the dictionary for the columns of a table."""
    rows = []
    for column in table.columns:
        keys = [table.key_kind] if column.name in table.key else []
        keys += [referred(reference, column.name) for reference in table.references if column.name in reference.columns]
        null = "yes" if column.nullable else "no"
        rows.append([column.name, column.type, null, ", ".join(keys), column.default or "", column.comment or ""])
    return rows


def referred(reference: Reference, column: str) -> str:
    """Return the column that a foreign key column refers to."""
    position = reference.columns.index(column)
    return "→ " + ".".join((reference.table, *reference.referred[position : position + 1]))


def dictionary_markdown(catalog: Schema) -> str:
    """Return the data dictionary as Markdown."""
    lines = [f"# Data dictionary{' of ' + catalog.name if catalog.name else ''}", ""]
    for table in catalog.main.values():
        lines += [f"## {table.id}", ""]
        lines += [table.comment, ""] if table.comment else []
        lines += [table_of(HEAD, dictionary_rows(table))]
    return "\n".join(lines)


def dictionary_csv(catalog: Schema) -> str:
    """Return the data dictionary as CSV, a line for each column."""
    lines = [csv_line(("table", *HEAD, "table meaning"))]
    for table in catalog.main.values():
        lines += [csv_line((table.id, *row, table.comment or "")) for row in dictionary_rows(table)]
    return "".join(lines)
