"""The databases source over a MariaDB server: the contract, limits, cancellation, rights."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from carrel.errors import ConfigError, SourceUnavailable, ToolError
from carrel.sources.databases.failure import DatabaseFailed
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.source import DatabaseSource
from carrel.sources.databases.statements import check_statement
from carrel.testing import running
from carrel.testing.caller import Caller
from support import database_queries
from support.contract_choice import DRIVER
from support.database_attacks import EVERYWHERE, EXECUTED_COMMENTS, MYSQL, MYSQL_MADE
from support.database_contract import QUERIES, Attacks, DriverContract, ask
from support.database_servers import mariadb
from support.shop_database import statements

pytestmark = pytest.mark.slow

LIMITS: dict[str, Any] = {"exclude_tables": ("secrets",), "interval": 0.05, "max_bytes": 20_000}


#: Servers whose database a test has written to: the next one has it made anew.
WRITTEN: set[Path] = set()


@pytest.fixture(scope="module")
def server() -> Iterator[Path]:
    with mariadb() as path:
        WRITTEN.add(path)
        yield path


def execute(server: Path, *statements: str, database: str | None = "shop") -> list[Any]:
    """Run statements as the administrator, and return the rows of the last one."""
    WRITTEN.add(server)
    connection = pymysql.connect(
        unix_socket=str(server / "socket"), user="root", database=database, autocommit=True, ssl_disabled=True
    )
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.fixture
def shop(server: Path) -> Path:
    if server in WRITTEN:
        make = "CREATE OR REPLACE DATABASE shop CHARACTER SET utf8mb4"
        execute(server, "SET foreign_key_checks = 0", make, database=None)
        execute(server, *statements())
        WRITTEN.discard(server)
    return server


def source(server: Path, user: str = "root", **options: Any) -> DatabaseSource:
    url = f"mariadb://{user}@localhost/shop?unix_socket={server}/socket"
    return DatabaseSource(url, DatabaseOptions(**{**LIMITS, **options}))


class TestMariaDB(DriverContract):
    ordinary = DRIVER
    base = "mysql://localhost/shop"

    @pytest.fixture
    def provider(self, shop: Path) -> DatabaseSource:
        self.server = shop
        return self.make(query=True, queries=QUERIES)

    def make(self, **options: Any) -> DatabaseSource:
        return source(self.server, **options)

    def execute(self, *statements: str) -> None:
        execute(self.server, *statements)


HARMFUL = """
CREATE FUNCTION harmful() RETURNS INTEGER MODIFIES SQL DATA BEGIN DELETE FROM customers; RETURN 1; END
"""


class TestAttacks(Attacks):
    @pytest.fixture
    async def attacked(self, shop: Path) -> AsyncIterator[DatabaseSource]:
        execute(shop, HARMFUL, "CREATE SEQUENCE counter", MYSQL_MADE)
        async with running(source(shop, query=True)) as found:  # the administrator, who may do everything else
            yield found

    async def test_every_attack_is_refused(self, attacked: DatabaseSource) -> None:
        await self.refuse_all(attacked, EVERYWHERE + MYSQL)
        await self.check_shop(attacked)

    async def test_ordinary_queries_run(self, attacked: DatabaseSource) -> None:
        await self.accept_all(attacked, database_queries.EVERYWHERE + database_queries.MYSQL)

    async def test_hints_for_the_optimizer_are_left_out(self, attacked: DatabaseSource) -> None:
        for hint in ("SET_VAR(max_execution_time = 0)", "MAX_EXECUTION_TIME(100000)"):
            sql = f"SELECT /*+ {hint} */ x FROM (SELECT /*+ {hint} */ 1 AS x) AS y"
            assert "/*" not in check_statement(sql, "mysql").sql
            await self.accept_all(attacked, [sql])

    async def test_regular_expressions_are_operators(self, attacked: DatabaseSource) -> None:
        sql = "SELECT name REGEXP '^A', NOT name RLIKE 'n', 1 = (lower(name) REGEXP concat('a', 'n')) FROM customers"
        result = await ask(attacked, "query_shop", {"sql": f"{sql} WHERE id = 1 AND name REGEXP 'A'", "format": "csv"})
        assert result.content[0].text.splitlines()[1] == "1,0,1"

    async def test_comments_that_mysql_runs_are_left_out(self, attacked: DatabaseSource) -> None:
        for sql in EXECUTED_COMMENTS:
            result = await ask(attacked, "query_shop", {"sql": sql, "format": "csv"})
            assert result.content[0].text == "1\r\n1\r\n"
        await self.check_shop(attacked)

    async def test_mariadb_itself_refuses_to_write(self, attacked: DatabaseSource) -> None:
        await self.write_past_the_check(attacked)
        with pytest.raises(DatabaseFailed, match="READ ONLY transaction"):
            await attacked._reader.database.run("", lambda connection: connection.exec_driver_sql("SELECT harmful()"))
        await self.check_shop(attacked)


async def read(source: DatabaseSource, path: str) -> Any:
    """Return what a resource has: JSON decoded, or text."""
    [part] = await Caller(source).read_resource(f"{source.prefixes[0]}/{path}")
    return json.loads(part.text) if part.mime_type == "application/json" else part.text


TYPES = """
CREATE TABLE kinds (
    id BINARY(3) PRIMARY KEY, amount DECIMAL(40, 10) COMMENT 'In euros', big BIGINT UNSIGNED, born DATE,
    seen DATETIME(6),
    span TIME, year YEAR, raw BLOB, flag TINYINT(1), bits BIT(3), mood ENUM('sad', 'fine'), many SET('a', 'b'),
    place POINT,
    doc JSON, ratio DOUBLE
) COMMENT 'One of each'
"""


async def test_values_of_every_type_are_kept(shop: Path) -> None:
    values = (
        "0x0001ff, 12345678901234567890.1234567890, 18446744073709551615, '2024-02-29', '2024-02-29 12:30:00.123456',"
        " '-100:30:00', 2024, 0x00ff, 1, b'101', 'fine', 'a,b', POINT(1, 2), '{\"n\": 1.10}', 0.1"
    )
    execute(shop, TYPES, f"INSERT INTO kinds VALUES ({values})")
    async with running(source(shop)) as found:
        row = (await read(found, "tables/kinds/rows/0x0001ff"))["row"]
        text = await read(found, "tables/kinds/schema")
    assert row.pop("place")["bytes"] == 25, "spatial values are those of the server: the system of reference, and WKB"
    assert row == {
        "id": {"base64": "AAH/", "bytes": 3},
        "amount": "12345678901234567890.1234567890",
        "big": "18446744073709551615",
        "born": "2024-02-29",
        "seen": "2024-02-29 12:30:00.123456",
        "span": "-100:30:00",
        "year": 2024,
        "raw": {"base64": "AP8=", "bytes": 2},
        "flag": 1,
        "bits": {"base64": "BQ==", "bytes": 1},
        "mood": "fine",
        "many": "a,b",
        "doc": '{"n": 1.10}',
        "ratio": 0.1,
    }
    assert "One of each" in text
    assert "- amount decimal(40,10): In euros" in text


SLOW = "SELECT count(*) FROM customers AS a, " + ", ".join(f"information_many AS m{number}" for number in range(9))
MANY = "CREATE TABLE information_many AS SELECT seq FROM seq_1_to_1000"


async def test_the_database_ends_a_statement_at_the_time_limit(shop: Path) -> None:
    execute(shop, MANY)
    async with running(source(shop, query=True, time_limit=2)) as found:
        with pytest.raises(ToolError, match=r"longer than 2 seconds"):
            await ask(found, "query_shop", {"sql": SLOW})


async def test_the_statement_of_a_cancelled_request_is_killed(shop: Path) -> None:
    execute(shop, MANY)
    async with running(source(shop, query=True, time_limit=60)) as found:
        call = asyncio.create_task(ask(found, "query_shop", {"sql": SLOW}))
        await until(lambda: count_running(shop) == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: count_running(shop) == 0)
        assert await read(found, "tables/orders/rows?limit=1")


async def test_named_queries_are_checked_at_the_start(shop: Path) -> None:
    good = "SELECT id FROM orders WHERE customer_id = :customer AND note = ':none' LIMIT 1"
    async with running(source(shop, queries={"good": good})) as found:
        assert (await read(found, "queries/good?customer=1"))["rows"] == []
    with pytest.raises(ConfigError, match=r"queries: bad: Unknown column 'custmer_id'.*did you mean 'customer_id'"):
        async with running(source(shop, queries={"bad": "SELECT custmer_id FROM orders WHERE id = :id"})):
            pass


def count_running(server: Path) -> int:
    rows = execute(
        server,
        "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%information_many AS m%' "
        "AND id <> connection_id()",
    )
    return int(rows[0][0])


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the server tells only when it is asked."""
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


