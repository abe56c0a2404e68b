"""Check SQL statements: a statement must be one read-only query that calls harmless functions.

If the database parses a statement differently, the statement could hide something: in a comment that MySQL executes
(``/*! */``), after ``--`` without a space, in a nested comment. So the text of the client is never sent: sqlglot
generates the statement again from the parsed query, without comments.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from typing import NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from carrel.sources.databases.failure import StatementRejected
from carrel.sources.databases.functions import (
    BARE,
    POSTGRES_TYPES,
    TABLE_FUNCTIONS,
    check_functions,
    is_allowed,
    not_harmless,
)
from carrel.sources.databases.shared_tables import (
    TableName,
    in_lower_case,
    postgres_name,
    resolve_tables,
    rewrite_postgres_names,
)

__all__ = ["PARAMETER", "Statement", "check_statement", "without_literals"]

# sqlglot's warnings contain the text of statements, and no more information than the errors.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

MAX_STATEMENT = 20_000  # characters
MAX_NODES = 5_000

PARAMETER = "carrel_parameter_{}_"
"""Form of a parameter in the text of a checked statement."""

ROOTS = (exp.Select, exp.SetOperation, exp.Subquery)
#: Nodes that write, lock, or have other effects, wherever they are in the query.
WRITING = tuple(
    getattr(exp, name)
    for name in (
        *("Insert", "Update", "Delete", "Merge", "Create", "Drop", "Alter", "TruncateTable", "Command", "Into"),
        *("Lock", "Copy", "Attach", "Detach", "Pragma", "Set", "Use", "Transaction", "Commit", "Rollback", "Kill"),
        *("LoadData", "Analyze", "Describe", "Cache", "Uncache", "Comment", "Grant", "Revoke", "Install"),
        *("Returning", "Export"),
    )
    if hasattr(exp, name)
)
#: Values from outside of the statement: variables of the session, and parameters, which have no value here.
OUTSIDE = (exp.Parameter, exp.SessionParameter, exp.Placeholder)
NAMES = {TokenType.VAR, TokenType.IDENTIFIER}


class Statement(NamedTuple):
    """Checked query: its text as it is sent, and its names, because the database must check some of them, too.

    ``functions`` are in lower case (in PostgreSQL, as in quotes), with their schema if the query has it. In PostgreSQL,
    ``fields`` are names after a dot whose left side is not the name of a table, ``columns`` names of columns.
    """

    sql: str
    functions: frozenset[str]
    parameters: tuple[str, ...] = ()
    tables: frozenset[TableName] = frozenset()
    fields: frozenset[str] = frozenset()
    columns: frozenset[str] = frozenset()


def check_statement(sql: str, dialect: str, *, parameters: bool = False, allowed: Collection[str] = ()) -> Statement:
    """Check a statement. ``parameters`` allows parameters, as ``:name``. ``allowed`` adds allowed functions.

    Raises:
        StatementRejected: the statement is not a single read-only query. The message gives the reason.
    """
    root = parse(sql, dialect)
    names: dict[str, None] = {}
    for count, node in enumerate(list(root.walk())):
        if count > MAX_NODES:
            raise StatementRejected("the statement has too many parts")
        if isinstance(node, WRITING):
            raise StatementRejected(f"only queries are allowed, but there is {kind_of(node)} in this one")
        if isinstance(node, OUTSIDE):
            if not parameters or not isinstance(node, exp.Placeholder) or not node.name.isidentifier():
                raise StatementRejected("the statement has variables or parameters; write the values instead")
            names.setdefault(node.name)
            node.replace(exp.var(PARAMETER.format(node.name)))
        if isinstance(node, exp.Hint):
            node.pop()  # hints for the optimizer can change settings: SET_VAR, MAX_EXECUTION_TIME
        check_table(node, dialect, allowed)
        if dialect == "postgres":
            check_type(node, allowed)
    try:
        fields, columns = rewrite_postgres_names(root) if dialect == "postgres" else (frozenset(), frozenset())
        tables = resolve_tables(root, dialect)
        written = write(root, dialect)
        functions = functions_of(root, dialect)
    except (SqlglotError, RecursionError, ValueError):
        raise StatementRejected("the statement is nested too deeply, or cannot be regenerated") from None
    check_functions(functions, dialect, allowed)
    return Statement(written, functions, tuple(names), tables, fields, columns)


def parse(sql: str, dialect: str) -> exp.Expr:
    """Parse a text that contains exactly one query.

    Raises:
        StatementRejected: the text is not exactly one query.
    """
    if len(sql) > MAX_STATEMENT:
        raise StatementRejected(f"the statement has {len(sql):,} characters; the limit is {MAX_STATEMENT:,}")
    if "\0" in sql:
        raise StatementRejected("the statement has a NUL character")
    try:
        parsed = [one for one in sqlglot.parse(sql, dialect=dialect) if one is not None]
    except (SqlglotError, RecursionError, ValueError) as error:
        reason = str(error).partition("\n")[0][:300] if isinstance(error, SqlglotError) else "it is nested too deeply"
        raise StatementRejected(f"the statement cannot be read: {reason}") from None
    if len(parsed) != 1:
        raise StatementRejected(
            f"only one statement is allowed; these are {len(parsed)}" if parsed else "there is no statement"
        )
    [root] = parsed
    if not isinstance(root, ROOTS):
        raise StatementRejected(f"only queries are allowed (SELECT …, WITH … SELECT …), but this is {kind_of(root)}")
    return root


def write(root: exp.Expr, dialect: str) -> str:
    if dialect == "mysql":
        from carrel.sources.databases.mysql_text import MySQLText  # deferred import: other databases do not need it

        return str(MySQLText(dialect=dialect, comments=False, normalize_functions=False).generate(root))
    return root.sql(dialect=dialect, comments=False, normalize_functions=False)


def check_table(node: exp.Expr, dialect: str, allowed: Collection[str]) -> None:
    """Reject table functions that could read other tables, and tables that DuckDB would open as files: 'data.csv'."""
    if not isinstance(node, exp.Table) or dialect not in TABLE_FUNCTIONS:
        return
    if not isinstance(node.this, exp.Identifier):
        name = write(node.this, dialect).partition("(")[0].strip().lower()
        if name not in TABLE_FUNCTIONS[dialect] and not is_allowed(name, allowed):
            raise not_harmless(name)
    elif dialect == "duckdb":
        name = node.name
        if any(character in name for character in "./\\:*") or name.startswith("~"):
            raise StatementRejected(f"{name[:100]!r} looks like a file, and files are not read")


def check_type(node: exp.Expr, allowed: Collection[str]) -> None:
    """Reject types of PostgreSQL that look up names (regclass), and row types, which reveal the columns of a table."""
    if not isinstance(node, (exp.DataType, exp.ObjectIdentifier, exp.PseudoType)):
        return
    written = write(node, "postgres").lower()
    name = re.match(r"[a-z_0-9]*", written)
    assert name is not None
    whole = name[0] == written or not isinstance(node.this, exp.DType) or node.this is not exp.DType.USERDEFINED
    if not (whole and name[0] in POSTGRES_TYPES) and not is_allowed(written, allowed):
        raise StatementRejected(
            f"the type {written[:200]} is not allowed: it is not known to be harmless. "
            "The operator of the server can allow it with the option allow_functions"
        )


def functions_of(root: exp.Expr, dialect: str) -> frozenset[str]:
    """Return every name that the generated SQL text calls as a function.

    The parser may rename functions, so the names are read from the text: a name before a parenthesis.
    """
    bare = root.copy()
    for alias in list(bare.find_all(exp.TableAlias)):
        alias.set("columns", None)  # names with columns, as in ``WITH names (columns)``, are no calls
    for unnest in list(bare.find_all(exp.Unnest)):
        unnest.set("offset", None)  # it is written as the last of these columns
    tokens = sqlglot.tokenize(write(bare, dialect), dialect=dialect)
    found = set()
    for number, token in enumerate(tokens):
        quoted = token.token_type is TokenType.IDENTIFIER
        name = in_lower_case(token.text)
        before = tokens[number - 1] if number else None
        dotted = before is not None and before.token_type is TokenType.DOT
        called = number + 1 < len(tokens) and tokens[number + 1].token_type is TokenType.L_PAREN
        if not called:
            named = dotted or (before is not None and before.token_type is TokenType.ALIAS)
            # DuckDB reads these words in quotes as calls, too, if there is no such column; the parser may quote them.
            word = token.token_type is not TokenType.STRING and (not quoted or dialect == "duckdb")
            if word and not named and name in BARE.get(dialect, ()):
                raise not_harmless(name)
            continue
        if token.token_type not in NAMES and not token.text[:1].isalpha():
            continue
        if quoted or " " not in name:  # as in GROUPING SETS
            found.add(qualified(tokens, number, dialect))
    return frozenset(found)


def qualified(tokens: list[Token], number: int, dialect: str) -> str:
    """Return the name of a function with its schema, except the schema of PostgreSQL's own functions.

    DuckDB calls functions after a dot, too, as in ``name.upper()``.
    """
    parts = [part_of_name(tokens[number], dialect)]
    while dialect != "duckdb" and number > 1 and tokens[number - 1].token_type is TokenType.DOT:
        number -= 2
        parts.insert(0, part_of_name(tokens[number], dialect))
    return ".".join(parts[1:] if parts[0] == "pg_catalog" and dialect == "postgres" else parts)


def part_of_name(token: Token, dialect: str) -> str:
    """Return a part of the name of a function, as the database compares it."""
    if dialect != "postgres":
        return in_lower_case(token.text)
    return postgres_name(token.text, token.token_type is TokenType.IDENTIFIER)


def without_literals(sql: str, dialect: str) -> str:
    """Return the text of a checked statement without string literals and quoted names, in which no operators are."""
    literal = (TokenType.STRING, TokenType.BYTE_STRING, TokenType.IDENTIFIER)
    tokens = [token for token in sqlglot.tokenize(sql, dialect=dialect) if token.token_type in literal]
    for token in reversed(tokens):
        sql = f"{sql[: token.start]} {sql[token.end + 1 :]}"
    return sql


def kind_of(node: exp.Expr) -> str:
    """Return the name of a kind of statement, with an article."""
    if isinstance(node, exp.Command):
        return f"a {str(node.this).upper()[:30]} statement"
    if isinstance(node, exp.Lock):
        return "a lock (FOR UPDATE, FOR SHARE)"
    return f"the statement or clause {type(node).__name__.upper()}"
