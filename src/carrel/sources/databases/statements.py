"""Check of SQL statements: one query, that only reads. What runs is what was checked, written anew by the parser.

A statement that is parsed one way here and another way by the database could hide something: in a comment that MySQL
executes (``/*! */``), after ``--`` without a space, in a nested comment. So the text of the client is never sent:
sqlglot writes the parsed query again, without comments.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from carrel.sources.databases.failure import Refused
from carrel.sources.databases.shared_tables import TableName, tables_of

__all__ = ["PARAMETER", "Statement", "check_statement"]

# Its warnings have the text of statements, and tell nothing that the errors do not.
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
    """A checked query: its text as it is sent, its functions (in lower case), parameters and tables."""

    sql: str
    functions: set[str]
    parameters: tuple[str, ...] = ()
    tables: frozenset[TableName] = frozenset()


def check_statement(sql: str, dialect: str, *, parameters: bool = False) -> Statement:
    """Check a statement. ``parameters``: it may have them, as ``:name``.

    Raises:
        Refused: it is not one query that only reads, and why.
    """
    if len(sql) > MAX_STATEMENT:
        raise Refused(f"the statement has {len(sql):,} characters; the most are {MAX_STATEMENT:,}")
    if "\0" in sql:
        raise Refused("the statement has a NUL character")
    try:
        parsed = [one for one in sqlglot.parse(sql, dialect=dialect) if one is not None]
    except (SqlglotError, RecursionError, ValueError) as error:
        reason = str(error).partition("\n")[0][:300] if isinstance(error, SqlglotError) else "it is nested too deeply"
        raise Refused(f"the statement cannot be read: {reason}") from None
    if len(parsed) != 1:
        raise Refused(f"one statement at a time; these are {len(parsed)}" if parsed else "there is no statement")
    [root] = parsed
    if not isinstance(root, ROOTS):
        raise Refused(f"only queries are run (SELECT …, WITH … SELECT …), and this is {kind_of(root)}")
    names: dict[str, None] = {}
    for count, node in enumerate(list(root.walk())):
        if count > MAX_NODES:
            raise Refused("the statement has too many parts")
        if isinstance(node, WRITING):
            raise Refused(f"only queries are run, and there is {kind_of(node)} in this one")
        if isinstance(node, OUTSIDE):
            if not parameters or not isinstance(node, exp.Placeholder) or not node.name.isidentifier():
                raise Refused("the statement has variables or parameters; write the values instead")
            names.setdefault(node.name)
            node.replace(exp.var(PARAMETER.format(node.name)))
        check_table(node, dialect)
    try:
        written = root.sql(dialect=dialect, comments=False, normalize_functions=False)
        return Statement(written, functions_of(written, dialect), tuple(names), frozenset(tables_of(root)))
    except (SqlglotError, RecursionError, ValueError):
        raise Refused("the statement is nested too deeply, or cannot be written again") from None


def check_table(node: exp.Expr, dialect: str) -> None:
    """Refuse tables that DuckDB would open as files: 'data.csv' in place of a name, and names of other databases."""
    if dialect != "duckdb" or not isinstance(node, exp.Table):
        return
    name = node.name
    if any(character in name for character in "./\\:*") or name.startswith("~"):
        raise Refused(f"{name[:100]!r} looks like a file, and files are not read")


def functions_of(sql: str, dialect: str) -> set[str]:
    """Return every name before a parenthesis, as the parser may call functions by other names."""
    tokens = sqlglot.tokenize(sql, dialect=dialect)
    found = set()
    for token, following in pairwise(tokens):
        if following.token_type is TokenType.L_PAREN and (token.token_type in NAMES or token.text[:1].isalpha()):
            found.add(token.text.lower())
    return found


def kind_of(node: exp.Expr) -> str:
    """Return the name of a kind of statement, with an article."""
    if isinstance(node, exp.Command):
        return f"a {str(node.this).upper()[:30]} statement"
    if isinstance(node, exp.Lock):
        return "a lock (FOR UPDATE, FOR SHARE)"
    return f"the statement or clause {type(node).__name__.upper()}"
