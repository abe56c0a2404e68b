"""What is said when a database is opened: each mistake in its own words, and patterns that match nothing."""

from __future__ import annotations

import sqlite3
import zipfile
from pathlib import Path

import pytest

from carrel import sources
from carrel.errors import SourceUnavailable
from carrel.testing import running
from carrel.testing.caller import Caller
from support.carrel_process import carrel
from support.shop_database import statements


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    connection = sqlite3.connect(tmp_path / "shop.db")
    with connection:
        for statement in statements():
            connection.execute(statement)
    connection.close()
    return tmp_path / "shop.db"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("sqlite:///{}/missing.db", "there is no file"),
        ("sqlite:///{}/text", "the file is not a SQLite database"),
        ("sqlite:///{}", "is a folder"),
        ("duckdb:///{}/missing.db", "there is no file"),
        ("duckdb:///{}/text", "the file is not a DuckDB database"),
        ("zip:{}/missing.zip", "there is no file"),
        ("zip:{}/text", "the file is not a ZIP archive"),
    ],
)
def test_a_file_that_is_missing_or_of_another_kind_is_no_advice_to_start_it(
    target: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("hello, this is a text")
    with zipfile.ZipFile(tmp_path / "other.zip", "w"):
        pass
    done = carrel("serve", target.format(tmp_path))
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert "start it first" not in done.stderr.decode()


def test_a_service_that_is_down_is_to_be_started() -> None:
    for target in ("postgres://127.0.0.1:9/shop", "mysql://127.0.0.1:9/shop"):
        assert b"start it first" in carrel("serve", target).stderr


async def test_a_pattern_that_matches_no_table_is_logged_with_the_near_name(
    shop: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = sources.open(f"sqlite:///{shop}", tables=("custmers", "orders"), exclude_tables=("secret",))
    async with running(source):
        pass
    told = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert told == [
        "tables: 'custmers' matches no table; did you mean 'customers'?",
        "exclude_tables: 'secret' matches no table; did you mean 'secrets'?",
    ]


async def test_a_key_of_several_columns_is_completed_with_all_of_them(shop: Path) -> None:
    template = "sqlite:///shop.db/tables/{table}/rows/{key}{?columns,format}"
    async with running(sources.open(f"sqlite:///{shop}")) as source:
        for typed, keys in (
            ("", ["10,1", "10,2", "11,1"]),
            ("1", ["10,1", "10,2", "11,1"]),
            ("10", ["10,1", "10,2"]),
            ("10,", ["10,1", "10,2"]),
            ("10,2", ["10,2"]),
            ("10,2,", []),
            ("12,", []),
            ("10\\", []),
        ):
            found = await Caller(source).complete(template, "key", typed, {"table": "items"})
            assert found.values == keys, typed


async def test_a_file_that_is_not_there_yet_can_be_tried_again(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable) as raised:
        async with running(sources.open(f"sqlite:///{tmp_path}/missing.db")):
            pass
    assert not raised.value.is_down
