"""Providers and transforms of the face of ``fastmcp``: proxies, APIs described in OpenAPI, files and changed tools."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from carrel.compat.fastmcp import Client, Context, FastMCP
from carrel.compat.fastmcp.exceptions import ToolError
from carrel.compat.fastmcp.server.providers.base import Provider
from carrel.compat.fastmcp.server.providers.openapi import MCPType, RouteMap
from carrel.compat.fastmcp.server.proxy import ProxyClient, create_proxy
from carrel.compat.fastmcp.server.transforms import Namespace, ToolTransform, VersionFilter
from carrel.compat.fastmcp.tools import ArgTransform, Tool, forward
from carrel.compat.fastmcp.tools.tool_transform import ArgTransformConfig, ToolTransformConfig

DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "https://shop.example"}],
    "paths": {
        "/items": {
            "get": {"operationId": "list_items", "tags": ["read"], "responses": {"200": {"description": "Items"}}},
            "post": {
                "operationId": "add_item",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}},
                },
                "responses": {"201": {"description": "Added"}},
            },
        },
        "/items/{id}": {
            "get": {
                "operationId": "get_item",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "Item"}},
            }
        },
        "/secret": {"get": {"operationId": "secret", "responses": {}}},
    },
    "components": {
        "schemas": {
            "Item": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                "required": ["name"],
            }
        }
    },
}


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def answer(request: httpx.Request) -> httpx.Response:
    if request.method == "POST":
        return httpx.Response(201, json={"added": request.content.decode(), "auth": request.headers["x-key"]})
    if request.url.path == "/items/404":
        return httpx.Response(404, json={"why": "unknown"})
    if request.url.path == "/items/moved":
        return httpx.Response(302, headers={"location": "https://other.example/"})
    return httpx.Response(200, json=[str(request.url.path)])


async def test_routes_of_an_api_become_tools_resources_and_templates() -> None:
    maps = [
        RouteMap(pattern="^/secret", mcp_type=MCPType.EXCLUDE),
        RouteMap(methods=["GET"], pattern=r".*\{.*\}.*", mcp_type=MCPType.RESOURCE_TEMPLATE, mcp_tags={"one"}),
        RouteMap(methods=["GET"], tags={"read"}, mcp_type=MCPType.RESOURCE),
    ]
    api = httpx.AsyncClient(
        transport=httpx.MockTransport(answer), base_url="https://shop.example", headers={"X-Key": "k"}
    )
    mcp = FastMCP.from_openapi(DESCRIPTION, api, route_maps=maps, mcp_names={"add_item": "new item"})
    async with Client(mcp) as client:
        tools = await client.list_tools()
        assert [tool.name for tool in tools] == ["new_item"]
        assert tools[0].inputSchema["required"] == ["name"]
        assert tools[0].inputSchema["properties"].keys() == {"name", "size"}
        found = await client.call_tool("new_item", {"name": "pen", "size": 2})
        assert found.structured_content == {"added": '{"name":"pen","size":2}', "auth": "k"}
        assert [str(each.uri) for each in await client.list_resources()] == ["resource://list_items"]
        assert (await client.read_resource("resource://get_item/7"))[0].text == '["/items/7"]'  # type: ignore[union-attr]
        with pytest.raises(Exception, match=r"HTTP error 404: Not Found - {'why': 'unknown'}"):
            await client.read_resource("resource://get_item/404")
        with pytest.raises(Exception, match="HTTP error 302: Found"):
            await client.read_resource("resource://get_item/moved")


def test_a_description_that_is_none_or_names_no_server_is_refused() -> None:
    with pytest.raises(ValueError, match="No server URL found in OpenAPI spec"):
        FastMCP.from_openapi({"openapi": "3.1.0", "paths": {}})
    with pytest.raises(ValueError, match="Invalid OpenAPI schema"):
        FastMCP.from_openapi({"swagger": "2.0", "servers": [{"url": "https://a.example"}]})


async def test_a_proxy_passes_calls_reads_prompts_and_questions_on() -> None:
    backend = FastMCP("backend")

    @backend.tool
    async def ask(name: str, ctx: Context) -> str:
        await ctx.info("asking")
        found = await ctx.elicit(f"Hello {name}?", response_type=str)
        return str(found.data)

    @backend.resource("data://{x}")
    def data(x: str) -> str:
        return x.upper()

    @backend.prompt
    def greet(name: str) -> str:
        return f"Greet {name}"

    logged: list[Any] = []

    async def log(message: Any) -> None:
        logged.append(message.data["msg"])

    async def answer(message: str, kind: Any, params: Any, context: Any) -> Any:
        return {"value": message}

    front = FastMCP("front")
    front.mount(create_proxy(ProxyClient(backend)), namespace="b")
    async with Client(front, elicitation_handler=answer, log_handler=log) as client:
        assert (await client.call_tool("b_ask", {"name": "Ada"})).data == "Hello Ada?"
        assert (await client.read_resource("data://b/q"))[0].text == "Q"  # type: ignore[union-attr]
        assert (await client.get_prompt("b_greet", {"name": "Ada"})).messages[0].content.text == "Greet Ada"
    assert logged == ["asking"]


async def test_a_client_of_several_servers_sees_all_of_them_with_their_names() -> None:
    first, second = FastMCP("first"), FastMCP("second")
    first.tool(lambda: "1", name="one")
    second.tool(lambda: "2", name="two")
    front = FastMCP("front", providers=[])
    front.mount(first, "first")
    front.add_provider(second, namespace="second")
    async with Client(front) as client:
        assert [tool.name for tool in await client.list_tools()] == ["first_one", "second_two"]


async def test_tools_are_changed_with_their_arguments() -> None:
    mcp = FastMCP("changed")

    def add(a: int, b: int, base: int = 10) -> int:
        """Add."""
        return a + b + base

    async def doubled(x: int, **rest: Any) -> Any:
        found = await forward(x=x * 2, **rest)
        return found.structured_content["result"] * 2

    names = {"a": ArgTransform(name="x", description="First"), "base": ArgTransform(hide=True, default=100)}
    mcp.add_tool(Tool.from_tool(add, name="plus", transform_args=names))
    mcp.add_tool(Tool.from_tool(add, name="double", transform_fn=doubled, transform_args=names))
    changes = {"plus": ToolTransformConfig(name="sum", arguments={"b": ArgTransformConfig(default=5)})}
    mcp.add_transform(ToolTransform(changes))
    async with Client(mcp) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert tools["sum"].inputSchema["properties"]["x"] == {"type": "integer", "description": "First"}
        assert tools["sum"].inputSchema["required"] == ["x"]
        assert (await client.call_tool("sum", {"x": 1})).data == 106
        assert (await client.call_tool("double", {"x": 1, "b": 2})).data == 208
        with pytest.raises(ToolError):
            await client.call_tool("plus", {"x": 1})
    with pytest.raises(ValueError, match="Unknown arguments in transform_args: c"):
        Tool.from_tool(add, transform_args={"c": ArgTransform()})
    with pytest.raises(ValueError, match="Hidden parameter 'a' has no default value"):
        Tool.from_tool(add, transform_args={"a": ArgTransform(hide=True)})
    with pytest.raises(ValueError, match="Multiple arguments would be mapped to the same names: b"):
        Tool.from_tool(add, transform_args={"a": ArgTransform(name="b")})
    with pytest.raises(RuntimeError, match="can only be called within a transformed tool"):
        await forward(x=1)


async def test_versions_are_filtered_and_requested() -> None:
    mcp = FastMCP("versions")
    for version in ("1.0", "1.10", "2.0"):
        mcp.tool(lambda version=version: version, name="v", version=version)  # type: ignore[misc]
    async with Client(mcp) as client:
        assert text_of(await client.call_tool("v")) == "2.0"
        assert text_of(await client.call_tool("v", version="1.0")) == "1.0"
        assert (await client.list_tools())[0].meta["fastmcp"]["versions"] == ["2.0", "1.10", "1.0"]  # type: ignore[index]
    mcp.add_transform(VersionFilter(version_lt="2"))
    assert text_of(await mcp.call_tool("v")) == "1.10"
    with pytest.raises(ValueError, match="Cannot add unversioned tool 'v'"):
        mcp.tool(lambda: "x", name="v")


async def test_a_provider_of_a_program_is_asked_and_a_failing_one_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Made(Provider):
        async def _list_tools(self) -> Any:
            return [Tool.from_function(lambda: "made", name="made")]

    class Broken(Provider):
        async def _list_tools(self) -> Any:
            raise OSError("no disk")

    made = Made()
    made.add_transform(Namespace("x"))
    mcp = FastMCP("made", providers=[made, Broken()])
    assert text_of(await mcp.call_tool("x_made")) == "made"
    assert [tool.name for tool in await mcp.list_tools()] == ["x_made"]
    assert "no disk" in caplog.text
    made.disable(tags={"none"})
    made.disable(names={"x_made"})
    assert await mcp.list_tools() == []
