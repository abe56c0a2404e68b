"""Describe the schema of a database as Markdown and JSON; its data dictionary; its diagram as Mermaid and SVG.

The schema contains the facts that a model needs to write a query: each table with its columns, types, keys and
comments, briefly. The dictionary is for people: it has one Markdown table for each database table.

https://mermaid.js.org/syntax/entityRelationshipDiagram.html
"""

from __future__ import annotations

import re
from collections.abc import Collection
from html import escape
from typing import Any, NamedTuple

import msgspec

from carrel.sources.databases.model import Column, Reference, Schema, Table
from carrel.sources.databases.render import csv_line, table_of

__all__ = ["dictionary_csv", "dictionary_markdown", "json_of", "mermaid_of", "schema_text", "svg_of", "table_text"]


def schema_text(catalog: Schema) -> str:
    """Return the schema of all tables as text."""
    title = " ".join(filter(None, (catalog.product, "database", catalog.name)))
    tables = list(catalog.main.values())
    views = sum("view" in table.kind for table in tables)
    counted = f"{_counted(len(tables) - views, 'table')}, {_counted(views, 'view')}"
    return "\n".join(
        [f"# {title}", "", counted, "", *(table_text(table, catalog.partitions(table)) for table in tables)]
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


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


MAX_COLUMNS = 40  # of a table in the picture
LINE, WIDTH, GAP, PADDING = 18, 260, 60, 12
PER_ROW = 4
FONT = "font-family='monospace' font-size='12'"


def mermaid_of(catalog: Schema) -> str:
    """Return the diagram as Mermaid text."""
    lines = ["erDiagram"]
    for table in catalog.main.values():
        lines.append(f"    {entity(table.id)} {{")
        for column in table.columns[:MAX_COLUMNS]:
            comment = (column.comment or "").replace('"', "'").replace("\n", " ")
            keys = f" {marks(table, column)}" if marks(table, column) else ""
            lines.append(
                f"        {word(column.type)} {word(column.name)}{keys}" + (f' "{comment}"' if comment else "")
            )
        lines.append("    }")
    for table in catalog.main.values():
        for reference in table.references:
            if reference.table in catalog.tables:
                columns = {column.name: column for column in table.columns}
                optional = any(columns[name].nullable for name in reference.columns if name in columns)
                label = ", ".join(reference.columns).replace('"', "'")
                one = "|o" if optional else "||"
                lines.append(f'    {entity(reference.table)} {one}--o{{ {entity(table.id)} : "{label}"')
    return "\n".join(lines) + "\n"


def marks(table: Table, column: Column) -> str:
    found = ["PK"] if column.name in table.key and table.key_kind == "primary key" else []
    found += ["FK"] if any(column.name in reference.columns for reference in table.references) else []
    return ", ".join(found)


def word(text: str) -> str:
    """Return a text as a Mermaid identifier: letters, digits and underscores."""
    found = re.sub(r"[^\w\[\]()-]+", "_", text).strip("_") or "any"
    return found if found[0].isalpha() or found[0] == "_" else f"_{found}"


def entity(text: str) -> str:
    return '"' + text.replace('"', "'").replace("\n", " ") + '"'


class Box(NamedTuple):
    """Location of a table in the picture."""

    x: int
    y: int
    height: int


def svg_of(catalog: Schema) -> str:
    """Return the diagram as an SVG picture: tables in rows, and a line for each reference."""
    boxes: dict[str, Box] = {}
    y = PADDING
    tables = list(catalog.main.values())
    for start in range(0, len(tables), PER_ROW):
        some = tables[start : start + PER_ROW]
        heights = [LINE * (1 + min(len(table.columns), MAX_COLUMNS)) + PADDING for table in some]
        for number, (table, height) in enumerate(zip(some, heights, strict=True)):
            boxes[table.id] = Box(PADDING + number * (WIDTH + GAP), y, height)
        y += max(heights) + GAP
    width = PADDING * 2 + max(min(len(tables), PER_ROW), 1) * (WIDTH + GAP)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{y}' viewBox='0 0 {width} {y}'>",
        f"<rect width='{width}' height='{y}' fill='#fff'/>",
    ]
    parts += [
        line_of(boxes[table.id], boxes[reference.table])
        for table in tables
        for reference in table.references
        if reference.table in boxes
    ]
    parts += [box_of(table, boxes[table.id]) for table in tables]
    return "\n".join([*parts, "</svg>"]) + "\n"


def box_of(table: Table, box: Box) -> str:
    parts = [
        f"<rect x='{box.x}' y='{box.y}' width='{WIDTH}' height='{box.height}' fill='#f8f8f8' stroke='#444'/>",
        f"<rect x='{box.x}' y='{box.y}' width='{WIDTH}' height='{LINE + 2}' fill='#d8e4f0' stroke='#444'/>",
        text_of(box.x + 6, box.y + 14, table.id, " font-weight='bold'"),
    ]
    for number, column in enumerate(table.columns[:MAX_COLUMNS], 1):
        shown = f"{column.name}  {column.type}  {marks(table, column)}"
        parts.append(text_of(box.x + 6, box.y + 14 + number * LINE + 2, shown))
    return "\n".join(parts)


def text_of(x: int, y: int, text: str, more: str = "") -> str:
    clean = "".join(character for character in text if character.isprintable())
    shown = clean if len(clean) <= 34 else f"{clean[:33]}…"
    return f"<text x='{x}' y='{y}' {FONT}{more}>{escape(shown)}</text>"


def line_of(here: Box, there: Box) -> str:
    left = there.x < here.x
    x, end = (here.x, there.x + WIDTH) if left else (here.x + WIDTH, there.x)
    if there.x == here.x:
        x = end = here.x + WIDTH
    y, height = here.y + here.height // 2, there.y + LINE // 2
    bend = GAP // 2
    first, last = (x - bend, end + bend) if left else (x + bend, end - bend if there.x != here.x else end + bend)
    return f"<path d='M{x},{y} C{first},{y} {last},{height} {end},{height}' fill='none' stroke='#888'/>"
