"""Check that a client's query reads only shared tables: no system tables and no excluded tables.

A name in a query is a table unless an enclosing WITH defines the name. Names that the query defines are replaced, so
that the database cannot resolve them to a table of the same name.
"""

from __future__ import annotations

from sqlglot import exp

from carrel.sources.databases.failure import StatementRejected
from carrel.sources.databases.model import Schema

__all__ = ["TableName", "check_shared", "in_lower_case", "postgres_name", "resolve_tables", "rewrite_postgres_names"]

TableName = tuple[str, str, str]
"""Table that a query reads: database and schema (empty if the query does not say), and name."""

DEFAULT_SCHEMA = {"postgres": "public", "duckdb": "main", "sqlite": "main"}
MAX_NAME = 63  # bytes of a name in PostgreSQL, which cuts longer names
LOWER = str.maketrans({chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)})
OWN = "carrel_with_{}"
"""Form of the name that replaces the name of a WITH."""


def resolve_tables(root: exp.Expr, dialect: str) -> frozenset[TableName]:
    """Return the tables that a query reads, and replace the names that it defines itself."""
    if dialect == "sqlite":
        for member in list(root.find_all(exp.In)):
            expand_table_list(member)
    tables = [table for table in root.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    own = {id(table): cte for table in tables if (cte := definition_of(table, dialect)) is not None}
    names = {id(cte): OWN.format(number) for number, cte in enumerate(root.find_all(exp.CTE), 1)}
    found: set[TableName] = set()
    for table in tables:
        cte = own.get(id(table))
        if cte is not None:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            table.set("this", exp.to_identifier(names[id(cte)]))
            continue
        if dialect == "postgres":  # which looks for a name without a schema in its own schema first
            if not table.db:
                table.set("db", exp.to_identifier(DEFAULT_SCHEMA[dialect], quoted=True))
            for part in ("this", "db", "catalog"):
                if (name := table.args.get(part)) is not None:
                    table.set(part, exp.to_identifier(folded(name, dialect), quoted=True))
        found.add((table.catalog, table.db, table.name))
    for cte in root.find_all(exp.CTE):
        cte.args["alias"].set("this", exp.to_identifier(names[id(cte)]))
    return frozenset(found)


def expand_table_list(member: exp.In) -> None:
    """Replace ``x IN name`` of SQLite with the query that it is short for. The name may be a string literal."""
    column = member.args.get("field")
    if isinstance(column, exp.Literal):
        column = exp.Column(this=column)
    if isinstance(column, exp.Column):
        name = column.this if isinstance(column.this, exp.Identifier) else exp.to_identifier(column.name, quoted=True)
        table = exp.Table(this=name.copy(), db=column.args.get("table"), catalog=column.args.get("db"))
        query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))
        member.set("field", None)
        member.set("query", exp.Subquery(this=query))


def definition_of(table: exp.Table, dialect: str) -> exp.CTE | None:
    """Return the part of a WITH that defines the name of a table, or None: then it is a table of the database."""
    if table.db or table.catalog:
        return None
    wanted = folded(table.this, dialect)
    below: exp.Expr = table
    inside: exp.Expr | None = None  # the part of the WITH just above in which the table is
    while (node := below.parent) is not None:
        if isinstance(node, exp.With):
            inside = below
        else:
            with_ = node.args.get("with_")
            for cte in visible_parts(with_, inside if with_ is below else None):
                if folded(cte.args["alias"].this, dialect) == wanted:
                    return cte
        below = node
    return None


def visible_parts(with_: exp.With | None, inside: exp.Expr | None) -> list[exp.CTE]:
    """Return the parts of a WITH whose names can be used after it, or inside one of its parts; the last part first."""
    parts: list[exp.CTE] = [] if with_ is None else list(with_.expressions)
    if with_ is not None and inside is not None:
        number = next(number for number, part in enumerate(parts) if part is inside)
        parts = parts[: number + 1] if with_.args.get("recursive") else parts[:number]
    return parts[::-1]


def folded(name: exp.Identifier, dialect: str) -> str:
    """Return a name as it is compared: only in quotes, and only in PostgreSQL, capital letters count."""
    if dialect != "postgres":
        return name.name.lower()
    return postgres_name(name.name, bool(name.args.get("quoted")))


def postgres_name(name: str, quoted: bool) -> str:
    """Return a name as PostgreSQL reads it: at most 63 bytes, and without quotes the letters A to Z in lower case."""
    name = name if quoted else in_lower_case(name)
    return name.encode()[:MAX_NAME].decode(errors="ignore")


def in_lower_case(name: str) -> str:
    """Return a name with A to Z in lower case, and no other letter changed: databases fold no others."""
    return name.translate(LOWER)


def rewrite_postgres_names(root: exp.Expr) -> tuple[frozenset[str], frozenset[str]]:
    """Write the names that could call a function (``row.name``) as PostgreSQL reads them, in quotes.

    Returns:
        The names after a dot whose left side is not the name of a table, and the names of columns.
    """
    fields: set[str] = set()
    columns: set[str] = set()
    for node in list(root.find_all(exp.Dot, exp.Column)):
        part = "expression" if isinstance(node, exp.Dot) else "this"
        name = node.args.get(part)
        if not isinstance(name, exp.Identifier):
            continue
        read = folded(name, "postgres")
        (fields if isinstance(node, exp.Dot) else columns).add(read)
        if isinstance(node, exp.Dot) or node.args.get("table") is not None:
            node.set(part, exp.to_identifier(read, quoted=True))
    return frozenset(fields), frozenset(columns)


def check_shared(tables: frozenset[TableName], catalog: Schema, dialect: str) -> None:
    """Check that tables are shared.

    Raises:
        StatementRejected: a table is not shared, or does not exist.
    """
    default = DEFAULT_SCHEMA.get(dialect, catalog.name)

    def key(schema: str | None, name: str) -> tuple[str, str]:
        schema = schema or default
        return (schema, name) if dialect in ("postgres", "mysql") else (schema.lower(), name.lower())

    known = {key(table.schema, table.name) for table in catalog.tables.values()}
    for database, schema, name in sorted(tables):
        if (database and database != catalog.name) or key(schema, name) not in known:
            shown = ".".join(filter(None, (database, schema, name)))[:200]
            raise StatementRejected(
                f"there is no shared table {shown}; there are {', '.join(list(catalog.tables)[:30])}"
            )
