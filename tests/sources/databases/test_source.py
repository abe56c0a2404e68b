"""The databases source over SQLite and DuckDB files: schema, rows, formats, statistics, queries, limits, changes."""

import asyncio
import csv
import io
import json
import sqlite3
import xml.etree.ElementTree as ElementTree
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from carrel import Client, Server
from carrel.errors import ConfigError, InvalidParams, ResourceNotFound, ToolError
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.source import DatabaseSource
from carrel.testing import running
from carrel.testing.caller import Caller, Listener
from support.database_contract import ask
from support.shop_database import statements

BASE = "sqlite:///shop.db"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    execute(path, "PRAGMA journal_mode = WAL", *statements())
    return path


def execute(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def source(path: Path, **options: Any) -> DatabaseSource:
    return DatabaseSource(f"sqlite:///{path}", DatabaseOptions(**{"interval": 0.05, **options}))


@pytest.fixture
async def shop(file: Path) -> AsyncIterator[DatabaseSource]:
    async with running(source(file, query=True)) as found:
        yield found


async def read(source: DatabaseSource, path: str) -> Any:
    """Return what a resource has: JSON decoded, or text."""
    [part] = await Caller(source).read_resource(f"{source.prefixes[0]}/{path}")
    return json.loads(part.text) if part.mime_type == "application/json" else part.text


async def test_the_schema_is_told_in_words_and_as_json(shop: DatabaseSource) -> None:
    text = await read(shop, "schema")
    assert ", 1 view\n" in text
    assert "- id INTEGER, primary key" in text
    assert "- customer_id INTEGER, not null, refers to customers.id" in text
    assert "- primary key: order_id, position" in text
    assert "- index orders_placed (placed)" in text
    assert "CREATE VIEW totals" in text
    tables = {table["id"]: table for table in (await read(shop, "schema?format=json"))["tables"]}
    assert tables["items"]["key"] == ["order_id", "position"]
    assert tables["totals"]["kind"] == "view"


async def test_the_dictionary_has_a_line_for_each_column(shop: DatabaseSource) -> None:
    assert "| customer_id | INTEGER | no | → customers.id |  |  |" in await read(shop, "dictionary")
    rows = list(csv.DictReader(io.StringIO(await read(shop, "dictionary?format=csv"))))
    assert {"table": "items", "column": "order_id", "key": "primary key, → orders.id"}.items() <= rows[4].items()


async def test_the_diagram_is_mermaid_and_svg(shop: DatabaseSource) -> None:
    text = await read(shop, "diagram")
    assert text.startswith("erDiagram\n")
    assert '"customers" ||--o{ "orders" : "customer_id"' in text
    picture = ElementTree.fromstring(await read(shop, "diagram?format=image%2Fsvg%2Bxml"))
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "customers" in {element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")}


async def test_rows_come_as_json_markdown_and_csv(shop: DatabaseSource) -> None:
    row = (await read(shop, "tables/orders/rows/10"))["row"]
    assert row == {"id": 10, "customer_id": 1, "total": 12.5, "placed": "2024-02-29 12:30:00", "note": "a|b"}
    assert "| 11 | 1 | 0.1 | *NULL* |  |" in await read(shop, "tables/orders/rows?format=markdown")
    assert "a\\|b" in await read(shop, "tables/orders/rows?format=text%2Fmarkdown")
    text = await read(shop, "tables/orders/rows?format=csv&columns=id,placed,note")
    assert text == 'id,placed,note\r\n10,2024-02-29 12:30:00,a|b\r\n11,,""\r\n12,,\r\n'
    assert list(csv.reader(io.StringIO(await read(shop, "tables/items/sample?format=csv"))))[2] == [
        "10",
        "2",
        "ink, blue",
    ]


async def test_pages_go_on_after_a_key_of_several_columns(shop: DatabaseSource, file: Path) -> None:
    execute(
        file,
        "CREATE TABLE pairs (a TEXT, b TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID",
        "INSERT INTO pairs VALUES ('x,y', '1'), ('x,y', '2'), ('x\\', '1'), ('%', '?&=')",
    )
    seen, uri = [], f"{BASE}/tables/pairs/rows?limit=1"
    while uri:
        [part] = await Caller(shop).read_resource(uri)
        page = json.loads(part.text)
        seen += [(row["a"], row["b"]) for row in page["rows"]]
        uri = page.get("next", "")
    assert seen == [("%", "?&="), ("x,y", "1"), ("x,y", "2"), ("x\\", "1")]
    assert (await read(shop, "tables/pairs/rows/x%5C%2Cy%2C2"))["row"] == {"a": "x,y", "b": "2"}


async def test_rows_without_a_key_have_a_clear_answer(shop: DatabaseSource) -> None:
    with pytest.raises(InvalidParams, match=r"neither a primary key nor unique columns.*tables/totals/sample"):
        await read(shop, "tables/totals/rows")
    assert len((await read(shop, "tables/totals/sample"))["rows"]) == 2


async def test_statistics_count_values_nulls_and_different_ones(shop: DatabaseSource) -> None:
    answer = await read(shop, "tables/orders/statistics")
    assert (answer["rows_counted"], answer["complete"]) == (3, True)
    [placed] = [row for row in answer["rows"] if row["column"] == "placed"]
    assert (placed["values"], placed["nulls"], placed["different"]) == (1, 2, 1)


async def test_the_statistics_of_the_database_have_a_row_per_table(shop: DatabaseSource) -> None:
    assert "| orders | table | 3 | exact | 5 | id | customers | 1 |" in await read(shop, "statistics")
    rows = {row["table"]: row for row in (await read(shop, "statistics?format=json"))["rows"]}
    assert rows["items"]["key"] == "order_id, position"
    assert rows["totals"]["rows"] is None, "counting a view may take long"


async def test_a_long_table_is_counted_up_to_a_limit(shop: DatabaseSource, file: Path) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001) SELECT i FROM n"
    execute(file, f"CREATE TABLE long AS {numbers}")
    rows = {row["table"]: row for row in (await read(shop, "statistics?format=json"))["rows"]}
    assert (rows["long"]["rows"], rows["long"]["accuracy"]) == (10_000, "at least")


async def test_the_list_has_the_schema_and_rows_of_each_table_up_to_a_limit(shop: DatabaseSource, file: Path) -> None:
    listed = [resource.uri.removeprefix(f"{BASE}/") for resource in await Caller(shop).resources()]
    assert listed[:5] == ["diagram", "dictionary", "schema", "statistics", "tables"]
    assert listed[5:7] == ["tables/customers/rows", "tables/customers/schema"]
    assert "tables/totals/sample" in listed
    execute(file, *(f"CREATE TABLE many_{number:03} (id INTEGER PRIMARY KEY)" for number in range(500)))
    assert len(await Caller(shop).resources()) == 5 + 2 * 500
    assert len(await Caller(shop).directory(f"{BASE}/tables")) == 505


async def test_values_that_sqlite_keeps_against_the_type_are_kept(shop: DatabaseSource, file: Path) -> None:
    execute(
        file,
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, any)",
        "INSERT INTO odd VALUES (1, x'00ff'), (2, 9007199254740993), (3, CAST(x'ff41' AS TEXT)), (4, 9e999), (5, 'é')",
    )
    rows = (await read(shop, "tables/odd/rows"))["rows"]
    assert [row["any"] for row in rows] == [
        {"base64": "AP8=", "bytes": 2},
        "9007199254740993",
        {"base64": "/0E=", "bytes": 2},
        "inf",
        "é",
    ]


