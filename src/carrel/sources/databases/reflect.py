"""Read the schema with SQLAlchemy's inspector: tables, columns, keys, references and indexes.

Facts that the inspector does not provide are queried directly: the type names of PostgreSQL and MySQL, which tables may
be read, estimates of row counts, and the whole schema of DuckDB.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.engine.reflection import ObjectKind

from carrel.sources.databases.model import PARTITIONED, Column, Reference, Schema, Table, TableIndex, table_id, with_key
from carrel.sources.databases.options import DatabaseOptions

__all__ = ["read_catalog", "read_duckdb"]

HIDDEN = frozenset({"information_schema", "pg_catalog", "pg_toast", "mysql", "performance_schema", "sys"})

POSTGRES_COLUMNS = """
SELECT n.nspname, c.relname, c.relkind::text, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
       c.reltuples::bigint
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'm', 'f', 'p') AND n.nspname !~ '^pg_'
AND has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT')
"""
MYSQL_COLUMNS = """
SELECT c.table_schema, c.table_name, t.table_type, c.column_name, c.column_type, t.table_rows
FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = database()
"""
PARTITIONS = """
SELECT n.nspname, c.relname, an.nspname, a.relname FROM pg_catalog.pg_inherits i
JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_class a ON a.oid = i.inhparent JOIN pg_catalog.pg_namespace an ON an.oid = a.relnamespace
WHERE c.relispartition AND c.relkind IN ('r', 'p', 'f')
"""
KINDS = {"p": PARTITIONED, "v": "view", "m": "materialized view", "f": "foreign table", "VIEW": "view"}


class Known(NamedTuple):
    """Readable columns of a table, as the database describes them."""

    kind: str
    types: dict[str, str]
    rows: int | None


def read_catalog(
    connection: sa.Connection, product: str, options: DatabaseOptions, selected: Callable[[str], bool]
) -> Schema:
    """Return the tables and views that are shared, sorted by id; ``selected`` decides by the id."""
    dialect = connection.dialect.name
    name = ""
    if dialect == "duckdb":
        tables = read_duckdb(connection, options.schemas)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sa.exc.SAWarning)  # unknown types; their names are queried
            tables = SchemaReader(connection).read(options.schemas)
        if dialect != "sqlite":
            name = str(
                connection.exec_driver_sql(
                    "SELECT database()" if dialect == "mysql" else "SELECT current_database()"
                ).scalar()
            )
    shown = {table.id: table for table in sorted(tables, key=lambda table: table.id) if selected(table.id)}
    return Schema(product, name, with_partitions(connection, shown) if dialect == "postgresql" else shown)


def with_partitions(connection: sa.Connection, tables: dict[str, Table]) -> dict[str, Table]:
    """Return the tables, and set the parent table of each partition if the parent is shared."""
    ids = {(table.schema, table.name): id for id, table in tables.items()}
    found = dict(tables)
    for schema, name, parent_schema, parent in connection.exec_driver_sql(PARTITIONS):
        id, above = ids.get((schema, name)), ids.get((parent_schema, parent))
        if id is not None and above is not None:
            found[id] = replace(found[id], partition_of=above)
    return found


class SchemaReader:
    """Reader of the schemas of one database."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._dialect = connection.dialect.name
        self._inspector: Any = sa.inspect(connection)
        self._default = None if self._dialect == "sqlite" else self._inspector.default_schema_name
        if self._dialect == "postgresql":
            self._default = "public"
        self._known = self._read_known()

    def read(self, wanted: Iterable[str]) -> list[Table]:
        """Return the tables and views of the wanted schemas, by default of all schemas except system schemas."""
        if self._dialect in ("sqlite", "mysql"):
            return self._schema(None)
        names = [name for name in self._inspector.get_schema_names() if name not in HIDDEN and name[:3] != "pg_"]
        chosen = set(wanted)
        return [table for name in names if not chosen or name in chosen for table in self._schema(name)]

    def _read_known(self) -> dict[tuple[str | None, str], Known]:
        if self._dialect == "sqlite":
            return {}
        found: dict[tuple[str | None, str], Known] = {}
        text = MYSQL_COLUMNS if self._dialect == "mysql" else POSTGRES_COLUMNS
        for schema, table, kind, column, type, rows in self._connection.exec_driver_sql(text):
            location = (None if self._dialect == "mysql" else schema, table)
            known = found.setdefault(location, Known(KINDS.get(kind, "table"), {}, rows if rows and rows > 0 else None))
            known.types[column] = type
        return found

    def _schema(self, schema: str | None) -> list[Table]:
        inspector = self._inspector
        columns = self._every(inspector.get_multi_columns, schema)
        keys = self._every(inspector.get_multi_pk_constraint, schema)
        references = self._every(inspector.get_multi_foreign_keys, schema)
        indexes = self._every(inspector.get_multi_indexes, schema)
        unique = self._every(inspector.get_multi_unique_constraints, schema)
        checks = self._every(inspector.get_multi_check_constraints, schema)
        commented = inspector.dialect.supports_comments
        comments = self._every(inspector.get_multi_table_comment, schema) if commented else {}
        views = set(inspector.get_view_names(schema=schema))
        for location, seen in self._known.items():
            if location[0] == schema and location not in columns:  # a view whose definition may not be seen
                columns[location] = [{"name": name, "type": None, "nullable": True} for name in seen.types]
        found = []
        for location in columns:
            name = location[1]
            known = self._known.get((schema, name))
            if self._dialect != "sqlite" and known is None:
                continue  # not readable
            kind = known.kind if known is not None else "view" if name in views else "table"
            uniques = [tuple(one["column_names"]) for one in unique.get(location, ())]
            table = Table(
                table_id(name, None if schema == self._default else schema),
                schema,
                name,
                kind,
                (comments.get(location) or {}).get("text") or None,
                self._columns(columns[location], known),
                tuple((keys.get(location) or {}).get("constrained_columns") or ()),
                references=tuple(map(self._reference, references.get(location, ()))),
                indexes=tuple(map(index_of, indexes.get(location, ()))),
                checks=tuple(str(one.get("sqltext")) for one in checks.get(location, ())),
                definition=self._definition(name, schema) if "view" in kind else None,
                rows=known.rows if known is not None else None,
            )
            found.append(with_key(table, uniques, has_row_id=self._dialect == "sqlite" and kind == "table"))
        return found

    def _every(self, method: Any, schema: str | None) -> dict[Any, Any]:
        """Call an inspector method for all tables and views. Skip tables and views for which it fails."""
        try:
            return dict(method(schema=schema, kind=ObjectKind.ANY))
        except sa.exc.SQLAlchemyError:  # a view may refer to a dropped table, or its definition may not be visible
            if self._dialect == "postgresql":
                raise
        found: dict[Any, Any] = {}
        inspector = self._inspector
        for name in (*inspector.get_table_names(schema=schema), *inspector.get_view_names(schema=schema)):
            try:
                found |= method(schema=schema, kind=ObjectKind.ANY, filter_names=[name])
            except sa.exc.SQLAlchemyError:
                continue
        return found

    def _columns(self, columns: Iterable[Any], known: Known | None) -> tuple[Column, ...]:
        found = []
        for column in columns:
            if known is not None and column["name"] not in known.types:
                continue  # not readable
            type = known.types[column["name"]] if known is not None else self._type(column["type"])
            default = column.get("default")
            if column.get("computed"):
                default = f"generated as {column['computed']['sqltext']}"
            elif column.get("identity"):
                default = "generated as identity"
            text = None if default is None else str(default)
            found.append(Column(column["name"], type, bool(column["nullable"]), text, column.get("comment") or None))
        return tuple(found)

    def _type(self, type: Any) -> str:
        try:
            return str(type.compile(self._connection.dialect))
        except sa.exc.CompileError:
            return ""  # a column of SQLite without a type

    def _reference(self, key: Any) -> Reference:
        schema = key.get("referred_schema")
        target = table_id(key["referred_table"], None if schema == self._default else schema)
        return Reference(tuple(key["constrained_columns"]), target, tuple(key["referred_columns"]), key.get("name"))

    def _definition(self, name: str, schema: str | None) -> str | None:
        try:
            return self._inspector.get_view_definition(name, schema=schema) or None
        except sa.exc.SQLAlchemyError:
            return None


