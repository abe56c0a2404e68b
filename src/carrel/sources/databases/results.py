"""Render the rows that a job reads as text, with the metadata for the response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.sources.databases.location import with_parameters
from carrel.sources.databases.render import rows_as
from carrel.sources.databases.statistics import read_statistics

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from carrel.sources.databases.model import Table
    from carrel.sources.databases.rows import Rows

__all__ = ["QueryResult", "render_rows", "render_statistics"]


class QueryResult(msgspec.Struct, array_like=True):
    """Rows as text. ``found`` is false if the row does not exist. ``next`` is the URI of the next page."""

    text: str
    next: str | None = None
    found: bool = True


def render_rows(
    connection: Connection,
    read: Callable[[Connection], Rows | None],
    format: str,
    about: dict[str, Any],
    uri: str = "",
    parameters: Mapping[str, str] | None = None,
    keys: bool = True,
    more: bool = False,
) -> QueryResult:
    """Render the rows that ``read`` returns.

    ``about`` describes the rows. The keys of the rows, whether more rows follow, and the URI of the next page are
    added.
    """
    found = read(connection)
    if found is None:
        return QueryResult("", found=False)
    if found.after is not None and uri:
        about["next"] = with_parameters(uri, {**(parameters or {}), "after": found.after})
    if found.keys and keys and format == "json":
        about["keys"] = list(found.keys)
    if more:
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
