"""Contract of the databases source, for each database: how tables are created, changed and removed."""

from pathlib import Path
from typing import Any

import pytest

from carrel.errors import ToolError
from carrel.sources.databases.failure import Failed
from carrel.sources.databases.source import DatabaseSource
from carrel.testing import ProviderContract
from carrel.testing.caller import Caller
from support.database_attacks import WRITES


class DatabaseContract(ProviderContract):
    """The contract of providers. ``execute`` runs a statement that writes, over a connection of its own."""

    foreign = "sqlite:///nobody-has-this.db/schema"
    base = ""

    def execute(self, *statements: str) -> None:
        raise NotImplementedError

    def make(self, **options: Any) -> DatabaseSource:
        raise NotImplementedError

    def again(self, provider: DatabaseSource) -> DatabaseSource:
        return self.make(query=True)

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

    async def refuse(self, source: DatabaseSource, sql: str) -> None:
        """Check that the tool or the database refuses a statement."""
        with pytest.raises(
            ToolError,
            match=REFUSED,
        ):
            await ask(source, "query_shop", {"sql": sql})

    async def check_shop(self, source: DatabaseSource) -> None:
        """Check that nothing has changed."""
        result = await ask(source, "query_shop", {"sql": UNCHANGED, "format": "csv"})
        assert result.content[0].text == "a,b,c\r\n3,3,3\r\n"
        assert not list(Path("/tmp").glob("carrel-attacked*"))

    async def write_past_the_check(self, source: DatabaseSource) -> None:
        """Check that the database itself refuses to write."""
        for sql in WRITES:
            for guarded in (True, False):
                with pytest.raises(Failed):
                    await source._reader.database.run(
                        "", lambda connection, sql=sql: connection.exec_driver_sql(sql), guarded=guarded
                    )


UNCHANGED = "SELECT (SELECT count(*) FROM customers) AS a, (SELECT count(*) FROM orders) AS b, count(*) AS c FROM items"