def index_of(index: Any) -> TableIndex:
    """Return an index of the inspector."""
    expressions = index.get("expressions") or index["column_names"]
    return TableIndex(str(index["name"]), tuple(str(text) for text in expressions), bool(index["unique"]))


HERE = "database_name = current_database() AND NOT internal"
TABLES = f"""
SELECT schema_name, table_name, 'table', comment, estimated_size, NULL FROM duckdb_tables() WHERE {HERE}
UNION ALL SELECT schema_name, view_name, 'view', comment, NULL, sql FROM duckdb_views() WHERE {HERE}
"""  # noqa: S608
COLUMNS = f"""
SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default, comment
FROM duckdb_columns() WHERE {HERE} ORDER BY column_index
"""  # noqa: S608
CONSTRAINTS = """
SELECT schema_name, table_name, constraint_type, constraint_text, constraint_column_names,
       referenced_table, referenced_column_names
FROM duckdb_constraints() WHERE database_name = current_database() ORDER BY constraint_index
"""
INDEXES = """
SELECT schema_name, table_name, index_name, is_unique, expressions
FROM duckdb_indexes() WHERE database_name = current_database()
"""


def read_duckdb(connection: sa.Connection, wanted: Collection[str]) -> list[Table]:
    """Return the tables and views of DuckDB in the wanted schemas, or in all schemas if ``wanted`` is empty.

    https://duckdb.org/docs/stable/sql/meta/duckdb_table_functions
    """

    def rows(text: str) -> list[Any]:
        return list(connection.exec_driver_sql(text).fetchall())

    columns: dict[Any, list[Column]] = defaultdict(list)
    for schema, table, *values in rows(COLUMNS):
        columns[schema, table].append(Column(*values))
    constraints: dict[Any, list[Any]] = defaultdict(list)
    for schema, table, *values in rows(CONSTRAINTS):
        constraints[schema, table].append(values)
    indexes: dict[Any, list[TableIndex]] = defaultdict(list)
    for schema, table, name, unique, expressions in rows(INDEXES):
        listed = str(expressions).strip("[]").split(", ")
        indexes[schema, table].append(TableIndex(name, tuple(text.strip("'\"") for text in listed), bool(unique)))
    found = []
    for schema, name, kind, comment, size, definition in rows(TABLES):
        if wanted and schema not in wanted:
            continue
        here = constraints[schema, name]
        shown = None if schema == "main" else schema
        table = Table(
            table_id(name, shown),
            schema,
            name,
            kind,
            comment,
            tuple(columns[schema, name]),
            next((tuple(names) for kind, _, names, *_ in here if kind == "PRIMARY KEY"), ()),
            references=tuple(
                Reference(tuple(names), table_id(target, shown), tuple(referred))
                for kind, _, names, target, referred in here
                if kind == "FOREIGN KEY"
            ),
            indexes=tuple(indexes[schema, name]),
            checks=tuple(text.removeprefix("CHECK") for kind, text, *_ in here if kind == "CHECK"),
            definition=definition,
            rows=size,
        )
        found.append(with_key(table, [tuple(names) for kind, _, names, *_ in here if kind == "UNIQUE"]))
    return found
