"""Processes that read rows: limits of memory and time, cancellation, and their end."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import duckdb
import msgspec
import pytest

from carrel.errors import ToolError
from carrel.sources import process
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.query_tool import call_query_tool
from carrel.sources.databases.source import DatabaseSource
from carrel.testing import running
from support.database_contract import ask

pytestmark = pytest.mark.slow


@pytest.fixture
def started_workers(forked_workers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes as a server does: no fork has their limits from the start."""
    monkeypatch.setattr(process, "subprocess", subprocess)


#: Takes minutes.
LONG = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 0"


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[DatabaseSource]:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE one AS SELECT 1 AS id")
    options = DatabaseOptions(query=True, time_limit=1, connections=1)
    async with running(DatabaseSource(f"duckdb:///{tmp_path}/shop.duckdb", options)) as source:
        yield source


def processes(source: DatabaseSource) -> list[int]:
    """Return the numbers of the processes of a source that are alive."""
    found = [one._process for one in source._reader.processes._all]
    return [one.pid for one in found if one is not None and one.poll() is None]


@pytest.mark.usefixtures("started_workers")
async def test_a_statement_that_cannot_be_interrupted_is_killed_with_its_process(shop: DatabaseSource) -> None:
    await ask(shop, "query_shop", {"sql": "SELECT id FROM one"})
    [running_process] = processes(shop)
    call = asyncio.create_task(ask(shop, "query_shop", {"sql": LONG}))
    await asyncio.sleep(0)
    os.kill(running_process, signal.SIGSTOP)  # as a statement that does not look whether it is interrupted
    with pytest.raises(ToolError, match="longer than 3 seconds and could not be interrupted"):
        await call
    assert not processes(shop)
    assert "1" in (await ask(shop, "query_shop", {"sql": "SELECT id FROM one"})).text


@pytest.mark.usefixtures("started_workers")
async def test_a_value_that_needs_too_much_memory_is_refused(shop: DatabaseSource) -> None:
    with pytest.raises(ToolError, match=r"(?i)memory|over the limit|longer than"):
        await ask(shop, "query_shop", {"sql": "SELECT repeat(repeat('x', 1000000), 3000)"})
    assert "1" in (await ask(shop, "query_shop", {"sql": "SELECT id FROM one"})).text


async def test_small_queries_share_one_process(shop: DatabaseSource) -> None:
    await ask(shop, "query_shop", {"sql": "SELECT id FROM one"})
    before = processes(shop)
    for _ in range(3):
        await ask(shop, "query_shop", {"sql": "SELECT id FROM one"})
    assert processes(shop) == before
    assert len(before) == 1


async def test_a_source_that_stops_ends_its_processes_at_once(shop: DatabaseSource) -> None:
    await ask(shop, "query_shop", {"sql": "SELECT id FROM one"})
    call = asyncio.create_task(ask(shop, "query_shop", {"sql": LONG}))
    await asyncio.sleep(0)
    await shop.stop()
    assert not processes(shop)
    with pytest.raises(Exception, match=r"memory|available|stopped|started"):
        await call


async def test_one_client_leaves_a_connection_to_the_others(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE one AS SELECT 1 AS id")
    options = DatabaseOptions(query=True, time_limit=60, connections=2)
    async with running(DatabaseSource(f"duckdb:///{tmp_path}/shop.duckdb", options)) as source:

        def call(client: str, sql: str) -> asyncio.Task[object]:
            arguments = msgspec.Raw(msgspec.json.encode({"sql": sql}))
            return asyncio.create_task(call_query_tool(source._reader, arguments, client))

        slow = [call("first", LONG) for _ in range(2)]
        while not processes(source):
            await asyncio.sleep(0.01)
        async with asyncio.timeout(50):
            await call("second", "SELECT id FROM one")
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
