"""Entity relationship diagram of the tables and their references, as Mermaid and as SVG.

https://mermaid.js.org/syntax/entityRelationshipDiagram.html
"""

from __future__ import annotations

import re
from html import escape
from typing import NamedTuple

from carrel.sources.databases.model import Column, Schema, Table

__all__ = ["mermaid_of", "svg_of"]

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
