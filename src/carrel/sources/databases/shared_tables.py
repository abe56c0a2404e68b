"""Check that a query of a client reads shared tables only: not the system's, nor those that are left out."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from carrel.sources.databases.failure import Refused
from carrel.sources.databases.model import Catalog

__all__ = ["TableName", "check_shared", "tables_of"]

TableName = tuple[str, str, str, bool]
"""Table as a query names it: database, schema (empty where it has none), name, and whether the name is quoted."""

DEFAULT_SCHEMA = {"postgres": "public", "duckdb": "main", "sqlite": "main"}


def tables_of(root: exp.Expression) -> set[TableName]:
    """Return the tables that a query names, without the names that it defines itself (WITH).

    A name is the query's own only where it is defined: outside of that part it is a table again.
    """
    named = {cte.alias.lower() for cte in root.find_all(exp.CTE)}
    real: set[int] = set()
    if named:
        for scope in traverse_scope(root):
            real |= {id(source) for source in scope.sources.values() if isinstance(source, exp.Table)}
    found: set[TableName] = set()
    for table in root.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue  # a function that gives rows; functions are checked by themselves
        own = table.name.lower() in named and not table.db and not table.catalog and id(table) not in real
        if not own:
            quoted = bool(table.this.args.get("quoted"))
            found.add((table.catalog, table.db, table.name, quoted))
    return found


def check_shared(tables: set[TableName], catalog: Catalog, dialect: str) -> None:
    """Check that tables are shared.

    Raises:
        Refused: one is not, or there is none of its name.
    """
    default = DEFAULT_SCHEMA.get(dialect, catalog.name)

    def key(schema: str | None, name: str) -> Any:
        schema = schema or default
        return (schema, name) if dialect in ("postgres", "mysql") else (schema.lower(), name.lower())

    known = {key(table.schema, table.name) for table in catalog.tables.values()}
    for database, schema, name, quoted in sorted(tables):
        folded = name.lower() if dialect == "postgres" and not quoted else name
        if (database and database != catalog.name) or key(
            schema.lower() if dialect == "postgres" else schema, folded
        ) not in known:
            shown = ".".join(filter(None, (database, schema, name)))[:200]
            raise Refused(f"there is no shared table {shown}; there are {', '.join(list(catalog.tables)[:30])}")
