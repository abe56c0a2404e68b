"""Contract of the databases source, for each database: how tables are created, changed and removed."""

import re
from pathlib import Path
from typing import Any

import pytest

from carrel.errors import ToolError
from carrel.sources.databases.failure import DatabaseFailed
from carrel.sources.databases.source import DatabaseSource
from carrel.testing import ProviderContract
from carrel.testing.caller import Caller
from carrel.testing.changes import ChangeTests
from carrel.testing.hooks import Hooks
from carrel.testing.lists import ListTests
from carrel.testing.offers import OfferTests
from carrel.testing.reading import ReadingTests
from carrel.testing.subscribing import SubscriptionTests
from support.database_attacks import WRITES

QUERIES = {"counted": "SELECT count(*) AS number FROM orders"}


class DatabaseHooks(Hooks):
    """Hooks of the contract of providers. ``execute`` runs a statement that writes, over a connection of its own."""

    foreign = "sqlite:///nobody-has-this.db/schema"
    base = ""

    def execute(self, *statements: str) -> None:
        raise NotImplementedError

    def make(self, **options: Any) -> DatabaseSource:
        raise NotImplementedError

    def again(self, provider: DatabaseSource) -> DatabaseSource:
        return self.make(query=True, queries=QUERIES)

    async def create(self, provider: DatabaseSource) -> str:
        self.number = getattr(self, "number", 0) + 1
        self.execute(f"CREATE TABLE new_{self.number} (id INTEGER PRIMARY KEY, word VARCHAR(20))")
        provider._reader.cache.forget()  # a server is asked for its schema at most once in an interval
        return f"{self.base}/tables/new_{self.number}/rows"

    async def change(self, provider: DatabaseSource, uri: str) -> None:
        table = uri.split("/")[-2]
        self.execute(f"INSERT INTO {table} VALUES (1, 'x')")

    async def remove(self, provider: DatabaseSource, uri: str) -> None:
        self.execute(f"DROP TABLE {uri.split('/')[-2]}")
        provider._reader.cache.forget()

    async def shown_in(self, provider: DatabaseSource, uri: str) -> list[str]:
        table = uri.rpartition("/")[0]
        self.execute(f"INSERT INTO {table.rpartition('/')[2]} VALUES (7, 'seven')")
        parts = ("rows", "rows?limit=1", "rows?after=1&columns=word", "rows/7", "rows/7?format=csv", "sample")
        parts += ("sample?limit=1", "statistics", "statistics?format=csv")
        more = (
            "statistics",
            "statistics?format=csv",
            "tables/totals/sample",
            "queries/counted",
            "queries/counted?limit=1",
        )
        return [*(f"{table}/{part}" for part in parts), *(f"{self.base}/{part}" for part in more)]

    async def lists_with_new(self, provider: DatabaseSource) -> list[str]:
        parts = ("", "/tables", "/schema", "/schema?format=json", "/dictionary", "/dictionary?format=csv", "/diagram")
        return [self.base + part for part in (*parts, "/diagram?format=svg", "/statistics")]

    def missing(self, provider: DatabaseSource) -> str:
        return f"{self.base}/tables/missing/rows"

    async def too_large(self, provider: DatabaseSource) -> str:
        self.execute(f"UPDATE orders SET note = '{'x' * 30_000}' WHERE id = 11")
        return f"{self.base}/tables/orders/rows/11"

    async def container(self, provider: DatabaseSource) -> str:
        return f"{self.base}/tables"

    async def unreadable(self, provider: DatabaseSource) -> list[str]:
        tables = f"{self.base}/tables"
        return [
            f"{tables}/secrets/schema",
            f"{tables}/orders/rows/999",
            f"{tables}/orders/rows/x",
            f"{tables}/items/rows/10",
            f"{tables}/totals/rows",
            f"{tables}/orders/rows?after=x,y&limit=0",
            f"{tables}/orders/rows?offset=3",
            f"{tables}/orders/rows?format=xml",
            f"{tables}/orders/rows?columns=nothing",
            f"{tables}/%22orders%22/schema",
        ]

    async def searched(self, provider: DatabaseSource) -> tuple[str, str]:
        return "customers", f"{self.base}/tables/customers/schema"

    async def completed(self, provider: DatabaseSource) -> tuple[str, str, str, str]:
        return f"{self.base}/tables/{{table}}/schema{{?format}}", "table", "ord", "orders"

    async def called(self, provider: DatabaseSource) -> tuple[str, dict[str, Any]]:
        return "query_shop", {"sql": "SELECT count(*) FROM orders"}


class DatabaseContract(DatabaseHooks, ProviderContract):
    """The contract of providers."""


class DriverContract(DatabaseHooks, ReadingTests, ChangeTests, SubscriptionTests):
    """What depends on the database: all databases share the code of cursors, directories, tools and skills."""

    test_pages_of_any_size_give_everything_once_in_the_same_order = (
        ListTests.test_pages_of_any_size_give_everything_once_in_the_same_order
    )
    test_what_is_listed_is_described_as_the_protocol_wants = (
        ListTests.test_what_is_listed_is_described_as_the_protocol_wants
    )
    test_a_tool_can_be_called = OfferTests.test_a_tool_can_be_called


#: Refused by the check, or by the database itself.
REFUSED = r"^Refused: |not authorized|dblink.* does not exist|Function with name \"?\w+\"? (does not exist|is not)"


async def ask(source: DatabaseSource, name: str, arguments: dict[str, Any]) -> Any:
    """Call a tool.

    Raises:
        ToolError: its result is an error.
    """
    result = await Caller(source).call_tool(name, arguments)
    if result.is_error:
        raise ToolError(result.text)
    return result


class Attacks:
    """Attacks by the query tool, and past it. Subclasses have a fixture ``attacked``, a source that is running."""

    async def refuse_all(self, source: DatabaseSource, attacks: list[str]) -> None:
        """Check that each of some statements is refused, and name all that are not."""
        passed = []
        for sql in attacks:
            try:
                result = await ask(source, "query_shop", {"sql": sql})
            except ToolError as error:
                if re.search(REFUSED, str(error)):
                    continue
                passed.append(f"{sql[:200]}: {error}")
            else:
                passed.append(f"{sql[:200]}: {result.text[:200]}")
        assert not passed, "\n".join(passed)

    async def accept_all(self, source: DatabaseSource, queries: list[str]) -> None:
        """Check that each of some queries runs, and name all that do not."""
        failed = []
        for sql in queries:
            try:
                await ask(source, "query_shop", {"sql": sql})
            except ToolError as error:
                failed.append(f"{sql}: {error}")
        assert not failed, "\n".join(failed)

    async def check_shop(self, source: DatabaseSource) -> None:
        """Check that nothing has changed."""
        result = await ask(source, "query_shop", {"sql": UNCHANGED, "format": "csv"})
        assert result.content[0].text == "a,b,c\r\n3,3,3\r\n"
        assert not list(Path("/tmp").glob("carrel-attacked*"))

    async def write_past_the_check(self, source: DatabaseSource) -> None:
        """Check that the database itself refuses to write."""
        for sql in WRITES:
            with pytest.raises(DatabaseFailed):
                await source._reader.database.run("", lambda connection, sql=sql: connection.exec_driver_sql(sql))


UNCHANGED = "SELECT (SELECT count(*) FROM customers) AS a, (SELECT count(*) FROM orders) AS b, count(*) AS c FROM items"
