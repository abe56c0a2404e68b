"""Contexts of a host: over several servers, whose resources are read through their clients and indexed here."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from carrel import Server, sync
from carrel.host import Host, ServerConfig
from carrel.host import context as host_context
from carrel.host.remote import RemoteProvider

TEA = "# Tea\n\nGreen tea is brewed at seventy degrees for two minutes.\n"


def served(name: str, folder: Path, *options: str) -> ServerConfig:
    """Return the configuration of a server that shares a folder on stdio."""
    return ServerConfig(name=name, command=sys.executable, args=("-m", "carrel", "serve", str(folder), *options))


async def added(host: Host, app: Server, name: str) -> None:
    await host.catalog.add(RemoteProvider(app, name=name))  # type: ignore[arg-type]


async def test_resources_of_all_servers_are_packed_with_the_names_of_their_servers() -> None:
    first, second = Server("first"), Server("second")
    first.resources.add("memo://tea", TEA)
    second.resources.add("memo://oolong", "Oolong tea is half of the way from green to black.")
    second.resources.add("memo://copy", TEA)
    async with Host() as host:
        await added(host, first, "one")
        await added(host, second, "two")
        pack = await host.context("green tea", budget=500)
        assert {(item.server, item.uri) for item in pack.items} in (
            {("one", "memo://tea"), ("two", "memo://oolong")},
            {("two", "memo://copy"), ("two", "memo://oolong")},
        )
        assert [each.reason.partition(" of ")[0] for each in pack.left_out] == ["near-duplicate"]
        assert pack.tokens <= 500
        for name in ("one", "two"):
            await host.catalog.remove(name)


async def test_the_same_uri_on_two_servers_is_two_resources() -> None:
    apps = {"one": "Green tea of the first server.", "two": "Green tea, but quite another text on the second one."}
    async with Host() as host:
        for name, text in apps.items():
            app = Server(name)
            app.resources.add("memo://tea", text)
            await added(host, app, name)
        pack = await host.context("green tea")
        assert {item.server: item.text for item in pack.items} == apps
        for name in apps:
            await host.catalog.remove(name)


async def test_lines_of_the_same_uri_are_read_from_their_own_servers() -> None:
    facts = {"one": "brewed at seventy degrees", "two": "drunk in Japan"}
    async with Host() as host:
        for name, fact in facts.items():
            app, text = Server(name), "\n".join([f"Green tea is {fact}.", *(f"Line {n} of {name}" for n in range(900))])
            app.resources.add("memo://tea", text, size=300_000)  # too large to be read as a whole

            @app.resource("memo://tea{?lines}")
            def window(lines: str, text: str = text) -> str:
                first, last = map(int, lines.split("-"))
                return "\n".join(text.split("\n")[first - 1 : last])

            await added(host, app, name)
        pack = await host.context("green tea", budget=2000)
        first = {item.server: item.text.partition("\n")[0] for item in pack.items}
        assert first == {name: f"Green tea is {fact}." for name, fact in facts.items()}
        for name in facts:
            await host.catalog.remove(name)


async def test_a_watched_pack_follows_changes_of_its_resources_and_new_ones(tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text(TEA)
    async with Host([served("notes", tmp_path)]) as host, asyncio.timeout(60):
        pack = await host.context("green tea")
        watched = pack.watch()
        change = asyncio.ensure_future(anext(watched))
        while not change.done():  # once the host has subscribed
            (tmp_path / "tea.md").write_text(TEA + "\nGreen tea is never boiled.\n")
            await asyncio.wait([change], timeout=0.5)
        [item] = (await change).changed
        assert "never boiled" in item.text
        assert pack.items == (item,)
        change = asyncio.ensure_future(anext(watched))
        (tmp_path / "pot.md").write_text("A pot of green tea.\n")
        assert [item.uri.rpartition("/")[2] for item in (await change).added] == ["pot.md"]
        (tmp_path / "pot.md").unlink()
        assert [item.uri.rpartition("/")[2] for item in (await anext(watched)).removed] == ["pot.md"]
        await watched.aclose()


async def test_a_pack_of_a_host_is_refreshed() -> None:
    app = Server("s")
    app.resources.add("memo://tea", TEA)
    async with Host() as host:
        await added(host, app, "s")
        pack = await host.context("green tea")
        app.resources.add("memo://more", "More on green tea from the garden.")
        changes = await pack.refresh()
        assert [item.uri for item in changes.added] == ["memo://more"]
        await host.catalog.remove("s")


async def test_search_tools_of_servers_find_what_is_not_listed() -> None:
    app = Server("s")

    @app.resource("page://{name}")
    def page(name: str) -> str:
        return f"Green tea on the page {name}.\nSecond line."

    @app.tool(annotations={"readOnlyHint": True})
    def search(query: str, limit: int = 10) -> dict[str, object]:
        hit = {"resource": {"uri": "page://9", "name": "nine"}, "score": 0.5, "source": "s", "link": "page://9"}
        return {"hits": [{**hit, "firstLine": 1, "lastLine": 1}, {**hit, "link": "page://none"}], "complete": True}

    async with Host() as host:
        await added(host, app, "s")
        (item,) = (await host.context("green tea")).items
        assert (item.uri, item.server) == ("page://9", "s")
        assert item.text.startswith("Green tea on the page 9.")
        await host.catalog.remove("s")


async def test_a_search_tool_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr(host_context, "PATIENCE", 0.05)
    app = Server("s")
    app.resources.add("memo://tea", TEA)
    cancelled = asyncio.Event()

    @app.tool
    async def search(query: str, limit: int = 10) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    async with Host() as host:
        await added(host, app, "s")
        assert [item.uri for item in (await host.context("green tea")).items] == ["memo://tea"]
        await cancelled.wait()
        await host.catalog.remove("s")


async def test_the_index_is_deleted_when_the_host_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with Host() as host:
        assert (await host.context("tea")).items == ()
        assert list(tmp_path.glob("carrel-context-*"))
    assert not list(tmp_path.glob("carrel-context-*"))


@pytest.mark.slow
def test_a_synchronous_host_packs_and_refreshes(tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text(TEA)
    with sync.Host([served("notes", tmp_path)]) as host:
        pack = host.context("green tea", budget=300)
        assert [(item.server, item.text) for item in pack.items] == [("notes", TEA.rstrip())]
        (tmp_path / "oolong.md").write_text("Oolong is a green tea that went on.\n")
        assert [item.title for item in pack.refresh().added] == ["oolong.md"]
        assert len(pack.items) == 2
