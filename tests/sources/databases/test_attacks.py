"""Attacks on SQLite and DuckDB files by the query tool: nothing is written, nothing else is read."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import duckdb
import pytest

from carrel.errors import ConfigError
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.source import DatabaseSource
from carrel.testing import running
from support.database_attacks import DUCKDB, EVERYWHERE, SQLITE
from support.database_contract import Attacks
from support.shop_database import statements

OPTIONS = DatabaseOptions(query=True, exclude_tables=("secrets",), time_limit=5)


class TestSQLite(Attacks):
    @pytest.fixture
    async def attacked(self, tmp_path: Path) -> AsyncIterator[DatabaseSource]:
        connection = sqlite3.connect(tmp_path / "shop.db")
        connection.executescript(";".join(statements()))
        connection.close()
        async with running(DatabaseSource(f"sqlite:///{tmp_path}/shop.db", OPTIONS)) as source:
            yield source

    async def test_every_attack_is_refused(self, attacked: DatabaseSource) -> None:
        for sql in EVERYWHERE + SQLITE:
            await self.refuse(attacked, sql)
        await self.check_shop(attacked)

    async def test_sqlite_itself_refuses_to_write(self, attacked: DatabaseSource) -> None:
        await self.write_past_the_check(attacked)
        await self.check_shop(attacked)

    async def test_a_link_is_followed_only_where_it_is_the_file_that_was_named(self, tmp_path: Path) -> None:
        (tmp_path / "link.db").symlink_to(tmp_path / "elsewhere.db")
        with pytest.raises(ConfigError, match="no such file"):
            async with running(DatabaseSource(f"sqlite:///{tmp_path}/link.db")):
                pass
        assert not (tmp_path / "elsewhere.db").exists()


class TestDuckDB(Attacks):
    @pytest.fixture
    async def attacked(self, tmp_path: Path) -> AsyncIterator[DatabaseSource]:
        with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
            for statement in [*statements(), "CREATE SEQUENCE counter"]:
                connection.execute(statement)
        async with running(DatabaseSource(f"duckdb:///{tmp_path}/shop.duckdb", OPTIONS)) as source:
            yield source

    async def test_every_attack_is_refused(self, attacked: DatabaseSource) -> None:
        for sql in EVERYWHERE + DUCKDB:
            await self.refuse(attacked, sql)
        await self.check_shop(attacked)

    async def test_duckdb_itself_refuses_to_write(self, attacked: DatabaseSource) -> None:
        await self.write_past_the_check(attacked)
        await self.check_shop(attacked)
