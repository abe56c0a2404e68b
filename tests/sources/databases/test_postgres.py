"""The databases source over a PostgreSQL server: the contract, limits, cancellation, roles, notifications."""

import asyncio
import json
import resource
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from carrel.catalog.provider import Interest
from carrel.errors import ConfigError, ResourceError, SourceUnavailable, ToolError
from carrel.sources.databases.failure import DatabaseFailed
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.source import DatabaseSource
from carrel.sources.databases.watch import DatabaseWatch, trigger_sql
from carrel.testing import running
from carrel.testing.caller import Caller, Listener
from support import database_queries
from support.carrel_process import command
from support.contract_choice import DRIVER
from support.database_attacks import CASTS, EVERYWHERE, POSTGRES, POSTGRES_CASTS, POSTGRES_MADE
from support.database_contract import QUERIES, Attacks, DriverContract, ask
from support.database_servers import PostgresClient, postgres
from support.sdk_session import sdk_session
from support.shop_database import statements

pytestmark = pytest.mark.slow

LIMITS: dict[str, Any] = {"exclude_tables": ("secrets", "SALES.*"), "interval": 0.05, "max_bytes": 20_000}


#: Servers whose database a test has written to: the next one has it made anew.
WRITTEN: set[Path] = set()


#: The server's own client, for each server.
CLIENTS: dict[Path, PostgresClient] = {}


@pytest.fixture(scope="module")
def server() -> Iterator[Path]:
    with postgres() as path, PostgresClient(path) as CLIENTS[path]:
        psql(path, "CREATE DATABASE template_shop", database="postgres")
        psql(path, *statements(), database="template_shop")
        WRITTEN.add(path)
        yield path


def psql(server: Path, *statements: str, database: str = "shop") -> str:
    """Run statements with the server's own client, and return what it prints."""
    WRITTEN.add(server)
    return CLIENTS[server].run(database, *statements)


@pytest.fixture
def shop(server: Path) -> Path:
    if server in WRITTEN:
        make = "CREATE DATABASE shop TEMPLATE template_shop STRATEGY wal_log"
        psql(server, "DROP DATABASE IF EXISTS shop WITH (FORCE)", make, database="postgres")
        WRITTEN.discard(server)
    return server


def source(server: Path, user: str = "postgres", **options: Any) -> DatabaseSource:
    return DatabaseSource(f"postgresql://{user}@/shop?host={server}", DatabaseOptions(**{**LIMITS, **options}))


class TestPostgres(DriverContract):
    ordinary = DRIVER
    base = "postgres://localhost/shop"

    @pytest.fixture
    def provider(self, shop: Path) -> DatabaseSource:
        self.server = shop
        return self.make(query=True, queries=QUERIES)

    def make(self, **options: Any) -> DatabaseSource:
        return source(self.server, **options)

    def execute(self, *statements: str) -> None:
        psql(self.server, *statements)


HARMFUL = """
CREATE FUNCTION harmful() RETURNS integer LANGUAGE sql AS 'DELETE FROM public.customers; SELECT 1'
"""


AREA = "CREATE FUNCTION geo.area(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1 * $1'"