async def test_completion_knows_tables_keys_columns_and_formats(shop: DatabaseSource) -> None:
    row = f"{BASE}/tables/{{table}}/rows/{{key}}{{?columns,format}}"

    async def suggested(variable: str, typed: str) -> list[str]:
        found = await shop.complete(*completion(row, variable, typed))
        return list(found.values)

    assert await suggested("table", "Or") == ["orders"]
    assert await suggested("key", "1") == ["10", "11", "12"]
    assert await suggested("columns", "id,to") == ["id,total"]
    assert await suggested("format", "") == ["json", "markdown", "csv"]
    assert "totals" not in await suggested("table", ""), "it has no key"


def completion(template: str, variable: str, typed: str) -> Any:
    from carrel.catalog.provider import Request
    from carrel.wire.completion import ResourceTemplateReference

    return ResourceTemplateReference(template), variable, typed, {"table": "orders"}, Request()


async def test_search_finds_columns_and_names(shop: DatabaseSource) -> None:
    hits = await Caller(shop).search("customer")
    assert [hit.resource.uri.split("/")[-2] for hit in hits] == ["customers", "orders", "totals"]


async def test_named_queries_have_parameters_that_are_never_sql(file: Path) -> None:
    queries = {
        "by_name": "-- A customer\nSELECT id FROM customers WHERE name = :name",
        "all": "SELECT count(*) AS n FROM orders",
    }
    async with running(source(file, queries=queries)) as found:
        assert (await read(found, "queries/all"))["rows"] == [{"n": 3}]
        assert (await read(found, "queries/by_name?name=Ann"))["rows"] == [{"id": 1}]
        assert (await read(found, "queries/by_name?name=x%27%20OR%20%271%27%3D%271"))["rows"] == []
        with pytest.raises(InvalidParams, match="needs name"):
            await read(found, "queries/by_name")
        with pytest.raises(ResourceNotFound):
            await read(found, "queries/none")
        listed = [resource.uri for resource in await Caller(found).resources()]
        assert f"{BASE}/queries/all" in listed
        assert f"{BASE}/queries/by_name" not in listed
    with pytest.raises(ConfigError, match="bad: only queries are allowed"):
        async with running(source(file, queries={"bad": "DELETE FROM orders"})):
            pass


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT custmer_id FROM orders", "no such column: custmer_id; did you mean 'customer_id'"),
        ("SELECT * FROM ordrs WHERE id = :id", "no such table: ordrs; did you mean 'orders'"),
        ("SELECT load_extension('x')", "function load_extension is not allowed"),
    ],
)
async def test_named_queries_are_checked_against_the_database_at_the_start(file: Path, sql: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"queries: bad: .*{reason}"):
        async with running(source(file, queries={"good": "SELECT 1", "bad": sql})):
            pass


