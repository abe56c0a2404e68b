"""Databases with hidden tables: nothing that is made of the schema names a hidden table, or anything in it."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from carrel.catalog.provider import Request
from carrel.errors import ResourceNotFound, ToolError
from carrel.sources.databases.location import uri_of
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.source import DatabaseSource
from carrel.testing import running
from carrel.testing.caller import Caller

TABLES = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, hidden_id INTEGER REFERENCES "hidden (1)" (hidden_key));
CREATE TABLE "hidden (1)" (hidden_key INTEGER PRIMARY KEY, word TEXT);
CREATE VIEW summary AS SELECT count(*) AS number FROM "hidden (1)";
INSERT INTO "hidden (1)" VALUES (1, 'sesame');
"""
BASE = "sqlite:///shop.db"
TABLE = uri_of(BASE, "tables", "hidden (1)")


def is_visible(uri: str) -> bool:
    return not uri.startswith(TABLE)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[DatabaseSource]:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.executescript(TABLES)
    connection.close()
    async with running(DatabaseSource(f"sqlite:///{tmp_path}/shop.db", DatabaseOptions(query=True))) as found:
        yield found


@pytest.mark.parametrize(
    "path",
    [
        *("schema", "schema?format=json", "dictionary", "dictionary?format=csv", "diagram", "diagram?format=svg"),
        *("statistics", "statistics?format=csv", "tables", "tables/customers/schema?format=json"),
        *("tables/customers/schema", "tables/summary/schema"),
    ],
)
async def test_no_document_of_a_schema_names_a_hidden_table(path: str, shop: DatabaseSource) -> None:
    [every] = await Caller(shop).read_resource(f"{BASE}/{path}")
    [seen] = await Caller(shop, is_visible).read_resource(f"{BASE}/{path}")
    assert "hidden (1)" in every.text
    assert "hidden" not in seen.text.replace("hidden_id", "")
    assert ("customers" in seen.text) or "summary" in path


async def test_lists_completion_and_search_name_no_hidden_table(shop: DatabaseSource) -> None:
    caller = Caller(shop, is_visible)
    assert not any("hidden" in resource.uri for resource in await caller.resources(1))
    assert [one.name for one in await caller.directory(f"{BASE}/tables", 1)] == ["customers", "summary"]
    completed = await caller.complete(f"{BASE}/tables/{{table}}/schema{{?format}}", "table", "")
    assert (completed.values, completed.total) == (["customers", "summary"], 2)
    assert [hit.resource.name for hit in await caller.search("hidden", 1)] == ["customers/schema"]
    [top] = [one for one in await caller.resources() if one.uri == f"{BASE}/schema"]
    assert "2 tables and views" in (top.description or "")


async def test_a_query_reads_no_hidden_table(shop: DatabaseSource) -> None:
    async def query(sql: str, visible: bool = False) -> str:
        request = Request() if visible else Request(visible=is_visible)
        result = await shop.call_tool("query_shop", msgspec.Raw(msgspec.json.encode({"sql": sql})), request)
        return str(result.content)

    sql = 'SELECT word FROM "hidden (1)"'
    assert "sesame" in await query(sql, visible=True)
    with pytest.raises(ToolError, match=r"there are customers, summary$"):
        await query(sql)
    with pytest.raises(ToolError):
        await query(f"SELECT * FROM customers WHERE EXISTS ({sql})")
    assert "1" in await query("SELECT number FROM summary")  # a view shows what its author has chosen


@pytest.mark.parametrize("spelled", [TABLE, f"{BASE}/tables/hidden%20(1)", f"{BASE}/tables/hidden%20%28%31)"])
async def test_a_hidden_table_does_not_exist_in_any_spelling(spelled: str, shop: DatabaseSource) -> None:
    every, caller = Caller(shop), Caller(shop, is_visible)
    for part in ("", "/schema", "/rows", "/rows/1", "/sample", "/statistics"):
        assert await every.read_resource(spelled + part)
        with pytest.raises(ResourceNotFound):
            await caller.read_resource(spelled + part)
        assert not await caller.shows(spelled + part)
    assert await caller.shows(f"{BASE}/tables/customers/rows")
    with pytest.raises(ResourceNotFound):
        await caller.directory(spelled)


async def test_rows_can_be_read_without_the_schema(shop: DatabaseSource) -> None:
    caller = Caller(shop, lambda uri: uri.startswith(f"{TABLE}/rows"))
    [rows] = await caller.read_resource(f"{TABLE}/rows")
    assert "sesame" in rows.text
    assert [one.uri for one in await caller.resources()] == [f"{TABLE}/rows"]