class TestAttacks(Attacks):
    @pytest.fixture
    async def attacked(self, shop: Path) -> AsyncIterator[DatabaseSource]:
        psql(shop, HARMFUL, "CREATE SEQUENCE counter", POSTGRES_MADE)
        async with running(source(shop, query=True)) as found:  # a superuser, who may do everything else
            yield found

    async def test_every_attack_is_refused(self, attacked: DatabaseSource) -> None:
        await self.refuse_all(attacked, EVERYWHERE + POSTGRES)
        await self.check_shop(attacked)

    async def test_names_are_read_as_postgres_reads_them(self, attacked: DatabaseSource) -> None:
        queries = ["SELECT C.NAME, (c).Email, Customers.EMAIL, UPPER(c.Name) FROM Customers, customers AS C"]
        await self.accept_all(attacked, [*queries, 'SELECT \'1 + 1\', "a + b" FROM (SELECT 1 AS "a + b") AS x'])

    async def test_casts_that_users_have_made_are_refused(self, shop: Path) -> None:
        psql(shop, POSTGRES_CASTS)
        async with running(source(shop, query=True)) as found:
            await self.refuse_all(found, CASTS)
            with pytest.raises(ToolError, match=r"public\.peek_(row|number) .*allow_functions"):
                await ask(found, "query_shop", {"sql": CASTS[0]})
            await self.accept_all(found, ["SELECT total::text FROM orders"])
        async with running(source(shop, query=True, allow_functions=("peek_*",))) as found:
            await self.accept_all(found, CASTS)
        psql(shop, "CREATE VIEW rows_of_customers AS SELECT c FROM customers AS c")
        async with running(source(shop, query=True)) as found:
            await self.refuse_all(found, ["SELECT v.c::text FROM rows_of_customers AS v"])

    async def test_ordinary_queries_run(self, shop: Path) -> None:
        async with running(source(shop, query=True)) as found:
            await self.accept_all(found, database_queries.EVERYWHERE + database_queries.POSTGRES)

    async def test_the_operator_can_allow_functions_and_types(self, shop: Path) -> None:
        psql(shop, "CREATE EXTENSION pg_trgm", "CREATE TYPE mood AS ENUM ('fine')", "CREATE SCHEMA geo", AREA)
        statements = ["SELECT similarity('a', 'a')", "SELECT public.similarity('a', 'a')", "SELECT geo.area(1)"]
        statements.append("SELECT 'fine'::mood")
        async with running(source(shop, query=True)) as found:
            await self.refuse_all(found, statements)
            await self.accept_all(found, ["SELECT 'carrel' % 'barrel'"])
        async with running(source(shop, query=True, allow_functions=("similarity", "geo.*", "mood"))) as found:
            await self.accept_all(found, statements)

    async def test_postgres_itself_refuses_to_write(self, attacked: DatabaseSource) -> None:
        await self.write_past_the_check(attacked)
        for sql in ("SELECT harmful()", "SELECT nextval('counter')"):
            with pytest.raises(DatabaseFailed, match="read-only transaction"):
                await attacked._reader.database.run("", lambda connection, sql=sql: connection.exec_driver_sql(sql))
        await self.check_shop(attacked)


async def read(source: DatabaseSource, path: str) -> Any:
    """Return what a resource has: JSON decoded, or text."""
    [part] = await Caller(source).read_resource(f"{source.prefixes[0]}/{path}")
    return json.loads(part.text) if part.mime_type == "application/json" else part.text


TYPES = """
CREATE EXTENSION IF NOT EXISTS hstore; CREATE TYPE mood AS ENUM ('sad', 'fine'); CREATE TYPE pair AS (a int, b text);
CREATE TABLE kinds (
    id uuid PRIMARY KEY, amount numeric, big bigint, born date, seen timestamptz, span interval, raw bytea, doc jsonb,
    tags text[], grid integer[][], mood mood, both_of pair, address inet, place point, during tstzrange, ratio real,
    bits bit(3), extra hstore, far date, wild double precision
);
COMMENT ON TABLE kinds IS 'One of each'; COMMENT ON COLUMN kinds.amount IS 'In euros';
INSERT INTO kinds VALUES (
    '6f1c5b1e-0000-4000-8000-000000000001', 12345678901234567890.123456789, 9007199254740993, '2024-02-29',
    '2024-02-29 12:30:00+02', '1 mon 2 days', '\\x00ff', '{"n": 1.10, "huge": 123456789012345678901}', '{a,NULL,"b,c"}',
    '{{1,2},{3,4}}', 'fine', '(1,x)', '10.0.0.1/8', '(1.5,2)', '[2024-01-01 00:00+00,2024-02-01 00:00+00)', 0.1,
    '101', 'k=>v', 'infinity', 'NaN'
);
"""


