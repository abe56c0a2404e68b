"""A database that stops while it is shared, and one that is not there yet: a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from carrel import Client, Server, sources
from carrel.errors import MCPError, SourceUnavailable
from carrel.server import lifecycle
from carrel.sources.databases import watch as database_watch
from support.carrel_process import command
from support.database_servers import postgres_folder, program, running_postgres
from support.shop_database import statements

pytestmark = pytest.mark.slow

PATIENCE = 60.0
SHOP = "postgres://localhost/shop"
SECRET = "open-sesame"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """The folder of a server that does not run, with a database."""
    with postgres_folder() as path:
        with running_postgres(path):
            psql(path, "CREATE DATABASE shop", database="postgres")
            psql(path, *statements())
        yield path


def psql(folder: Path, *statements: str, database: str = "shop") -> None:
    given = [part for statement in statements for part in ("-c", statement)]
    command = [program("psql"), "-h", str(folder), "-U", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", database]
    subprocess.run([*command, *given], check=True, capture_output=True, timeout=PATIENCE)


def url(folder: Path) -> str:
    return f"postgresql://postgres:{SECRET}@/shop?host={folder}"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "PAUSES", (0.05, 0.1))
    monkeypatch.setattr(database_watch, "PAUSES", (0.05, 0.1))


async def names(client: Client) -> set[str]:
    return {resource.uri for resource in await client.list_resources()}


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await holds():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("notify", [None, pytest.param("carrel", marks=pytest.mark.exhaustive)])
async def test_a_database_that_stops_and_comes_back_is_read_and_watched_again(folder: Path, notify: str | None) -> None:
    app = Server("shop")
    app.add_provider(sources.open(url(folder), interval=0.05, notify=notify))
    rows = f"{SHOP}/tables/customers/rows"
    async with AsyncExitStack() as stack:
        with running_postgres(folder):
            client = await stack.enter_async_context(Client(app))
            assert rows in await names(client)
            before = (await client.read_resource(rows)).contents
            changes = await stack.enter_async_context(client.watch(rows))
        # It has stopped.
        for _ in range(3):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(rows)
            assert "is not available" in str(refused.value)
            assert SECRET not in str(refused.value)
        await until(lambda: lacks(client, rows))
        with running_postgres(folder):
            assert (await client.read_resource(rows)).contents == before
            assert rows in await names(client)

            async def changed() -> bool:
                psql(folder, "UPDATE customers SET name = name || '!'", *(["NOTIFY carrel"] if notify else []))
                try:
                    async with asyncio.timeout(1):
                        await anext(aiter(changes))
                except TimeoutError:
                    return False
                return True

            await until(changed)


async def test_after_an_outage_the_first_read_brings_notifications_back_and_everything_is_told_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database_watch, "PAUSES", (3600.0, 3600.0))
    app = Server("shop")
    with running_postgres(folder):
        triggers = database_watch.trigger_sql("carrel", [("public", "customers")])
        psql(folder, "DROP FUNCTION IF EXISTS carrel_notify CASCADE", triggers)
    app.add_provider(sources.open(url(folder), interval=3600, notify="carrel"))
    parts = ("customers/rows", "customers/rows/1", "orders/rows?limit=1", "orders/schema")
    told = {f"{SHOP}/tables/{part}" for part in parts}
    sentinel = f"{SHOP}/tables/items/rows"
    async with AsyncExitStack() as stack:
        with running_postgres(folder):
            client = await stack.enter_async_context(Client(app))
            changes = await stack.enter_async_context(client.watch(*told, sentinel))
        await until(lambda: refuses(client, f"{SHOP}/tables/customers/rows"))
        with running_postgres(folder):
            psql(folder, "UPDATE orders SET note = 'while away'")
            assert await client.read_resource(f"{SHOP}/tables/customers/rows")
            heard: list[str | None] = []
            async with asyncio.timeout(PATIENCE):
                while not told | {sentinel} <= set(heard):
                    heard.append((await anext(changes)).uri)
                assert sorted(map(str, heard)) == sorted({*told, sentinel}), "once"
                psql(folder, "NOTIFY carrel, 'public.items'")
                assert (await anext(changes)).uri == sentinel
    assert "notifications have ended" in caplog.text
    assert "notifications are back" in caplog.text


async def refuses(client: Client, uri: str) -> bool:
    try:
        await client.read_resource(uri)
    except MCPError:
        return True
    return False


async def test_an_optional_database_that_is_not_there_yet_is_shared_once_it_is(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Server("shop")
    app.resource("note://one")(lambda: "one")
    app.add_provider(sources.open(url(folder)), optional=True)
    async with Client(app) as client, client.watch(lists=["resources"]) as changes:
        assert await names(client) == {"note://one"}
        with running_postgres(folder):
            async with asyncio.timeout(PATIENCE):
                await anext(aiter(changes))
            await until(lambda: has(client, f"{SHOP}/tables/customers/rows"))
    assert "is left out until it can be reached" in caplog.text
    assert "can be reached now" in caplog.text
    assert SECRET not in caplog.text


async def lacks(client: Client, uri: str) -> bool:
    return uri not in await names(client)


async def has(client: Client, uri: str) -> bool:
    return uri in await names(client)


async def test_an_optional_database_can_be_removed_while_it_is_not_there(folder: Path) -> None:
    app = Server("shop")
    provider = sources.open(url(folder))
    app.add_provider(provider, optional=True)
    async with Client(app) as client:
        await app.remove_provider(provider)
        with running_postgres(folder):
            assert await names(client) == set()
        with pytest.raises(KeyError):
            await app.remove_provider(provider)


async def test_a_database_that_is_not_there_ends_the_start_with_the_reason(folder: Path) -> None:
    app = Server("shop")
    app.add_provider(sources.open(url(folder)))
    with pytest.raises(SourceUnavailable, match=rf"{SHOP} cannot be opened: .*\(.+\)") as refused:
        async with Client(app):
            pass
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("arguments", [[], pytest.param(["--http", "0"], marks=pytest.mark.exhaustive)])
def test_carrel_serve_names_the_source_and_what_to_do_in_one_line(folder: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        command("serve", url(folder), *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE,
        check=False,
    )
    [line] = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith(f"carrel: {SHOP} cannot be opened: the database cannot be reached (")
    assert "`optional = true` in carrel.toml" in line
    assert SECRET not in line
    assert done.stdout == ""
