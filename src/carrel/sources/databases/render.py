"""Rows as JSON, Markdown and CSV."""

from __future__ import annotations

from typing import Any

import msgspec

from carrel.sources.databases.rows import Rows
from carrel.sources.databases.values import json_value, text_value

__all__ = ["FORMATS", "rows_as", "table_of"]

FORMATS = {"json": "application/json", "markdown": "text/markdown", "csv": "text/csv"}
"""Formats of rows, with their MIME types."""

MAX_CELL = 500  # characters of a cell of a Markdown table


def rows_as(format: str, found: Rows, about: dict[str, Any]) -> str:
    """Render rows in a format. ``about`` describes the rows, in formats that have a place for it."""
    if format == "csv":
        lines = [csv_line(found.columns)]
        lines += [
            csv_line(
                [
                    None if value is None else text_value(value, type)
                    for value, type in zip(row, found.types, strict=True)
                ]
            )
            for row in found.rows
        ]
        return "".join(lines)
    if format == "markdown":
        return markdown_of(found, about)
    columns = [
        {"name": name, "type": type} if type else {"name": name}
        for name, type in zip(found.columns, found.types, strict=True)
    ]
    rows = [
        {name: json_value(value, type) for name, value, type in zip(found.columns, row, found.types, strict=True)}
        for row in found.rows
    ]
    return msgspec.json.encode({**about, "columns": columns, "rows": rows}).decode()


def markdown_of(found: Rows, about: dict[str, Any]) -> str:
    """Return rows as a table of Markdown. NULL is shown as such, in italics."""
    rows = [
        [
            "*NULL*" if value is None else shortened(text_value(value, type))
            for value, type in zip(row, found.types, strict=True)
        ]
        for row in found.rows
    ]
    lines = [table_of(found.columns, rows)]
    if not rows:
        lines.append("No rows.")
    if "next" in about:
        lines.append(f"More rows: {about['next']}")
    elif found.more:
        lines.append("There are more rows.")
    return "\n".join(lines) + "\n"


def table_of(head: Any, rows: Any) -> str:
    """Return a table of Markdown, with a line feed at its end."""
    lines = [f"| {' | '.join(map(cell, head))} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows)]) + "\n"


def cell(text: Any) -> str:
    shown = str(text).replace("\\", "\\\\").replace("|", "\\|")
    return shown.replace("\r\n", "<br>").replace("\n", "<br>").replace("\r", "<br>")


def shortened(text: str) -> str:
    return text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]}… ({len(text):,} characters)"


def csv_line(values: Any) -> str:
    """Return a line of CSV (RFC 4180). NULL is empty, an empty text is ``""``."""
    return ",".join("" if value is None else csv_field(value) for value in values) + "\r\n"


def csv_field(text: str) -> str:
    if not text or any(character in text for character in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
