"""Model of a database: its tables and views, their columns, keys, references and indexes; and keys of rows as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from hashlib import sha256

import msgspec
from msgspec.structs import replace

__all__ = [
    "PARTITIONED",
    "Column",
    "Reference",
    "Schema",
    "Table",
    "TableIndex",
    "join_key",
    "split_key",
    "table_id",
    "values_of",
    "with_key",
]


PARTITIONED = "partitioned table"


class Column(msgspec.Struct, frozen=True):
    """Column of a table; ``type`` is as the database writes it."""

    name: str
    type: str
    nullable: bool = True
    default: str | None = None
    comment: str | None = None


class Reference(msgspec.Struct, frozen=True):
    """Foreign key: ``columns`` refer to ``referred`` columns of the table with the id ``table``."""

    columns: tuple[str, ...]
    table: str
    referred: tuple[str, ...]
    name: str | None = None


class TableIndex(msgspec.Struct, frozen=True):
    """Index of a table. Of an index over an expression, ``columns`` has its text."""

    name: str
    columns: tuple[str, ...]
    unique: bool = False


class Table(msgspec.Struct, frozen=True):
    """Table or view. ``key`` contains the columns that identify and order the rows; it is empty if no columns do.

    ``key_kind`` is "primary key", "unique columns" or "row id" (SQLite). ``rows`` is the database's estimate.
    ``partition_of`` is the id of the shared table that this table is a partition of.
    """

    id: str
    schema: str | None
    name: str
    kind: str = "table"
    comment: str | None = None
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()
    key_kind: str = ""
    references: tuple[Reference, ...] = ()
    indexes: tuple[TableIndex, ...] = ()
    checks: tuple[str, ...] = ()
    definition: str | None = None
    rows: int | None = None
    partition_of: str | None = None

    @property
    def is_view(self) -> bool:
        """Whether its rows come from other tables or from another database, and so have no fingerprint."""
        return "view" in self.kind or self.kind == "foreign table"

    @property
    def contents(self) -> str:
        """The part that shows its rows: pages of rows need a key."""
        return "rows" if self.key else "sample"

    def column(self, name: str) -> Column:
        """Return a column by its name. The row id column is not in ``columns``."""
        return next((column for column in self.columns if column.name == name), Column(name, "INTEGER", nullable=False))


class Schema(msgspec.Struct, frozen=True, dict=True):
    """Shared tables of a database, by table id, in order."""

    product: str
    name: str
    tables: Mapping[str, Table]
    comment: str | None = None

    @cached_property
    def main(self) -> dict[str, Table]:
        """The tables that are not partitions: partitions are listed with the table that they belong to."""
        return {id: table for id, table in self.tables.items() if table.partition_of is None}

    def seen_by(self, shows: Callable[[Table], bool]) -> Schema:
        """Return the schema as a caller sees it: without hidden tables, and nothing of other tables that names one.

        The definition of a view is text that can name any table: with hidden tables, views have no definition.
        """
        tables = {id: table for id, table in self.tables.items() if shows(table)}
        if len(tables) == len(self.tables):
            return self
        seen = {
            id: replace(
                table,
                references=tuple(one for one in table.references if one.table in tables),
                definition=None,
                partition_of=table.partition_of if table.partition_of in tables else None,
            )
            for id, table in tables.items()
        }
        return replace(self, tables=seen)

    def partitions(self, table: Table) -> list[str]:
        """Return the ids of the partitions of a table."""
        if table.kind != PARTITIONED:
            return []
        return [id for id, other in self.tables.items() if other.partition_of == table.id]

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Digests of the tables, which change when the schema of a table changes. Estimates are ignored."""
        plain = {id: msgspec.structs.replace(table, rows=None) for id, table in self.tables.items()}
        return {id: sha256(msgspec.json.encode(table)).hexdigest() for id, table in plain.items()}

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the whole."""
        return sha256(repr(sorted(self.fingerprints.items())).encode()).hexdigest()


def table_id(name: str, schema: str | None) -> str:
    """Return the name of a table in URIs: ``orders``, or ``sales.orders`` outside of the default schema (None).

    Names with a dot or a quote are quoted, as in SQL.
    """
    return ".".join(quoted(part) for part in (schema, name) if part is not None)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if "." in name or '"' in name or not name else name


def with_key(table: Table, uniques: Iterable[tuple[str, ...]], *, has_row_id: bool = False) -> Table:
    """Return a table with the key of its rows: its primary key, else unique columns that are never null."""
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
