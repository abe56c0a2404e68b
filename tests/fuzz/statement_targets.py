"""Fuzz target of SQL statements: what the check lets through changes nothing, in SQLite and DuckDB themselves."""

# ruff: noqa: E501  (the forms are easier to read in rows)

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz.cleanup import cleanup

__all__ = ["SEEDS", "TARGETS"]

Target = Callable[[bytes], None]

#: A grammar of statements that write, and of queries that writing hides in. ``{name}`` is any of the forms of a name.
GRAMMAR: dict[str, list[str]] = {
    "start": [
        *("{query}", "{query}", "{query} {tail}", "{write}", "{query}; {write}", "{write}; {query}", "{with} {write}"),
        *("{comment}{write}", "{comment}{query}", "({write})", "EXPLAIN {write}", "EXPLAIN QUERY PLAN {write}"),
        *("{query} UNION {write}", "{query}{comment}{write}", "SELECT ({write})", "SELECT * FROM ({write})"),
        *("BEGIN {write}", "{query};", ";{query}", "{query} {comment}"),
    ],
    "query": [
        *("SELECT {expr}", "SELECT {expr} FROM {source}", "SELECT {expr} AS {name} FROM {source} WHERE {expr}"),
        *("SELECT * FROM {source} JOIN {source} ON {expr}", "{query} UNION ALL {query}", "VALUES ({expr})"),
        *("({query})", "{with} SELECT * FROM c", "SELECT {expr} FROM {source} GROUP BY {expr} HAVING {expr}"),
        *("FROM t", "TABLE t", "SELECT {expr} INTO {name} FROM t", "SELECT {expr} OVER (ORDER BY {expr}) FROM t"),
        *("SELECT DISTINCT {expr} FROM {source} ORDER BY {expr} LIMIT {expr}", "SELECT {expr} EXCEPT {query}"),
    ],
    "with": [
        *(
            "WITH c AS ({query})",
            "WITH c AS ({write})",
            "WITH c AS ({write} RETURNING *)",
            "WITH c(x) AS MATERIALIZED ({query})",
        ),
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5)",
    ],
    "write": [
        *(
            "DELETE FROM t",
            "INSERT INTO t VALUES (9, 'x')",
            "REPLACE INTO t VALUES (1, 'x')",
            "UPDATE t SET v = {expr}",
        ),
        *("INSERT INTO t {query}", "INSERT OR REPLACE INTO t DEFAULT VALUES", "UPDATE t SET v = 1 FROM {source}"),
        *("DROP TABLE t", "DROP INDEX i", "CREATE TABLE {name} (a)", "CREATE TABLE {name} AS {query}"),
        *("CREATE TEMP TABLE {name} AS {query}", "CREATE VIEW {name} AS {query}", "CREATE INDEX {name} ON t (v)"),
        *("CREATE TRIGGER {name} AFTER INSERT ON t BEGIN {write}; END", "ALTER TABLE t ADD COLUMN {name}"),
        *("ALTER TABLE t RENAME TO {name}", "VACUUM", "VACUUM INTO 'out.db'", "ATTACH 'out.db' AS {name}"),
        *("DETACH main", "PRAGMA user_version = 7", "PRAGMA writable_schema = 1", "PRAGMA journal_mode = WAL"),
        *("REINDEX", "ANALYZE", "BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s", "COMMIT", "ROLLBACK", "RELEASE s"),
        *(
            "CREATE VIRTUAL TABLE {name} USING fts5(a)",
            "COPY t TO 'out.csv'",
            "EXPORT DATABASE 'out'",
            "CALL {func}(1)",
        ),
        *(
            "SET threads = 1",
            "MERGE INTO t USING t AS s ON {expr} WHEN MATCHED THEN DELETE",
            "TRUNCATE t",
            "CHECKPOINT",
        ),
        *("LOAD 'x'", "INSTALL x", "PREPARE p AS {query}", "EXECUTE p", "DO $$ {write} $$", "USE {name}"),
    ],
    "expr": [
        *(
            "1",
            "v",
            "NULL",
            "*",
            "'it''s'",
            '"v"',
            "[v]",
            "`v`",
            "x'00'",
            "1e5",
            "t.v",
            "rowid",
            "'{write}'",
            '"{write}"',
        ),
        *("({query})", "EXISTS ({query})", "{func}({expr})", "{expr} {op} {expr}", "CAST({expr} AS TEXT)", "({expr})"),
        *("CASE WHEN {expr} THEN {expr} ELSE {expr} END", "{expr} -- {write}\n", "{expr} /* {write} */", "- {expr}"),
        *("?", ":a", "@a", "$a", "$$ {write} $$", "E'\\'; {write} --'", "'\\'; {write} --'", "count(*)", "({write})"),
        *(
            "{expr} /* /* */ {expr} */",
            "{expr} COLLATE NOCASE",
            "{expr} IN ({query})",
            "{expr} BETWEEN {expr} AND {expr}",
        ),
        *("{expr} AS {name}", "{expr}, {expr}", "RAISE(IGNORE)", "iif({expr}, {expr}, {expr})", "{expr}{comment}"),
    ],
    "source": [
        *(
            "t",
            "main.t",
            '"t"',
            "[t]",
            "`t`",
            "t AS x",
            "t, t AS y",
            "({query})",
            "({query}) AS q",
            "t INDEXED BY i",
            "temp.t",
        ),
        *(
            "sqlite_schema",
            "pragma_user_version",
            "pragma_table_info('t')",
            "pragma_user_version(7)",
            "json_each('[1]')",
        ),
        *(
            "pragma_journal_mode('DELETE')",
            "pragma_wal_checkpoint",
            "pragma_optimize",
            "'out.csv'",
            "range(3)",
            "({write})",
        ),
    ],
    "func": [
        *(
            "abs",
            "upper",
            "length",
            "coalesce",
            "changes",
            "load_extension",
            "writefile",
            "zeroblob",
            "randomblob",
            '"abs"',
        )
    ],
    "op": [*("+", "||", "=", "<>", "->>", "IS NOT", "LIKE", "MATCH", "REGEXP", "AND", "<<", "::")],
    "name": ["n", '"n"', "[n]", "t", "'n'", '"n""; {write} --"', "ﬀ"],
    "comment": [
        "-- \n",
        "--\n",
        "--",
        "#\n",
        "/* */",
        "/*! */",
        "/*!50000 ",
        "/*+ x */",
        "\ufeff",
        "\f",
        "\u00a0",
        "/*",
        "*/",
        "//\n",
    ],
    "tail": [
        *(
            "RETURNING *",
            "FOR UPDATE",
            "INTO OUTFILE 'x'",
            "LIMIT 1",
            "; {write}",
            "--; {write}",
            "ORDER BY 1",
            "INTO n",
        ),
        *("WINDOW w AS (ORDER BY v)", "LIMIT {expr} OFFSET {expr}", ";{comment}{write}", "\n{write}", "UNION {query}"),
    ],
}
DEPTH = 7


