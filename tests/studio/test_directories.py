"""Directories in the tree: opened one level at a time, read again, and resources that are found in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from carrel import Server
from carrel.catalog.provider import Page as ListPage
from carrel.catalog.provider import Provider, Request
from carrel.errors import ResourceNotFound
from carrel.media_types import DIRECTORY
from carrel.wire.resources import Resource
from support.studio_page import Page, app_server, opened

pytestmark = pytest.mark.slow


class Shelves(Provider):
    """Provider that lists one directory. Everything else is in directories, two levels deep."""

    name = "shelves"
    prefixes = ("shelf:",)

    def __init__(self) -> None:
        self.read: list[str] = []
        self.books = ["a", "b"]
        self.slow = asyncio.Event()

    def list_resources(self, request: Request) -> ListPage[Resource]:
        shelves = [Resource(f"shelf://{name}", name, mime_type=DIRECTORY) for name in ("one", "slow", "broken")]
        return ListPage((*shelves, Resource("shelf://note", "A note")))

    async def list_directory(self, uri: str, request: Request) -> ListPage[Resource]:
        self.read.append(uri)
        if uri == "shelf://slow":
            await self.slow.wait()
            return ListPage((Resource("shelf://slow/late", "late"),))
        if uri == "shelf://one":
            return ListPage((Resource("shelf://one/deep", "deep", mime_type=DIRECTORY),))
        if uri == "shelf://one/deep":
            return ListPage(tuple(Resource(f"shelf://one/deep/{name}", f"Book {name}") for name in self.books))
        raise ResourceNotFound(uri)


@pytest.fixture
def shelves() -> Shelves:
    return Shelves()


@pytest.fixture
async def page(shelves: Shelves) -> AsyncIterator[Page]:
    app = Server("library")
    app.add_provider(shelves)
    app.skills()  # and so directories
    async with opened(app_server(app)) as page:
        await page.ready("library")
        yield page
        shelves.slow.set()


async def rows(page: Page, *opened: str, **params: str) -> dict[str, dict]:
    """Return the rows of the tree by their labels."""
    return {row["label"]: row for row in (await page.get("/tree", open=list(opened), **params))["rows"]}


async def test_a_directory_is_read_when_it_is_opened(page: Page, shelves: Shelves) -> None:
    top = (await rows(page))["library"]["id"]
    closed = await rows(page, top)
    assert [(row["kind"], row["expandable"], row["directory"]) for row in closed.values()] == [
        ("server", True, None),
        ("folder", True, "unread"),
        ("folder", True, "unread"),
        ("folder", True, "unread"),
        ("resource", False, None),
    ]
    assert shelves.read == []
    one = closed["one"]["id"]
    opened = await rows(page, top, one)
    assert (opened["one"]["directory"], opened["one"]["count"], opened["deep"]["level"]) == ("read", 1, 3)
    deep = opened["deep"]["id"]
    below = await rows(page, top, one, deep)
    assert [(row["label"], row["level"], row["uri"]) for row in below.values()][4:6] == [
        ("Book a", 4, "shelf://one/deep/a"),
        ("Book b", 4, "shelf://one/deep/b"),
    ]
    await rows(page, top, one, deep)
    assert shelves.read == ["shelf://one", "shelf://one/deep"]

    shelves.books.append("c")
    again = await rows(page, top, one, deep, again="library shelf://one/deep")
    assert "Book c" in again


async def test_a_directory_that_cannot_be_read_says_why(page: Page) -> None:
    top = (await rows(page))["library"]["id"]
    broken = (await rows(page, top))["broken"]["id"]
    row = (await rows(page, top, broken))["broken"]
    assert (row["directory"], row["expandable"]) == ("failed", True)
    assert row["message"] == "shelf://broken is not a directory"


async def test_a_slow_directory_does_not_delay_the_tree(page: Page, shelves: Shelves) -> None:
    top = (await rows(page))["library"]["id"]
    slow = (await rows(page, top))["slow"]["id"]
    await page.listen()
    assert (await rows(page, top, slow))["slow"]["directory"] == "reading"
    page.events.clear()
    shelves.slow.set()
    await page.event(lambda event: event["type"] == "list" and event["kind"] == "resource")
    assert (await rows(page, top, slow))["late"]["uri"] == "shelf://slow/late"


async def test_a_resource_in_directories_has_a_place_in_the_tree(page: Page, shelves: Shelves) -> None:
    place = await page.get("/tree/place", server="library", uri="shelf://one/deep/b")
    window = await page.get("/tree", open=place["open"])
    assert window["rows"][place["index"]]["uri"] == "shelf://one/deep/b"
    assert shelves.read == ["shelf://one", "shelf://one/deep"]
    item = await page.get("/item", kind="resource", server="library", name="shelf://one/deep/b")
    assert item["item"]["name"] == "Book b"
    for uri in ("shelf://one/deep/none", "other:thing"):
        assert await page.get("/tree/place", server="library", uri=uri) == {"open": [], "index": None}


async def test_a_directory_of_a_server_without_directory_reads_is_read_as_a_resource() -> None:
    app = Server("plain")
    entries = '[{"uri": "box://a/1", "name": "one"}]'
    app.resources.add("box://a", entries, name="a", mime_type=DIRECTORY)
    app.resources.add("box://b", "no list", name="b", mime_type=DIRECTORY)
    async with opened(app_server(app)) as page:
        await page.ready("plain")
        top = (await rows(page))["plain"]["id"]
        closed = await rows(page, top)
        found = await rows(page, top, closed["a"]["id"], closed["b"]["id"])
        assert (found["one"]["uri"], found["one"]["level"]) == ("box://a/1", 3)
        assert found["b"]["message"].startswith("The server does not say what is in this directory")