async def test_an_account_that_may_only_read_is_accepted_and_its_password_stays_here(
    shop: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "carrel")
    execute(shop, "CREATE OR REPLACE USER reader IDENTIFIED BY 'pa55word'", "GRANT SELECT ON shop.* TO reader")
    with pytest.raises(ConfigError, match="may write"):
        async with running(source(shop, strict_role=True)):
            pass
    async with running(source(shop, "reader:pa55word", strict_role=True, query=True)) as found:
        with pytest.raises(ToolError) as raised:
            await ask(found, "query_shop", {"sql": "SELECT nothing FROM orders"})
        seen = str(raised.value) + repr(found) + repr(await Caller(found).resources())
    with pytest.raises(ConfigError) as refused:
        async with running(source(shop, "reader:wr0ng")):
            pass
    seen += str(refused.value) + caplog.text
    assert not [word for word in ("pa55word", "wr0ng", "reader") if word in seen]
    execute(shop, "DROP USER reader")


@pytest.mark.parametrize(
    ("user", "database", "options", "words"),
    [
        ("nobody:wr0ng", "shop", {}, "the server rejected the login"),
        ("root", "nothing", {}, "the server has no database of that name"),
        ("root", "shop", {"role": "nobody_knows"}, "the server has no such role"),
    ],
)
async def test_a_start_that_fails_says_what_is_wrong(
    shop: Path, user: str, database: str, options: dict[str, Any], words: str
) -> None:
    url = f"mariadb://{user}@localhost/{database}?unix_socket={shop}/socket"
    with pytest.raises(SourceUnavailable, match=words) as raised:
        async with running(DatabaseSource(url, DatabaseOptions(**options))):
            pass
    assert not raised.value.is_down