STEPS = 200  # of 1,000 instructions of SQLite


def sentence(data: bytes) -> str:
    """Return the statement of the grammar that bytes choose, one byte for each choice; or the text that they are."""
    if data[:1] == b"\xff":
        return data[1:].decode("utf-8", "replace")
    choices = iter(data)

    def expand(name: str, depth: int) -> str:
        forms = GRAMMAR[name]
        form = forms[next(choices, 0) % len(forms)] if depth < DEPTH else re.sub(r"\{\w+\}", "1", forms[0])
        return re.sub(r"\{(\w+)\}", lambda found: expand(found[1], depth + 1), form)

    return expand("start", 0)


class SQLite:
    """SQLite file that nothing protects: protection would hide what the check lets through."""

    def __init__(self) -> None:
        self._path = Path(cleanup.enter_context(TemporaryDirectory(prefix="carrel-fuzz-")), "shop.db")
        with closing(sqlite3.connect(self._path)) as setup, setup:
            setup.executescript("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); CREATE INDEX i ON t (v);")
            setup.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        self._before = self._path.read_bytes()

    def run(self, sql: str) -> None:
        """Run a statement, and check that it has left everything as it was."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)
            steps = iter(range(STEPS))
            connection.set_progress_handler(lambda: int(next(steps, None) is None), 1000)
            try:
                connection.execute(sql).fetchmany(100)
            except (sqlite3.Error, sqlite3.Warning, OverflowError):
                pass
            connection.set_progress_handler(None, 0)
            assert not connection.in_transaction, sql
            assert connection.total_changes == 0, sql
            assert {row[1] for row in connection.execute("PRAGMA database_list")} <= {"main", "temp"}, sql
            assert connection.execute("SELECT count(*) FROM sqlite_temp_schema").fetchone() == (0,), sql
        assert self._path.read_bytes() == self._before, sql
        assert [one.name for one in self._path.parent.iterdir()] == [self._path.name], sql


class DuckDB:
    """DuckDB in memory, which may not reach files; nothing else protects it."""

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(config={"enable_external_access": "false", "threads": "1"})
        cleanup.callback(self._connection.close)
        self._connection.execute("CREATE TABLE t AS SELECT 1 AS id, 'a' AS v")
        self._errors = (duckdb.Error, ValueError, OverflowError)
        self._before = self._state()

    def _state(self) -> list[Any]:
        looks = (
            "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal",
            "SELECT current_setting('threads'), current_schema()",
            "SELECT * FROM t",
        )
        return [self._connection.execute(look).fetchall() for look in looks]

    def run(self, sql: str) -> None:
        """Run a statement, and check that it has left everything as it was."""
        try:
            self._connection.execute(sql).fetchmany(100)
        except self._errors:
            pass
        assert self._state() == self._before, sql


def statements() -> Target:
    """``check_statement``: what passes changes no database, and passes again, with the same tables, as it is written."""
    from carrel.sources.databases.failure import StatementRejected
    from carrel.sources.databases.statements import check_statement

    lite, duck = SQLite(), DuckDB()

    def run(data: bytes) -> None:
        text = sentence(data)
        for dialect in ("sqlite", "duckdb", "postgres", "mysql"):
            try:
                statement = check_statement(text, dialect)
            except StatementRejected:
                continue
            again = check_statement(statement.sql, dialect)
            assert again.tables == statement.tables, (text, dialect)
            if dialect == "sqlite":
                lite.run(statement.sql)
            elif dialect == "duckdb":
                duck.run(statement.sql)

    return run


TARGETS: dict[str, Callable[[], Target]] = {"statements": statements}
SEEDS: dict[str, list[bytes]] = {
    "statements": [
        *(bytes([first, *range(second, second + 24)]) for first in range(19) for second in (1, 9)),
        b"\xffSELECT v FROM t WHERE id = 1 -- x\n; DELETE FROM t",
        b"\xffWITH c AS (SELECT 1) SELECT * FROM c UNION SELECT 'a;b' FROM [t]",
        b'\xffSELECT "a" /* /* */ DELETE FROM t */ FROM t LIMIT 1 OFFSET 0',
        b"\xffSELECT e'\\'; DELETE FROM t --', $$x$$, `v`, x'00' FROM main.t",
    ]
}
