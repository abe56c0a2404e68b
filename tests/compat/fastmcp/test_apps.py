"""Apps of FastMCP: the tools that open them, and the tools that they call by address."""

from __future__ import annotations

from typing import Any

import pytest

from carrel import Client
from carrel.compat import generation
from carrel.compat.fastmcp import FastMCP, FastMCPApp
from carrel.compat.fastmcp.apps.prefab import addresses, readdress
from carrel.compat.fastmcp.server.providers.addressing import (
    hash_tool,
    hashed_backend_name,
    parse_hashed_backend_name,
    parse_hashed_resource_uri,
)
from carrel.compat.fastmcp.tools import Tool, ToolResult
from carrel.compat.mcp2.types import Icon, ToolAnnotations

SAVE = hashed_backend_name("Notes", "save")


def notes() -> FastMCPApp:
    app = FastMCPApp("Notes")

    @app.tool
    def save(text: str) -> str:
        return f"saved {text}"

    @app.tool("all", model=True)
    def every() -> list[str]:
        return ["a"]

    @app.ui(title="Notes", annotations=ToolAnnotations(read_only_hint=True), icons=[Icon(src="data:,a")])
    def show() -> ToolResult:
        content: dict[str, Any] = {"view": [{"action": "toolCall", "tool": SAVE}]}
        return ToolResult("shown", {**content, "_meta": {"fastmcp": {"toolNames": {SAVE: SAVE}}}})

    return app


def served(app: FastMCPApp, namespace: str | None = None) -> FastMCP:
    inner: FastMCP = FastMCP("inner")
    inner.add_provider(app)
    outer: FastMCP = FastMCP("outer")
    outer.mount(inner, namespace)
    return outer


async def test_version_3_lists_no_tool_that_only_apps_call_and_no_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "installed_fastmcp", lambda: "3.4.11")
    async with Client(served(notes())._mcp_server.application()) as client:
        tools = {tool.name: dict(tool.meta or {}) for tool in await client.list_tools()}
        assert {name: each["fastmcp"] for name, each in tools.items()} == {
            "all": {"app": "Notes", "tags": []},
            "show": {"app": "Notes", "tags": []},
        }
        assert parse_hashed_resource_uri(tools["show"]["ui"]["resourceUri"]) == hash_tool("Notes", "show")
        assert (await client.call_tool(SAVE, {"text": "it"})).structured_content == {"result": "saved it"}


async def test_tools_of_an_app_declare_who_calls_them() -> None:
    async with Client(served(notes())._mcp_server.application()) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
    meta = {name: dict(tool.meta or {}) for name, tool in tools.items()}
    assert {name: each["ui"]["visibility"] for name, each in meta.items()} == {
        "save": ["app"],
        "all": ["app", "model"],
        "show": ["model"],
    }
    assert meta["save"]["fastmcp"] == {"app": "Notes", "tool_hash": hash_tool("Notes", "save"), "tags": []}
    assert parse_hashed_resource_uri(meta["show"]["ui"]["resourceUri"]) == hash_tool("Notes", "show")
    assert tools["show"].annotations is not None
    assert tools["show"].annotations.read_only_hint
    assert tools["show"].icons is not None


async def test_an_app_calls_its_tools_by_address_and_sees_the_names_of_the_outermost_server() -> None:
    async with Client(served(notes(), "x")._mcp_server.application()) as client:
        assert (await client.call_tool(SAVE, {"text": "b"})).text == "saved b"
        shown = (await client.call_tool("x_show")).structured_content
    assert shown is not None
    assert shown["view"] == [{"action": "toolCall", "tool": "x_save"}]
    assert addresses(shown) == {"x_save": SAVE}


async def test_an_address_finds_no_hidden_tool_and_no_tool_that_only_the_model_calls() -> None:
    server = served(notes(), "x")
    server.disable(names={"x_save"})
    async with Client(server._mcp_server.application()) as client:
        for name in ("save", "show", "none"):
            result = await client.call_tool(hashed_backend_name("Notes", name), {"text": "b"})
            assert (result.is_error, "Unknown tool" in result.text) == (True, True)


async def test_a_provider_finds_a_tool_by_the_name_of_its_app() -> None:
    app = notes()
    assert (await app.get_app_tool("Notes", "save")).name == "save"
    assert await app.get_app_tool("Other", "save") is None
    assert await app.get_app_tool("Notes", "show") is None


def test_a_name_that_two_tools_have_is_replaced_by_the_address() -> None:
    tool = notes().add_tool(Tool.from_function(lambda: 1, name="more"))
    address = hashed_backend_name("Notes", "more")
    for others in ([tool], [Tool.from_function(lambda: 2, name="more")]):
        content = {"action": "toolCall", "tool": "more", "_meta": {"fastmcp": {"toolNames": {"more": address}}}}
        readdress(content, [tool, *others])
        assert content["tool"] == address


def test_an_address_is_a_hash_and_a_name() -> None:
    assert parse_hashed_backend_name(SAVE) == (hash_tool("Notes", "save"), "save")
    for wrong in ("save", "0123456789a_save", "0123456789ag_save", "0123456789ab_"):
        assert parse_hashed_backend_name(wrong) is None