async def test_two_files_of_one_name_are_told_how_to_have_two(file: Path) -> None:
    other = file.parent / "other" / file.name
    other.parent.mkdir()
    other.write_bytes(file.read_bytes())
    app = Server("shops")
    app.add_provider(source(file))
    app.add_provider(source(other))
    with pytest.raises(ConfigError, match=r"There is a provider sqlite:///shop\.db already: .* with the option alias"):
        async with Client(app):
            pass


async def test_the_query_tool_is_off_until_it_is_switched_on(file: Path) -> None:
    async with running(source(file)) as found:
        assert await Caller(found).tools() == []
        with pytest.raises(InvalidParams):
            await ask(found, "query_shop", {"sql": "SELECT 1"})


async def test_the_query_tool_answers_in_the_format_that_is_asked_for(shop: DatabaseSource) -> None:
    sql = "SELECT name, '100%:x' AS \"a:b\" FROM customers -- all\nORDER BY id"
    result = await ask(shop, "query_shop", {"sql": sql, "limit": 1, "format": "json"})
    assert json.loads(result.text) == {
        "more": True,
        "columns": [{"name": "name"}, {"name": "a:b"}],
        "rows": [{"name": "Ann", "a:b": "100%:x"}],
    }
    result = await ask(shop, "query_shop", {"sql": sql, "limit": 1})
    assert result.text == "| name | a:b |\n| --- | --- |\n| Ann | 100%:x |\n\nThere are more rows.\n"


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


async def test_the_time_limit_ends_a_statement(file: Path) -> None:
    async with running(source(file, query=True, time_limit=1)) as found:
        with pytest.raises(ToolError, match=r"longer than 1 seconds"):
            await ask(found, "query_shop", {"sql": ENDLESS})


async def test_a_cancelled_request_ends_its_statement(file: Path) -> None:
    async with running(source(file, query=True, time_limit=60, connections=1)) as found:
        call = asyncio.create_task(ask(found, "query_shop", {"sql": ENDLESS}))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(60):  # the only connection is free again
            assert await read(found, "tables/orders/rows/10")


async def test_rows_and_bytes_are_limited(file: Path) -> None:
    async with running(source(file, query=True, max_rows=2, max_bytes=1000)) as found:
        with pytest.raises(InvalidParams, match="from 1 to 2"):
            await read(found, "tables/orders/rows?limit=3")
        page = await read(found, "tables/orders/rows")
        assert len(page["rows"]) == 2
        assert page["next"] == f"{BASE}/tables/orders/rows?after=11"
        with pytest.raises(ToolError, match="over the limit of 1,000 bytes"):
            await ask(found, "query_shop", {"sql": "SELECT hex(zeroblob(1000))"})
        with pytest.raises(ToolError, match="too big"):
            await ask(found, "query_shop", {"sql": "SELECT length(zeroblob(900000000))"})


async def test_rows_that_another_process_writes_are_noticed(shop: DatabaseSource, file: Path) -> None:
    async with Listener(shop) as listener:
        execute(file, "UPDATE orders SET note = 'new' WHERE id = 10")
        await listener.hear(f"{BASE}/tables/orders/rows", "changed")
        execute(file, "ALTER TABLE orders ADD COLUMN more TEXT")
        await listener.hear(f"{BASE}/tables/orders/schema", "changed")
        await listener.hear(f"{BASE}/schema", "changed")


async def test_names_that_need_quotes_are_read(shop: DatabaseSource, file: Path) -> None:
    execute(
        file,
        'CREATE TABLE "a.b/c "" d:e" ("x y" INTEGER PRIMARY KEY, "select" TEXT, "%" TEXT)',
        "INSERT INTO \"a.b/c \"\" d:e\" VALUES (1, 's', 'p')",
    )
    entries = [entry.name for entry in await Caller(shop).directory(f"{BASE}/tables")]
    assert '"a.b/c "" d:e"' in entries
    [uri] = [entry.uri for entry in await Caller(shop).directory(f"{BASE}/tables") if "a.b" in entry.name]
    [part] = await Caller(shop).read_resource(f"{uri}/rows/1")
    assert json.loads(part.text)["row"] == {"x y": 1, "select": "s", "%": "p"}


