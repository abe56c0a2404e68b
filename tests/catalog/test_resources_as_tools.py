"""Resources as tools, for hosts whose model cannot see resources."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from carrel import Contents, Server
from carrel.catalog.provider import Hit, Page, Request
from carrel.errors import ConfigError, ResourceForbidden, ResourceNotFound
from carrel.transports import memory
from carrel.wire.resources import ReadResourceResult, Resource
from support.memory_client import JUNE, LATEST, NOVEMBER, OLDEST, call, listed
from support.numbered_provider import Numbers


class Folders(Numbers):
    """A provider with directories, names to search, and something forbidden."""

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        if uri != f"{self.name}:dir":
            raise ResourceNotFound(uri)
        return await self.list_resources(request)

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        if uri.endswith("secret"):
            raise ResourceForbidden(uri, "by the rule on line 7")
        return await super().read_resource(uri, request)

    async def search(self, query: str, request: Request) -> Page[Hit]:
        found = [number for number in range(self.count) if query in str(number)]
        return Page([Hit(Resource(f"{self.name}:{number}", str(number)), 1.0) for number in found[: request.limit]])


def library() -> Server:
    app = Server("s", page_size=3)
    app.resources.add("x://tea.md", "# Tea", title="How to make tea", mime_type="text/markdown")
    app.resources.add("x://picture", Contents(b"\x89PNG", "image/png"))
    app.resources.add("x://sound", Contents(b"RIFF", "audio/wav"))
    app.resources.add("x://blob", b"\x00\x01")
    app.resource("y://{a}")(lambda a: f"member {a}")
    app.add_provider(Folders("live", 4))
    app.add_resource_tools()
    return app


def texts(found: dict[str, Any]) -> str:
    assert [block["type"] for block in found["content"]] == ["text"]
    return found["content"][0]["text"]


async def test_there_are_three_tools_and_they_change_nothing() -> None:
    async with memory.connect(library()) as peer:
        tools = await listed(peer, "tools")
        assert [tool["name"] for tool in tools] == ["list_resources", "read_resource", "search_resources"]
        for tool in tools:
            assert tool["annotations"]["readOnlyHint"] is True
            assert tool["annotations"]["openWorldHint"] is False
            assert tool["description"]
            assert all(schema.get("description") for schema in tool["inputSchema"]["properties"].values())


@pytest.mark.parametrize("revision", [OLDEST, JUNE, NOVEMBER, LATEST])
async def test_the_list_is_that_of_the_resources_page_by_page(revision: str) -> None:
    async with memory.connect(library(), revision) as peer:
        found, arguments, pages = [], {}, 0
        while True:
            page = json.loads(texts(await call(peer, "list_resources", **arguments)))
            found += page["resources"]
            pages += 1
            if pages == 1:
                assert page["templates"] == ["y://{a}", "live:{number}"]
            if "nextCursor" not in page:
                break
            arguments = {"cursor": page["nextCursor"]}
        assert [item["uri"] for item in found] == [item["uri"] for item in await listed(peer)]
        assert pages > 1
        assert [item.get("mimeType") for item in found if item["uri"] == "x://tea.md"] == ["text/markdown"]


async def test_a_directory_can_be_looked_into_page_by_page() -> None:
    async with memory.connect(library()) as peer:
        page = json.loads(texts(await call(peer, "list_resources", directory="live:dir")))
        assert [item["uri"] for item in page["resources"]] == ["live:0", "live:1", "live:2"]
        more = await call(peer, "list_resources", directory="live:dir", cursor=page["nextCursor"])
        page = json.loads(texts(more))
        assert ([item["uri"] for item in page["resources"]], "nextCursor" in page) == (["live:3"], False)


async def test_contents_come_in_the_form_that_a_model_can_take() -> None:
    async with memory.connect(library()) as peer:

        async def block(uri: str) -> dict[str, Any]:
            (one,) = (await call(peer, "read_resource", uri=uri))["content"]
            return one

        assert await block("x://tea.md") == {"type": "text", "text": "# Tea"}
        assert await block("y://1") == {"type": "text", "text": "member 1"}
        assert await block("live:3") == {"type": "text", "text": "live:3"}
        picture = await block("x://picture")
        assert (picture["type"], picture["mimeType"]) == ("image", "image/png")
        assert base64.b64decode(picture["data"]) == b"\x89PNG"
        assert (await block("x://sound"))["type"] == "audio"
        blob = await block("x://blob")
        assert (blob["type"], blob["resource"]["uri"]) == ("resource", "x://blob")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tea", ["x://tea.md"]),
        ("HOW TO", ["x://tea.md"]),
        ("x://s", ["x://sound"]),
        ("3", ["live:3"]),
        ("nowhere", []),
    ],
)
async def test_names_titles_and_uris_are_searched(query: str, found: list[str]) -> None:
    async with memory.connect(library()) as peer:
        page = json.loads(texts(await call(peer, "search_resources", query=query)))
        assert [item["uri"] for item in page["resources"]] == found


async def test_a_search_returns_as_much_as_was_asked_for_and_never_more_than_100() -> None:
    app = Server("s")
    for number in range(150):
        app.resources.add(f"x://{number}/page", "")
    app.add_resource_tools()
    async with memory.connect(app) as peer:
        for limit, count in ((1, 1), (20, 20), (1000, 100)):
            page = json.loads(texts(await call(peer, "search_resources", query="page", limit=limit)))
            assert len(page["resources"]) == count
        assert len(json.loads(texts(await call(peer, "search_resources", query="page")))["resources"]) == 20


@pytest.mark.parametrize("revision", [JUNE, LATEST])
@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("read_resource", {"uri": "x://nowhere"}, "x://nowhere"),
        ("read_resource", {"uri": "live:secret"}, "live:secret"),
        ("read_resource", {"uri": "no uri"}, "uri"),
        ("list_resources", {"cursor": "abc"}, "cursor"),
        ("list_resources", {"directory": "live:dir", "cursor": "abc"}, "cursor"),
        ("list_resources", {"directory": "live:3"}, "live:3"),
        ("list_resources", {"directory": "x://tea.md"}, "x://tea.md"),
        ("search_resources", {"query": "x", "limit": 0}, "limit"),
        ("search_resources", {"query": "x", "limit": -5}, "limit"),
    ],
)
async def test_errors_of_resource_tools_are_told_to_the_model(
    revision: str, name: str, arguments: dict[str, Any], told: str
) -> None:
    async with memory.connect(library(), revision) as peer:
        found = await call(peer, name, **arguments)
        assert found["isError"] is True
        assert told in texts(found)
        assert "line 7" not in texts(found)


async def test_the_names_of_the_tools_have_to_be_free() -> None:
    app = Server("s")
    app.tools.add(lambda: "", name="read_resource")
    with pytest.raises(ConfigError, match="read_resource"):
        app.add_resource_tools()
