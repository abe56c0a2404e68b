"""MCP Apps: pages, tools that point at them, and what those get who do not show pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from carrel import Context, Server
from carrel.errors import ConfigError
from carrel.transports import memory

UI = "io.modelcontextprotocol/ui"
HTML = "text/html;profile=mcp-app"
PAGE = "<!doctype html><title>Weather</title>"
URI = "ui://weather/dashboard.html"
SHOWS = {"extensions": {UI: {"mimeTypes": [HTML]}}}
LATEST, NOVEMBER, JUNE, MARCH = "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"


def build(**options: Any) -> Server:
    app = Server("x", **options)
    app.ui(
        URI,
        PAGE,
        title="Weather",
        csp={"connect_domains": ["https://api.example.com"], "resourceDomains": ["https://*.example.com"]},
        permissions=["geolocation", "clipboard_write"],
        domain="abc.pages.example",
        prefers_border=True,
    )

    @app.tool(ui=URI, meta={"example.com/k": 1})
    async def weather(city: str, ctx: Context) -> dict[str, Any]:
        return {"city": city, "shown": ctx.shows_pages}

    @app.tool(ui=URI, visibility=["app"])
    async def refresh() -> str:
        return "refreshed"

    @app.tool(visibility=["model"])
    async def forecast() -> str:
        return "rain"

    @app.tool()
    async def plain() -> str:
        return "plain"

    return app


async def tools(peer: memory.MemoryPeer) -> dict[str, Any]:
    listed = (await peer.request("tools/list"))["result"]["tools"]
    return {tool["name"]: tool.get("_meta") for tool in listed}


async def test_a_page_is_a_resource_that_says_what_it_needs() -> None:
    ui = {
        "csp": {"connectDomains": ["https://api.example.com"], "resourceDomains": ["https://*.example.com"]},
        "permissions": {"geolocation": {}, "clipboardWrite": {}},
        "domain": "abc.pages.example",
        "prefersBorder": True,
    }
    async with memory.connect(build(), **SHOWS) as peer:
        [listed] = (await peer.request("resources/list"))["result"]["resources"]
        [contents] = (await peer.request("resources/read", {"uri": URI}))["result"]["contents"]
    assert listed == {
        "uri": URI,
        "name": "dashboard.html",
        "title": "Weather",
        "mimeType": HTML,
        "size": len(PAGE),
        "_meta": {"ui": ui},
    }
    assert contents == {"uri": URI, "mimeType": HTML, "text": PAGE, "_meta": {"ui": ui}}


async def test_a_page_that_needs_nothing_says_nothing() -> None:
    app = Server("x")
    app.ui("ui://page", PAGE, meta={"example.com/k": 1})
    async with memory.connect(app, **SHOWS) as peer:
        [listed] = (await peer.request("resources/list"))["result"]["resources"]
        [contents] = (await peer.request("resources/read", {"uri": "ui://page"}))["result"]["contents"]
    assert listed["_meta"] == {"example.com/k": 1}
    assert "_meta" not in contents


async def test_a_page_in_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    app = Server("x")
    app.ui(URI, path, prefers_border=False)
    async with memory.connect(app, **SHOWS) as peer:
        for text in (PAGE, "<!doctype html><title>New</title>"):
            path.write_text(text)
            [contents] = (await peer.request("resources/read", {"uri": URI}))["result"]["contents"]
            assert contents == {"uri": URI, "mimeType": HTML, "text": text, "_meta": {"ui": {"prefersBorder": False}}}


@pytest.mark.parametrize("revision", [LATEST, NOVEMBER, JUNE])
async def test_a_client_that_shows_pages_sees_what_tools_say_of_them(revision: str) -> None:
    async with memory.connect(build(), revision, **SHOWS) as peer:
        assert await tools(peer) == {
            "weather": {"example.com/k": 1, "ui": {"resourceUri": URI}},
            "refresh": {"ui": {"resourceUri": URI, "visibility": ["app"]}},
            "forecast": {"ui": {"visibility": ["model"]}},
            "plain": None,
        }


@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"extensions": {}},
        {"extensions": {UI: {"mimeTypes": ["text/plain"]}}},
        {"extensions": {UI: {"mimeTypes": 1}}},
    ],
)
@pytest.mark.parametrize("revision", [LATEST, NOVEMBER, JUNE])
async def test_any_other_client_sees_tools_without_pages_and_none_that_only_pages_call(
    revision: str, capabilities: dict[str, Any]
) -> None:
    async with memory.connect(build(), revision, **capabilities) as peer:
        assert await tools(peer) == {"weather": {"example.com/k": 1}, "forecast": None, "plain": None}


async def test_a_revision_without_a_place_for_it_is_as_a_client_that_shows_no_pages() -> None:
    async with memory.connect(build(), MARCH, **SHOWS) as peer:
        assert await tools(peer) == {"weather": None, "forecast": None, "plain": None}
        result = (await peer.request("tools/call", {"name": "weather", "arguments": {"city": "Ulm"}}))["result"]
        assert result["content"][0]["text"] == '{"city":"Ulm","shown":false}'


async def test_both_lists_stand_side_by_side_and_change_together() -> None:
    app = build()
    async with memory.connect(app) as peer:
        for _ in range(2):
            peer.capabilities = SHOWS
            assert "refresh" in await tools(peer)
            peer.capabilities = {}
            assert "refresh" not in await tools(peer)
        app.tools.remove("plain")
        assert "plain" not in await tools(peer)
        peer.capabilities = SHOWS
        assert "plain" not in await tools(peer)


async def test_lists_that_depend_on_the_client_are_for_it_alone() -> None:
    async with memory.connect(build(scope="public")) as peer:
        for peer.capabilities in ({}, SHOWS):
            assert (await peer.request("tools/list"))["result"]["cacheScope"] == "private"
    app = Server("x", scope="public")
    app.tools.add(lambda: "x", name="x")
    async with memory.connect(app) as peer:
        assert (await peer.request("tools/list"))["result"]["cacheScope"] == "public"


@pytest.mark.parametrize("capabilities", [{}, SHOWS])
async def test_every_client_gets_text_and_the_tool_knows_who_shows_pages(capabilities: dict[str, Any]) -> None:
    async with memory.connect(build(), **capabilities) as peer:
        result = (await peer.request("tools/call", {"name": "weather", "arguments": {"city": "Ulm"}}))["result"]
    assert result["structuredContent"] == {"city": "Ulm", "shown": bool(capabilities)}
    assert result["content"][0]["type"] == "text"


async def test_a_page_may_call_what_models_do_not_see() -> None:
    async with memory.connect(build(), **SHOWS) as peer:
        result = (await peer.request("tools/call", {"name": "refresh"}))["result"]
    assert result["content"][0]["text"] == "refreshed"


async def test_the_extension_is_declared_once_there_is_a_page_or_a_tool_for_one() -> None:
    async with memory.connect(build()) as peer:
        capabilities = (await peer.request("server/discover"))["result"]["capabilities"]
    assert capabilities["extensions"] == {UI: {}}


async def test_a_tool_whose_page_is_not_there_is_an_error_at_the_start() -> None:
    app = Server("x")
    app.tools.add(lambda: "x", name="lost", ui="ui://nowhere")
    with pytest.raises(ConfigError, match="lost points at ui://nowhere"):
        async with memory.connect(app):
            pass


async def test_uris_of_pages_may_be_spelled_in_any_way() -> None:
    app = Server("x")
    app.ui("UI://Weather/%64ash", PAGE)
    app.tools.add(lambda: "x", name="x", ui="ui://WEATHER/dash")
    async with memory.connect(app, **SHOWS) as peer:
        assert (await tools(peer))["x"] == {"ui": {"resourceUri": "ui://weather/dash"}}
        assert "result" in await peer.request("resources/read", {"uri": "ui://weather/dash"})


@pytest.mark.parametrize("uri", ["https://example.com/page", "ui:page", "ui://", "", "ui://a b"])
def test_a_uri_that_does_not_name_a_page_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="not the URI of a page"):
        Server("x").ui(uri, PAGE)
    with pytest.raises(ConfigError, match="not the URI of a page"):
        Server("x").tools.add(lambda: "x", name="x", ui=uri)


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"csp": {"connect": ["https://example.com"]}}, "unknown connect"),
        ({"csp": {"connect_domains": "https://example.com"}}, "csp"),
        ({"csp": {"connect_domains": ["https://example.com; script-src *"]}}, "not an origin"),
        ({"csp": {"frame_domains": ["'unsafe-eval'"]}}, "not an origin"),
        ({"csp": {"resource_domains": [""]}}, "not an origin"),
        ({"permissions": ["everything"]}, "unknown everything"),
        ({"permissions": "camera"}, "several"),
        ({"html": b"bytes"}, "text, or the Path"),
    ],
)
def test_invalid_details_of_a_page_are_refused(details: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Server("x").ui(URI, **{"html": PAGE, **details})


@pytest.mark.parametrize("visibility", [["user"], "everybody", [1]])
def test_an_invalid_visibility_of_a_tool_is_refused(visibility: Any) -> None:
    with pytest.raises(ConfigError, match="visibility"):
        Server("x").tools.add(lambda: "x", name="x", visibility=visibility)