async def test_names_of_tables_and_columns_are_text_in_the_picture(shop: DatabaseSource, file: Path) -> None:
    bad = "</text><script href='x'>alert(1)</script>"
    execute(file, f"""CREATE TABLE "{bad}" ("' onload='x" INTEGER PRIMARY KEY, "&x;\x1b]" TEXT REFERENCES "{bad}")""")
    svg = await read(shop, "diagram?format=image%2Fsvg%2Bxml")
    elements = list(ElementTree.fromstring(svg).iter())
    assert {element.tag.rpartition("}")[2] for element in elements} == {"svg", "rect", "text", "path"}
    assert not [name for element in elements for name in element.attrib if name.startswith("on") or "href" in name]
    assert "\x1b" not in svg


async def test_a_file_that_is_missing_or_is_no_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is text, " * 100)
    for name, reason in (("text.db", "not a SQLite database"), ("missing.db", "there is no file")):
        with pytest.raises(ConfigError, match=reason):
            async with running(source(tmp_path / name)):
                pass
        with pytest.raises(ConfigError):
            async with running(DatabaseSource(f"duckdb:///{tmp_path}/{name}")):
                pass


async def test_values_of_duckdb_are_kept(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "kinds.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE kinds (id BIGINT PRIMARY KEY, huge HUGEINT, amount DECIMAL(38, 10), born DATE, span INTERVAL,"
            " raw BLOB, list INTEGER[], both_of STRUCT(a INTEGER, b VARCHAR), named MAP(VARCHAR, INTEGER),"
            " fine TIMESTAMP_NS,"
            " key UUID)"
        )
        connection.execute("COMMENT ON COLUMN kinds.amount IS 'In euros'")
        connection.execute(
            "INSERT INTO kinds VALUES (1, 170141183460469231731687303715884105727, 1.5, 'infinity',"
            " INTERVAL '1 month 2 days', '\\x00\\xFF'::BLOB, [1, NULL], {'a': 1, 'b': 'x'}, MAP {'k': 1},"
            " '2024-02-29 12:30:00.123456789',"
            " '6f1c5b1e-0000-4000-8000-000000000001')"
        )
    async with running(DatabaseSource(f"duckdb:///{tmp_path}/kinds.duckdb")) as found:
        row = (await read(found, "tables/kinds/rows/1"))["row"]
        assert "- amount DECIMAL(38,10): In euros" in await read(found, "tables/kinds/schema")
    assert row == {
        "id": 1,
        "huge": "170141183460469231731687303715884105727",
        "amount": "1.5000000000",
        "born": "infinity",
        "span": "1 month 2 days",
        "raw": {"base64": "AP8=", "bytes": 2},
        "list": [1, None],
        "both_of": "{'a': 1, 'b': x}",
        "named": "{k=1}",
        "fine": "2024-02-29 12:30:00.123456789",
        "key": "6f1c5b1e-0000-4000-8000-000000000001",
    }


async def test_duckdb_ends_statements_at_the_limit_and_when_they_are_cancelled(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE many AS SELECT * FROM range(100000)")
    slow = "SELECT count(*) FROM many a, many b, many c WHERE a.range + b.range + c.range = 7"
    url = f"duckdb:///{tmp_path}/shop.duckdb"
    async with running(DatabaseSource(url, DatabaseOptions(query=True, time_limit=1, connections=1))) as found:
        with pytest.raises(ToolError, match=r"longer than 1 seconds"):
            await ask(found, "query_shop", {"sql": slow})
    async with running(DatabaseSource(url, DatabaseOptions(query=True, time_limit=60, connections=1))) as found:
        call = asyncio.create_task(ask(found, "query_shop", {"sql": slow}))
        await asyncio.sleep(0.2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(60):
            assert await read(found, "tables/many/sample?limit=1")


async def test_an_error_of_the_database_is_told_without_the_statement(shop: DatabaseSource) -> None:
    with pytest.raises(ToolError, match=r"^The database reported: no such column: absent$"):
        await ask(shop, "query_shop", {"sql": "SELECT absent FROM orders"})


async def test_a_view_that_refers_to_what_is_gone_hides_nothing_else(file: Path) -> None:
    execute(file, "CREATE TABLE gone (id INTEGER)", "CREATE VIEW broken AS SELECT * FROM gone", "DROP TABLE gone")
    async with running(source(file)) as found:
        assert "## orders" in await read(found, "schema")
        assert "## broken" not in await read(found, "schema")
