"""Lists of the page: windows, filters, orders, the tree, and single entries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from carrel import Annotations, Server
from carrel.catalog.provider import Page as ListPage
from carrel.catalog.provider import Provider, Request
from carrel.studio.lists import ListQuery
from carrel.wire.resources import ReadResourceResult, Resource, TextResourceContents
from support.studio_page import Page, app_server, folder_server, opened

pytestmark = pytest.mark.slow


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    for name in ("a.md", "b.txt", "deep/er/c.md", "deep/d.json", "名.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}\n")
    app = Server("tools", "1.2", title="Some tools", instructions="Use them.")
    app.resources.add("memo://low", "x", name="low\u202egpj.md", annotations=Annotations(priority=0.1))
    app.resources.add("memo://high", "xx", name="high", title="The high one", annotations=Annotations(priority=0.9))

    @app.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @app.prompt
    def greet(who: str) -> str:
        return f"Greet {who}"

    @app.resource("page://{title}/{part}")
    def part(title: str, part: str) -> str:
        return title + part

    async with opened(folder_server(tmp_path, "notes"), app_server(app)) as page:
        await page.ready("notes", "tools")
        yield page


def names(window: dict) -> list[str]:
    return [row["name"] for row in window["rows"]]


async def test_servers_have_their_state(page: Page) -> None:
    state = await page.get("/state")
    notes, tools = state["servers"]
    assert (tools["title"], tools["software"], tools["instructions"]) == ("Some tools", "tools 1.2", "Use them.")
    assert (notes["transport"], notes["state"], notes["reason"], notes["stderr"]) == ("memory", "ready", None, False)
    assert notes["revision"] == "2026-07-28"
    assert state["questions"] == []
    assert state["model"] is None


async def test_items_are_windows_of_a_list(page: Page) -> None:
    window = await page.get("/items", sort="name", limit=3)
    assert window["total"] == 8
    assert names(window) == ["a.md", "b.txt", "c.md"]
    assert names(await page.get("/items", sort="name", limit=2, offset=3)) == ["d.json", "lowgpj.md"]
    assert names(await page.get("/items", server="tools")) == ["high", "lowgpj.md"]
    assert names(await page.get("/items", server="tools", sort="priority")) == ["high", "lowgpj.md"]
    assert [row["title"] for row in (await page.get("/items", server="tools"))["rows"]] == ["The high one", "lowgpj.md"]
    assert names(await page.get("/items", kind="tool")) == ["add"]
    assert names(await page.get("/items", kind="prompt")) == ["greet"]
    assert [row["key"]["uri"] for row in (await page.get("/items", kind="template", server="tools"))["rows"]] == [
        "page://{title}/{part}"
    ]
    assert names(await page.get("/items", q="high")) == ["high"]


async def test_a_window_around_an_entry_has_it_in_its_middle(page: Page) -> None:
    whole = await page.get("/items", sort="name")
    for row in whole["rows"]:
        key = f"{row['key']['server']} {row['key']['uri']}"
        window = await page.get("/items", sort="name", around=key, limit=3)
        assert row in window["rows"]
        assert window["offset"] + len(window["rows"]) <= whole["total"]
    gone = await page.get("/items", sort="name", around="notes file:///gone", limit=3, offset=100)
    assert len(gone["rows"]) == 3


async def test_wrong_parameters_are_problems(page: Page) -> None:
    for path, params, status in [
        ("/items", {"kind": "other"}, 400),
        ("/items", {"sort": "other"}, 422),
        ("/items", {"limit": "x"}, 400),
        ("/items", {"server": "other"}, 404),
        ("/item", {"kind": "tool", "server": "tools", "name": "other"}, 404),
        ("/item", {"kind": "tool", "server": "tools"}, 400),
        ("/contents", {"server": "tools", "uri": "memo://none"}, 404),
        ("/contents", {"server": "none", "uri": "memo://none"}, 404),
        ("/operations/none", {}, 404),
    ]:
        found, problem = await page.ask("GET", path, **params)
        assert found == status, (path, params, problem)
        assert problem["status"] == status
        assert problem["title"]
        assert problem["detail"]


async def test_an_item_is_as_on_the_wire(page: Page) -> None:
    found = await page.get("/item", kind="tool", server="tools", name="add")
    assert found["item"]["inputSchema"]["properties"]["a"] == {"type": "integer"}
    assert found["item"]["description"] == "Add two numbers."
    prompt = await page.get("/item", kind="prompt", server="tools", name="greet")
    assert prompt["item"]["arguments"] == [{"name": "who", "required": True}]


async def test_the_tree_opens_level_by_level(page: Page) -> None:
    closed = await page.get("/tree")
    assert [(row["label"], row["kind"], row["level"], row["count"]) for row in closed["rows"]] == [
        ("notes", "server", 1, 6),
        ("tools", "server", 1, 2),
    ]
    notes = closed["rows"][0]["id"]
    opened = await page.get("/tree", open=[notes])
    assert [(row["label"], row["kind"], row["level"]) for row in opened["rows"]] == [
        ("notes", "server", 1),
        ("deep", "folder", 2),
        ("a.md", "resource", 2),
        ("b.txt", "resource", 2),
        ("名.md", "resource", 2),
        ("tools", "server", 1),
    ]
    deep = opened["rows"][1]
    assert (deep["expandable"], deep["uri"], deep["count"]) == (True, None, 2)
    below = await page.get("/tree", open=[notes, deep["id"]], offset=1, limit=3)
    assert [(row["label"], row["level"]) for row in below["rows"]] == [("deep", 2), ("d.json", 3), ("er/c.md", 3)]
    assert below["total"] == 8
    found = await page.get("/tree", q="json", open=[notes])
    assert [row["label"] for row in found["rows"]] == ["notes", "deep/d.json"]


async def test_the_terms_of_a_filter_are_chips_and_select_entries(page: Page) -> None:
    chips = (await page.get("/filter", q='-type:image "one two" priority:x'))["chips"]
    assert [(chip["field"], chip["value"], chip["negated"], chip["start"], chip["end"]) for chip in chips] == [
        ("type", "image", True, 0, 11),
        (None, "one two", False, 12, 21),
        ("priority", "x", False, 22, 32),
    ]
    assert [chip["problem"] is None for chip in chips] == [True, True, False]
    assert names(await page.get("/items", q="priority:>0.5")) == ["high"]
    assert names(await page.get("/items", q="type:application/json")) == ["d.json"]
    assert names(await page.get("/items", q="server:tools -high")) == ["lowgpj.md"]


async def test_the_lists_of_a_server_that_reports_no_changes_are_read_again_on_request() -> None:
    app = Server("quiet", list_changed=False)
    app.resources.add("memo://one", "1", name="one")
    async with opened(app_server(app)) as page:
        await page.ready("quiet")
        await page.listen()
        assert (await page.get("/items"))["total"] == 1
        app.resources.add("memo://two", "2", name="two")
        assert (await page.get("/items"))["total"] == 1
        assert (await page.ask("POST", "/servers/quiet/reconnect"))[0] == 204
        await page.event(lambda event: event["type"] == "list" and event["kind"] == "resource")
        assert (await page.get("/items"))["total"] == 2


async def test_a_filter_stops_when_the_page_closes_the_connection(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def find(query: ListQuery) -> Sequence[Any]:
        started.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            stopped.set()

    monkeypatch.setattr(page.studio.lists, "find", find)
    asking = asyncio.ensure_future(page.ask("GET", "/items", q="note"))
    await started.wait()
    asking.cancel()
    await stopped.wait()


async def test_a_changed_list_of_one_server_is_merged_into_the_order_of_all() -> None:
    apps = [Server("one"), Server("two")]
    for number, app in enumerate(apps):
        for name in ("a", "c", "e"):
            app.resources.add(f"memo://{name}{number}", "text", name=f"{name}{number}")
    async with opened(*map(app_server, apps)) as page:
        await page.ready("one", "two")
        await page.listen()
        assert names(await page.get("/items", sort="name")) == ["a0", "a1", "c0", "c1", "e0", "e1"]
        apps[1].resources.add("memo://b1", "text", name="b1")
        await page.event(lambda event: event["type"] == "list" and event["server"] == "two")
        assert names(await page.get("/items", sort="name")) == ["a0", "a1", "b1", "c0", "c1", "e0", "e1"]
        assert names(await page.get("/items", sort="name", q="1")) == ["a1", "b1", "c1", "e1"]


class Dozing(Provider):
    """Provider whose list is read at once when a client connects, and later only after ``awake``."""

    name = "dozing"
    prefixes = ("dozing:",)

    def __init__(self) -> None:
        self.awake = asyncio.Event()
        self.awake.set()

    async def list_resources(self, request: Request) -> ListPage[Resource]:
        await self.awake.wait()
        return ListPage((Resource("dozing://a", "dream"),))

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        return ReadResourceResult([TextResourceContents(uri, "a dream")])


async def test_a_slow_list_is_added_when_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.studio.lists.SOON", 0.1)
    app, dozing = Server("dozing"), Dozing()
    app.add_provider(dozing)
    (tmp_path / "quick").mkdir()
    (tmp_path / "quick/a.md").write_text("a")
    async with opened(folder_server(tmp_path / "quick", "quick"), app_server(app)) as page:
        await page.ready("quick", "dozing")
        async with asyncio.timeout(60):  # the first read may take longer than a window waits, too
            while "dream" not in names(await page.get("/items")):
                await asyncio.sleep(0.02)
        await page.listen()
        dozing.awake.clear()
        page.studio.host.servers["dozing"].changed(["resources_list_changed"])
        await page.event(lambda event: event["type"] == "list" and event["server"] == "dozing")
        window = await page.get("/items")
        assert "a.md" in names(window)
        assert "dream" not in names(window)
        tree = {row["server"]: row for row in (await page.get("/tree"))["rows"]}
        assert (tree["dozing"]["directory"], tree["dozing"]["count"]) == ("reading", None)
        page.events.clear()
        dozing.awake.set()
        await page.event(lambda event: event["type"] == "list" and event.get("server") == "dozing")
        async with asyncio.timeout(60):
            while "dream" not in names(await page.get("/items")):
                await asyncio.sleep(0.02)