async def test_values_of_every_type_are_kept(shop: Path) -> None:
    psql(shop, TYPES, "ALTER DATABASE shop SET timezone = 'UTC'")
    async with running(source(shop)) as found:
        row = (await read(found, "tables/kinds/rows/6f1c5b1e-0000-4000-8000-000000000001"))["row"]
        [part] = await Caller(found).read_resource("postgres://localhost/shop/tables/kinds/rows")
        text = await read(found, "tables/kinds/schema")
    assert row == {
        "id": "6f1c5b1e-0000-4000-8000-000000000001",
        "amount": "12345678901234567890.123456789",
        "big": "9007199254740993",
        "born": "2024-02-29",
        "seen": "2024-02-29 10:30:00+00",
        "span": "1 mon 2 days",
        "raw": {"base64": "AP8=", "bytes": 2},
        "doc": {"n": 1.10, "huge": 123456789012345678901},
        "tags": ["a", None, "b,c"],
        "grid": [[1, 2], [3, 4]],
        "mood": "fine",
        "both_of": "(1,x)",
        "address": "10.0.0.1/8",
        "place": "(1.5,2)",
        "during": '["2024-01-01 00:00:00+00","2024-02-01 00:00:00+00")',
        "ratio": "0.1",
        "bits": "101",
        "extra": '"k"=>"v"',
        "far": "infinity",
        "wild": "nan",
    }
    assert '"n": 1.10' in part.text, "the digits of JSON are those of the database"
    assert "## kinds (table): One of each" in text
    assert "- amount numeric: In euros" in text


async def test_a_huge_value_takes_no_memory_of_the_server_process(shop: Path) -> None:
    sql = "SELECT array_fill(1, ARRAY[2000000])"
    async with running(source(shop, query=True)) as found:
        assert (await ask(found, "query_shop", {"sql": "SELECT 1"})).text
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(ToolError, match=r"over the limit|more memory|longer than"):
            await ask(found, "query_shop", {"sql": sql})
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024  # KiB
        psql(shop, f"CREATE VIEW huge AS {sql} AS everything")
        found._reader.cache.forget()
        with pytest.raises(ResourceError, match=r"over the limit|more memory|longer than"):
            await read(found, "tables/huge/sample")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024
        assert (await ask(found, "query_shop", {"sql": "SELECT 1"})).text


async def test_the_database_ends_a_statement_at_the_time_limit(shop: Path) -> None:
    async with running(source(shop, query=True, time_limit=1, queries={"slow": SLOW}, **SLEEP)) as found:
        with pytest.raises(ToolError, match=r"longer than 1 second"):
            await ask(found, "query_shop", {"sql": SLOW})
        with pytest.raises(ResourceError, match=r"longer than 1 second"):
            await read(found, "queries/slow")


async def test_the_server_cancels_the_statement_of_a_cancelled_request(shop: Path) -> None:
    async with running(source(shop, query=True, time_limit=60, **SLEEP)) as found:
        call = asyncio.create_task(ask(found, "query_shop", {"sql": SLOW}))
        await until(lambda: count_running(shop) == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: count_running(shop) == 0)
        assert await read(found, "tables/orders/rows?limit=1")


SLOW = "SELECT pg_sleep(1000000000)"
SLEEP: dict[str, Any] = {"allow_functions": ("pg_sleep",)}


