"""Model of a database: its tables and views, their columns, keys, references and indexes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256

import msgspec

__all__ = ["Catalog", "Column", "Index", "Reference", "Table", "table_id"]


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


class Index(msgspec.Struct, frozen=True):
    """Index of a table. Of an index over an expression, ``columns`` has its text."""

    name: str
    columns: tuple[str, ...]
    unique: bool = False


class Table(msgspec.Struct, frozen=True):
    """Table or view. ``key`` are the columns that identify a row, and give rows their order; empty if there are none.

    ``key_kind`` is "primary key", "unique columns" or "row id" (of SQLite). ``rows`` is an estimate of the database.
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
    indexes: tuple[Index, ...] = ()
    checks: tuple[str, ...] = ()
    definition: str | None = None
    rows: int | None = None

    def column(self, name: str) -> Column:
        """Return a column by its name; that of a row id is not among ``columns``."""
        return next((column for column in self.columns if column.name == name), Column(name, "INTEGER", nullable=False))


class Catalog(msgspec.Struct, frozen=True, dict=True):
    """Everything that is shared of a database, by table id, in order."""

    product: str
    name: str
    tables: Mapping[str, Table]
    comment: str | None = None

    @cached_property
    def stamps(self) -> dict[str, str]:
        """Digests of the tables, that differ when the schema of a table does; estimates do not count."""
        plain = {id: msgspec.structs.replace(table, rows=None) for id, table in self.tables.items()}
        return {id: sha256(msgspec.json.encode(table)).hexdigest() for id, table in plain.items()}

    @cached_property
    def stamp(self) -> str:
        """Digest of the whole."""
        return sha256(repr(sorted(self.stamps.items())).encode()).hexdigest()


def table_id(name: str, schema: str | None) -> str:
    """Return the name of a table in URIs: ``orders``, or ``sales.orders`` outside of the default schema (None).

    Names with a dot or a quote are quoted, as in SQL.
    """
    return ".".join(quoted(part) for part in (schema, name) if part is not None)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if "." in name or '"' in name or not name else name
