"""Rows as JSON, Markdown and CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from carrel.sources.databases.location import with_parameters
from carrel.sources.databases.rows import Rows
from carrel.sources.databases.statistics import read_statistics
from carrel.sources.databases.values import json_value, text_value

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from carrel.sources.databases.model import Table
    from carrel.sources.databases.rows import Rows

__all__ = ["FORMATS", "QueryResult", "RenderOptions", "render_rows", "render_statistics", "rows_as", "table_of"]

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


class QueryResult(msgspec.Struct, array_like=True):
    """Rows as text. ``found`` is false if the row does not exist. ``next`` is the URI of the next page."""

    text: str
    next: str | None = None
    found: bool = True


class RenderOptions(NamedTuple):
    """How rows are rendered: in ``format``, with the members of ``about``, which describe the rows.

    ``uri`` with ``parameters`` is the URI of the page, to add the URI of the next one; ``keys`` and ``more``: add the
    keys of the rows, and whether more rows follow.
    """

    format: str
    about: dict[str, Any]
    uri: str = ""
    parameters: Mapping[str, str] = {}
    keys: bool = True
    more: bool = False


def render_rows(
    connection: Connection, read: Callable[[Connection], Rows | None], options: RenderOptions
) -> QueryResult:
    """Render the rows that ``read`` returns."""
    format, about = options.format, dict(options.about)
    found = read(connection)
    if found is None:
        return QueryResult("", found=False)
    if found.after is not None and options.uri:
        about["next"] = with_parameters(options.uri, {**options.parameters, "after": found.after})
    if found.keys and options.keys and format == "json":
        about["keys"] = list(found.keys)
    if options.more:
        about["more"] = found.more
    return QueryResult(rows_as(format, found, about), about.get("next"))


def render_statistics(connection: Connection, table: Table, format: str) -> QueryResult:
    """Return the statistics of a table."""
    found, total, whole = read_statistics(connection, table)
    about: dict[str, Any] = {"table": table.id, "rows_counted": total, "complete": whole}
    if table.rows is not None:
        about["rows_estimated"] = table.rows
    text = rows_as(format, found, about)
    if format == "markdown":
        text = f"{'All' if whole else 'The first'} {total:,} rows of {table.id}:\n\n{text}"
    return QueryResult(text)