def count_running(server: Path) -> int:
    return int(
        psql(
            server,
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%1000000000%' "
            "AND pid <> pg_backend_pid()",
        )
    )


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the server tells only when it is asked."""
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


async def test_notifications_of_triggers_are_changes(shop: Path) -> None:
    psql(shop, trigger_sql("carrel", [("public", "orders")]))
    async with running(source(shop, notify="carrel", interval=30)) as found, Listener(found) as listener:
        psql(shop, "UPDATE orders SET note = 'new' WHERE id = 10")
        await listener.hear("postgres://localhost/shop/tables/orders/rows", "changed")
        psql(shop, "SELECT pg_notify('carrel', '')")
        await listener.hear("postgres://localhost/shop/tables/customers/rows", "changed")


PARTITIONED = """
CREATE SCHEMA "odd, one"; CREATE TABLE "odd, one"."x: INSERT:" (id integer PRIMARY KEY);
CREATE TABLE visits (day date PRIMARY KEY) PARTITION BY RANGE (day);
CREATE TABLE visits_2024 PARTITION OF visits FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')
"""


async def test_logical_decoding_tells_which_tables_have_changed(shop: Path) -> None:
    psql(shop, PARTITIONED)
    base = "postgres://localhost/shop/tables"
    options = {"logical_decoding": True, "interval": 0.05}
    async with running(source(shop, **options)) as found, Listener(found) as listener:
        assert psql(shop, "SELECT temporary FROM pg_replication_slots") == "t\n"
        psql(shop, "UPDATE secrets SET word = 'x'", "UPDATE orders SET note = 'it''s: DELETE:' WHERE id = 10")
        await listener.hear(f"{base}/orders/rows", "changed")
        psql(shop, "INSERT INTO visits VALUES ('2024-02-29')", 'INSERT INTO "odd, one"."x: INSERT:" VALUES (1)')
        await listener.hear(f"{base}/visits/rows", "changed")
        await listener.hear(f"{base}/odd%2C%20one.x%3A%20INSERT%3A/rows", "changed")
        psql(shop, 'TRUNCATE items, "odd, one"."x: INSERT:"')
        await listener.hear(f"{base}/items/rows", "changed")
        assert not [change for change in listener.heard if "customers" in change.uri], "not all tables"
    await until(lambda: psql(shop, "SELECT count(*) FROM pg_replication_slots") == "0\n")


async def test_logical_decoding_needs_a_right(shop: Path) -> None:
    psql(shop, "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN", "GRANT SELECT ON customers TO reader")
    with pytest.raises(ConfigError, match="logical_decoding needs an account with the right REPLICATION"):
        async with running(source(shop, "reader", logical_decoding=True)):
            pass
    psql(shop, "ALTER ROLE reader REPLICATION")
    reader = source(shop, "reader", logical_decoding=True, interval=0.05)
    async with running(reader), Listener(reader) as listener:
        psql(shop, "UPDATE customers SET name = 'Anne' WHERE id = 1")
        await listener.hear("postgres://localhost/shop/tables/customers/rows", "changed")
    psql(shop, "DROP OWNED BY reader", "DROP ROLE reader")
    with pytest.raises(ConfigError, match="in place of notify"):
        source(shop, logical_decoding=True, notify="carrel")


async def test_a_role_that_may_only_read_is_taken_on(shop: Path, caplog: pytest.LogCaptureFixture) -> None:
    psql(shop, "DROP ROLE IF EXISTS reader", "CREATE ROLE reader", "GRANT SELECT ON customers TO reader")
    with pytest.raises(ConfigError, match="may write"):
        async with running(source(shop, strict_role=True)):
            pass
    async with running(source(shop, role="reader", strict_role=True, query=True)) as found:
        assert [item.uri for item in await Caller(found).resources() if "/tables/" in item.uri] == [
            "postgres://localhost/shop/tables/customers/rows",
            "postgres://localhost/shop/tables/customers/schema",
        ], "what the role may not read is not listed"
        with pytest.raises(ToolError):
            await ask(found, "query_shop", {"sql": "SELECT * FROM orders"})
    psql(shop, "REVOKE ALL ON customers FROM reader", "DROP ROLE reader")


async def test_passwords_are_in_nothing_that_is_answered_or_logged(
    shop: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("DEBUG", "carrel")
    psql(
        shop,
        "DROP ROLE IF EXISTS locked",
        "CREATE ROLE locked LOGIN PASSWORD 'pa55word'",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO locked",
    )
    url = f"postgresql://locked:pa55word@/shop?host={shop}"
    async with running(DatabaseSource(url, DatabaseOptions(query=True))) as found:
        seen = repr(found) + repr(await Caller(found).resources()) + repr(await Caller(found).templates())
        for sql in ("SELECT nothing", "SELECT * FROM nothing", "SELECT 1/0"):
            with pytest.raises(ToolError) as raised:
                await ask(found, "query_shop", {"sql": sql})
            seen += str(raised.value)
    (tmp_path / "pgpass").write_text("*:*:shop:locked:pa55word\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    async with running(DatabaseSource(f"postgresql://locked@/shop?host={shop}")) as found:
        assert await read(found, "tables/orders/rows")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    for url, options in (
        (f"postgresql://locked:wr0ng@/shop?host={shop}", {}),
        (f"postgresql://locked@/shop?host={shop}", {"password": "wr0ng"}),
    ):
        with pytest.raises(ConfigError) as refused:
            async with running(DatabaseSource(url, DatabaseOptions(**options))):
                pass
        seen += str(refused.value)
    seen += caplog.text
    assert "pa55word" not in seen
    assert "wr0ng" not in seen
    assert "locked" not in seen
    psql(shop, "DROP OWNED BY locked", "DROP ROLE locked")


@pytest.mark.parametrize(
    ("user", "options", "words"),
    [
        ("locked:wr0ng@/shop", {}, "the server rejected the login"),
        ("nobody-knows@/shop", {}, "the server has no such role"),
        ("postgres@/shop", {"role": "nobody_knows"}, "the server has no such role"),
        ("postgres@/nothing", {}, "the server has no database of that name"),
    ],
)
async def test_a_start_that_fails_says_what_is_wrong(
    shop: Path, user: str, options: dict[str, Any], words: str
) -> None:
    psql(shop, "DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN PASSWORD 'pa55word'")
    found = DatabaseSource(f"postgresql://{user}?host={shop}", DatabaseOptions(**options))
    with pytest.raises(SourceUnavailable, match=words) as raised:
        async with running(found):
            pass
    assert not raised.value.is_down
    psql(shop, "DROP ROLE locked")


async def test_parameters_of_a_named_query_are_values_of_their_types(shop: Path) -> None:
    text = "-- Orders of a customer\nSELECT id, total FROM orders WHERE customer_id = :customer AND placed > :since"
    async with running(source(shop, queries={"orders_of": text})) as found:
        answer = await read(found, "queries/orders_of?customer=1&since=2024-01-01")
        assert answer["rows"] == [{"id": 10, "total": "12.50"}]
        with pytest.raises(ResourceError, match="invalid input syntax"):
            await read(found, "queries/orders_of?customer=1%20OR%201%3D1&since=2024-01-01")
        [template] = [item for item in await Caller(found).templates() if "orders_of" in item.uri_template]
        assert template.description == "Orders of a customer"


def test_the_official_client_reads_a_schema_by_host_and_database(server: Path) -> None:
    psql(server, "CREATE DATABASE customers TEMPLATE template_shop", database="postgres")
    url = f"postgres://postgres@db.example.com/customers?host={server}"
    with sdk_session(*command("serve", url)) as client:
        listed = {resource["uri"]: resource for resource in client.call("list_resources")["resources"]}
        assert listed["postgres://db.example.com/customers/schema"]["mimeType"] == "text/markdown"
        [part] = client.call("read_resource", "postgres://db.example.com/customers/schema")["contents"]
        assert part["uri"] == "postgres://db.example.com/customers/schema"
        assert "- customer_id integer, not null, refers to customers.id" in part["text"]
        [part] = client.call("read_resource", "postgres://db.example.com/customers/dictionary")["contents"]
        assert "| customer_id | integer | no | → customers.id |  |  |" in part["text"]
        [part] = client.call("read_resource", "postgres://db.example.com/customers/statistics")["contents"]
        assert "| orders | table | 3 | exact | 5 | id | customers | 1 |" in part["text"]


async def test_named_queries_are_checked_at_the_start(shop: Path) -> None:
    sql = "SELECT id FROM orders WHERE custmer_id = :customer"
    with pytest.raises(ConfigError, match=r"queries: bad: column \"custmer_id\" .* did you mean 'customer_id'"):
        async with running(source(shop, queries={"bad": sql})):
            pass


async def test_pages_of_rows_follow_the_order_of_the_key(shop: Path) -> None:
    async with running(source(shop)) as found:
        first = await read(found, "tables/items/rows?limit=2")
        assert [(row["order_id"], row["position"]) for row in first["rows"]] == [(10, 1), (10, 2)]
        psql(shop, "INSERT INTO items VALUES (10, 3, 'new'), (10, 0, 'before')")
        [rest] = await Caller(found).read_resource(first["next"])
        assert [(row["order_id"], row["position"]) for row in json.loads(rest.text)["rows"]] == [(10, 3), (11, 1)]


async def test_tables_without_a_trigger_are_named_at_the_start_and_polled(
    shop: Path, caplog: pytest.LogCaptureFixture
) -> None:
    psql(shop, trigger_sql("carrel", [("public", "orders")]), trigger_sql_of_inserts("customers"))
    rows = "postgres://localhost/shop/tables/{}/rows"
    async with running(source(shop, notify="carrel")) as found, Listener(found) as listener:
        assert "2 tables do not notify of changed rows (customers, items)" in caplog.text
        psql(shop, "INSERT INTO items VALUES (11, 7, 'stamp')")
        await listener.hear(rows.format("items"), "changed")
        psql(shop, "UPDATE customers SET name = 'Anne' WHERE id = 1")
        await listener.hear(rows.format("customers"), "changed")
        psql(shop, "UPDATE orders SET note = 'new' WHERE id = 10")
        await listener.hear(rows.format("orders"), "changed")
    caplog.clear()
    every = trigger_sql("carrel", [("public", "items"), ("public", "customers")]).partition("$$;\n")[2]
    psql(shop, *every.strip().splitlines())
    async with running(source(shop, notify="carrel")):
        assert "do not notify" not in caplog.text


def trigger_sql_of_inserts(table: str) -> str:
    """Return the SQL of a trigger that does not tell of all changes."""
    return f"CREATE TRIGGER inserts AFTER INSERT ON {table} FOR EACH STATEMENT EXECUTE FUNCTION carrel_notify()"


async def test_a_poll_without_changes_fetches_two_rows_however_many_tables_there_are(shop: Path) -> None:
    psql(shop, "".join(f"CREATE TABLE many_{number} (id integer PRIMARY KEY);" for number in range(200)))
    async with running(source(shop)) as found:
        watch = DatabaseWatch(found._reader, Interest())
        first = await watch.look()
        rows = await counted_rows(found, watch.look)
        assert await watch.look() is first, "nothing is compared"
        assert rows == 2, "one of the system catalog, one of the counters"
        psql(shop, "INSERT INTO many_7 VALUES (1)")
        async with asyncio.timeout(60):
            while (now := await watch.look()) is first:
                await asyncio.sleep(0.02)  # the server counts a little later
        assert {uri.rpartition("/tables/")[2] for uri in now if now[uri] != first[uri]} >= {"many_7/rows"}
        other = "postgres://localhost/shop/tables/many_8/rows"
        assert now[other] == first[other]


async def counted_rows(found: DatabaseSource, work: Callable[[], Any]) -> int:
    """Return how many rows the statements of some work fetch."""
    counts: list[int] = []
    engine = found._reader.database._engine.sync_engine

    def count(connection: Any, cursor: Any, *_: Any) -> None:
        counts.append(cursor.rowcount)

    event.listen(engine, "after_cursor_execute", count)
    try:
        await work()
    finally:
        event.remove(engine, "after_cursor_execute", count)
    return sum(counts)


async def test_a_partition_that_changes_changes_the_partitioned_table(shop: Path) -> None:
    psql(shop, PARTITIONED)
    async with running(source(shop)) as found, Listener(found) as listener:
        psql(shop, "INSERT INTO visits VALUES ('2024-02-29')")
        await listener.hear("postgres://localhost/shop/tables/visits/rows", "changed")
        listed = [item.uri for item in await Caller(found).resources()]
        inside = [item.uri for item in await Caller(found).directory("postgres://localhost/shop/tables/visits")]
        shown = await read(found, "schema")
        assert await read(found, "tables/visits_2024/rows")
    partition = "postgres://localhost/shop/tables/visits_2024"
    assert not [uri for uri in listed if uri.startswith(partition)]
    assert partition in inside
    assert "partitions: visits_2024" in shown
    assert "## visits_2024" not in shown
