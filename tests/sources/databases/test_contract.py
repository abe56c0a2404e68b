"""The databases source, over files, against the contract that every source is held to."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pytest

from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.source import DatabaseSource
from support.contract_choice import DRIVER
from support.database_contract import QUERIES, DatabaseContract, DriverContract
from support.shop_database import statements

LIMITS = {"exclude_tables": ("secrets",), "interval": 0.05, "max_bytes": 20_000}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a shop of each kind, which the tests copy."""
    folder = tmp_path_factory.mktemp("shops")
    execute_sqlite(folder / "shop.db", "PRAGMA journal_mode = WAL", *statements())
    execute_duckdb(folder / "shop.duckdb", *statements())
    return folder


def execute_sqlite(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def execute_duckdb(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)


class TestSQLite(DatabaseContract):
    base = "sqlite:///shop.db"

    @pytest.fixture
    def provider(self, made: Path, tmp_path: Path) -> DatabaseSource:
        self.path = Path(shutil.copy(made / "shop.db", tmp_path))
        return self.make(query=True, queries=QUERIES)

    def make(self, **options: Any) -> DatabaseSource:
        return DatabaseSource(f"sqlite:///{self.path}", DatabaseOptions(**LIMITS, **options))

    def execute(self, *statements: str) -> None:
        execute_sqlite(self.path, *statements)


@pytest.mark.slow
class TestDuckDB(DriverContract):
    ordinary = DRIVER
    base = "duckdb:///shop.duckdb"

    @pytest.fixture
    def provider(self, made: Path, tmp_path: Path) -> DatabaseSource:
        self.path = Path(shutil.copy(made / "shop.duckdb", tmp_path))
        return self.make(query=True, queries=QUERIES)

    def make(self, **options: Any) -> DatabaseSource:
        return DatabaseSource(f"duckdb:///{self.path}", DatabaseOptions(**LIMITS, **options))

    def execute(self, *statements: str) -> None:
        execute_duckdb(self.path, *statements)
