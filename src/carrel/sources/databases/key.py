"""Choice of what identifies the rows of a table: its primary key, else unique columns that are never null."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from carrel.sources.databases.model import Table

__all__ = ["join_key", "split_key", "values_of", "with_key"]


def with_key(table: Table, uniques: Iterable[tuple[str, ...]], *, has_row_id: bool = False) -> Table:
    """Return a table with what identifies its rows: its primary key, else unique columns that are never null."""
    names = {column.name for column in table.columns}
    if table.key and names.issuperset(table.key):
        return replace(table, key_kind="primary key")
    never_null = {column.name for column in table.columns if not column.nullable}
    candidates = [*uniques, *(index.columns for index in table.indexes if index.unique)]
    usable = sorted((columns for columns in candidates if columns and never_null.issuperset(columns)), key=len)
    if usable:
        return replace(table, key=usable[0], key_kind="unique columns")
    if has_row_id and "rowid" not in {name.lower() for name in names}:
        return replace(table, key=("rowid",), key_kind="row id")
    return replace(table, key=(), key_kind="")


def join_key(values: Iterable[str]) -> str:
    r"""Return the key of a row as text: the value, or several joined by commas; in these ``\,`` is a comma.

    ``7``; ``2024,north``; ``a\,b,c`` for "a,b" and "c".
    """
    every = list(values)
    if len(every) == 1:
        return every[0]
    return ",".join(value.replace("\\", "\\\\").replace(",", "\\,") for value in every)


def split_key(text: str, count: int) -> list[str] | None:
    """Return the values of a key with ``count`` columns; None if the text has another number of them."""
    if count == 1:
        return [text]
    found = values_of(text)
    return found if found is not None and len(found) == count else None


def values_of(text: str) -> list[str] | None:
    """Return the values of a text as ``join_key`` writes several; None if an escape at its end is not complete."""
    found, escaped = [""], False
    for character in text:
        if not escaped and character == ",":
            found.append("")
        elif not escaped and character == "\\":
            escaped = True
            continue
        else:
            found[-1] += character
        escaped = False
    return None if escaped else found
