"""Attacks on SQLite and DuckDB files by the query tool: nothing is written, nothing else is read."""

import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import duckdb
import pytest

from carrel.errors import ConfigError
from carrel.sources.databases.failure import DatabaseFailed
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.queries import run_query
from carrel.sources.databases.source import DatabaseSource
from carrel.sources.databases.statements import Statement
from carrel.testing import running
from support import database_queries
from support.database_attacks import DUCKDB, DUCKDB_MADE, EVERYWHERE, SHADOWING, SQLITE, SQLITE_MADE
from support.database_contract import Attacks
from support.shop_database import statements

OPTIONS = DatabaseOptions(query=True, exclude_tables=("secrets", "hidden"), time_limit=5)


class TestSQLite(Attacks):
    @pytest.fixture
    async def attacked(self, tmp_path: Path) -> AsyncIterator[DatabaseSource]:
        connection = sqlite3.connect(tmp_path / "shop.db")
        connection.executescript(";".join([*statements(), SQLITE_MADE]))
        connection.close()
        async with running(DatabaseSource(f"sqlite:///{tmp_path}/shop.db", OPTIONS)) as source:
            yield source

    async def test_every_attack_is_refused(self, attacked: DatabaseSource) -> None:
        await self.refuse_all(attacked, EVERYWHERE + SQLITE)
        await self.check_shop(attacked)

    async def test_ordinary_queries_run(self, attacked: DatabaseSource) -> None:
        await self.accept_all(attacked, database_queries.EVERYWHERE + database_queries.SQLITE)

    async def test_sqlite_itself_refuses_to_write(self, attacked: DatabaseSource) -> None:
        await self.write_past_the_check(attacked)
        await self.check_shop(attacked)

    async def test_a_table_that_sqlite_refuses_is_not_said_to_exist(self, attacked: DatabaseSource) -> None:
        catalog = await attacked._reader.cache.get()
        unseen = Statement("SELECT word FROM secrets", frozenset())
        read = partial(run_query, statement=unseen, values={}, limit=1, max_bytes=1000, catalog=catalog)
        with pytest.raises(DatabaseFailed, match=r"^there is no shared table secrets$"):
            await attacked._reader.database.run("", read)

    async def test_a_link_is_followed_only_where_it_is_the_file_that_was_named(self, tmp_path: Path) -> None:
        (tmp_path / "link.db").symlink_to(tmp_path / "elsewhere.db")
        with pytest.raises(ConfigError, match="there is no file"):
            async with running(DatabaseSource(f"sqlite:///{tmp_path}/link.db")):
                pass
        assert not (tmp_path / "elsewhere.db").exists()


class TestDuckDB(Attacks):
    @pytest.fixture
    async def attacked(self, tmp_path: Path) -> AsyncIterator[DatabaseSource]:
        with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
            for statement in [*statements(), "CREATE SEQUENCE counter", *statements(DUCKDB_MADE)]:
                connection.execute(statement)
        async with running(DatabaseSource(f"duckdb:///{tmp_path}/shop.duckdb", OPTIONS)) as source:
            yield source

    async def test_every_attack_is_refused(self, attacked: DatabaseSource) -> None:
        await self.refuse_all(attacked, EVERYWHERE + DUCKDB)
        await self.check_shop(attacked)

    @pytest.mark.parametrize(("macro", "sql"), SHADOWING)
    async def test_a_macro_that_syntax_calls_is_refused(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, macro: str, sql: str
    ) -> None:
        with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
            for statement in [*statements(), *statements(f"CREATE MACRO {macro} AS (SELECT word FROM main.secrets)")]:
                connection.execute(statement)
        async with running(DatabaseSource(f"duckdb:///{tmp_path}/shop.duckdb", OPTIONS)) as source:
            await self.refuse_all(source, [sql, "SELECT name FROM customers"])
        assert caplog.text.count("all queries are refused") == 1
        if "+" in macro:
            options = DatabaseOptions(query=True, allow_functions=("+",))
            async with running(DatabaseSource(f"duckdb:///{tmp_path}/shop.duckdb", options)) as source:
                await self.accept_all(source, [sql])

    async def test_ordinary_queries_run(self, tmp_path: Path) -> None:
        with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
            for statement in [*statements(), "CREATE MACRO double(x) AS 2 * x"]:
                connection.execute(statement)
        options = DatabaseOptions(query=True, allow_functions=("double",))
        async with running(DatabaseSource(f"duckdb:///{tmp_path}/shop.duckdb", options)) as source:
            queries = database_queries.EVERYWHERE + database_queries.DUCKDB
            await self.accept_all(source, [*queries, "SELECT double(2)"])

    async def test_duckdb_itself_refuses_to_write(self, attacked: DatabaseSource) -> None:
        await self.write_past_the_check(attacked)
        await self.check_shop(attacked)
