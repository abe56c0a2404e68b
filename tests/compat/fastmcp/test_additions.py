"""Middleware, transforms, providers of files, configurations and contrib of the face of ``fastmcp``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from carrel.compat.fastmcp import Client, ClientGroup, FastMCP
from carrel.compat.fastmcp.contrib.bulk_tool_caller import BulkToolCaller
from carrel.compat.fastmcp.contrib.mcp_mixin import MCPMixin, mcp_prompt, mcp_resource, mcp_tool
from carrel.compat.fastmcp.exceptions import McpError, ToolError
from carrel.compat.fastmcp.mcp_config import MCPConfig, update_config_file
from carrel.compat.fastmcp.resources import ResourceContent, ResourceResult, ResourceSecurity
from carrel.compat.fastmcp.server.middleware.caching import ResponseCachingMiddleware
from carrel.compat.fastmcp.server.middleware.rate_limiting import (
    RateLimitingMiddleware,
    SlidingWindowRateLimitingMiddleware,
)
from carrel.compat.fastmcp.server.middleware.response_limiting import ResponseLimitingMiddleware
from carrel.compat.fastmcp.server.middleware.tool_injection import PromptToolMiddleware
from carrel.compat.fastmcp.server.providers.filesystem import FileSystemProvider
from carrel.compat.fastmcp.server.providers.skills import SkillsDirectoryProvider
from carrel.compat.fastmcp.server.transforms import PromptsAsTools, ResourcesAsTools
from carrel.compat.fastmcp.server.transforms.search import (
    BM25SearchTransform,
    RegexSearchTransform,
    serialize_tools_for_output_markdown,
)
from carrel.compat.fastmcp.tools import Tool, ToolResult
from carrel.compat.fastmcp.utilities.inspect import format_info, inspect_fastmcp
from carrel.compat.fastmcp.utilities.key_value import MemoryStore
from carrel.compat.fastmcp.utilities.skills import sync_skills


def text_of(result: Any) -> str:
    return str(result.content[0].text)


async def test_repeated_calls_are_answered_from_memory_except_of_excluded_tools() -> None:
    caching = ResponseCachingMiddleware(call_tool_settings={"excluded_tools": ["fresh"]})
    mcp = FastMCP("caches", middleware=[caching])
    calls: list[str] = []
    for name in ("kept", "fresh"):
        mcp.tool(lambda a, name=name: calls.append(name) or f"{len(calls)}", name=name, exclude_args=["name"])  # type: ignore[misc, func-returns-value]
    for name in ("kept", "kept", "fresh", "fresh"):
        await mcp.call_tool(name, {"a": 1})
    await mcp.call_tool("kept", {"a": 2})
    assert calls == ["kept", "fresh", "fresh", "kept"]
    counts = caching.statistics().call_tool
    assert (counts.hit, counts.miss, counts.put) == (1, 2, 2)


async def test_results_are_kept_in_a_store_and_errors_are_not() -> None:
    store = MemoryStore()
    calls: list[str] = []

    def server() -> FastMCP:
        mcp = FastMCP("caches", middleware=[ResponseCachingMiddleware(cache_storage=store)])

        @mcp.tool(tags={"a"})
        def add(a: int, b: int) -> int:
            calls.append("add")
            return a + b

        @mcp.tool
        def fails() -> ToolResult:
            calls.append("fails")
            return ToolResult("no", is_error=True)

        @mcp.resource("data://{name}")
        def data(name: str) -> ResourceResult:
            calls.append(name)
            return ResourceResult([ResourceContent(b"\xff", meta={"b": 1}), ResourceContent("t")], meta={"a": 1})

        @mcp.prompt
        def ask(what: str) -> str:
            calls.append("ask")
            return f"What is {what}?"

        return mcp

    results = []
    for _ in range(2):
        async with Client(server()) as client:
            results.append(
                [
                    await client.list_tools(),
                    await client.list_prompts(),
                    await client.call_tool("add", {"a": 1, "b": 2} if results else {"b": 2, "a": 1}),
                    await client.call_tool("fails", {}, raise_on_error=False),
                    await client.read_resource_mcp("data://x"),
                    await client.get_prompt("ask", {"what": "tea"}),
                ]
            )
    assert results[0] == results[1]
    assert calls == ["add", "fails", "x", "ask", "fails"]


async def test_rates_and_sizes_are_limited() -> None:
    mcp = FastMCP("limits", middleware=[RateLimitingMiddleware(0.001, 2, lambda context: "me")])
    mcp.add_middleware(ResponseLimitingMiddleware(max_size=200, truncation_suffix=" (cut)", tools=["long"]))
    mcp.tool(lambda: "x" * 1000, name="long")
    found = text_of(await mcp.call_tool("long"))
    assert found.endswith("x (cut)")
    assert len(found) < 200
    await mcp.call_tool("long")
    with pytest.raises(McpError, match="Rate limit exceeded for client: me"):
        await mcp.call_tool("long")
    sliding = FastMCP("sliding", middleware=[SlidingWindowRateLimitingMiddleware(1, 5)])
    await sliding.list_tools()
    with pytest.raises(McpError, match="1 requests per 5 minutes for client: global"):
        await sliding.list_tools()


async def test_resources_and_prompts_are_tools_too() -> None:
    mcp = FastMCP("tools", middleware=[PromptToolMiddleware()])
    mcp.resource("data://{x}", name="data", description="Data")(lambda x: f"<{x}>")
    mcp.prompt(lambda who: f"Greet {who}", name="greet")
    mcp.add_transform(ResourcesAsTools(mcp))
    async with Client(mcp) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert names == ["list_prompts", "get_prompt", "list_resources", "read_resource"]
        described = (await client.list_tools())[-1].inputSchema["properties"]["uri"]["description"]
        assert described == "The URI of the resource to read"
        listed = json.loads(text_of(await client.call_tool("list_resources")))
        assert listed == [{"uri_template": "data://{x}", "name": "data", "description": "Data"}]
        assert text_of(await client.call_tool("read_resource", {"uri": "data://1"})) == "<1>"
        assert "Greet Ada" in text_of(
            await client.call_tool("get_prompt", {"name": "greet", "arguments": {"who": "Ada"}})
        )
    other = FastMCP("prompts")
    other.prompt(lambda who: f"Greet {who}", name="greet")
    other.add_transform(PromptsAsTools(other))
    found = await other.call_tool("get_prompt", {"name": "greet", "arguments": {"who": "Ada"}})
    assert json.loads(text_of(found))["messages"] == [{"role": "user", "content": "Greet Ada"}]
    with pytest.raises(TypeError, match="ResourcesAsTools requires a FastMCP server"):
        ResourcesAsTools(object())


@pytest.mark.parametrize(
    ("transform", "query"),
    [(BM25SearchTransform(max_results=1), {"query": "weather town"}), (RegexSearchTransform(), {"pattern": "WEAT.er"})],
)
async def test_tools_are_found_by_search_and_called(transform: Any, query: dict[str, str]) -> None:
    mcp = FastMCP("many")

    @mcp.tool
    def weather(town: str) -> str:
        """Tell the weather of a town."""
        return f"rain in {town}"

    mcp.tool(lambda: "sum", name="add", description="Add numbers in a town")
    mcp.add_transform(transform)
    async with Client(mcp) as client:
        assert [tool.name for tool in await client.list_tools()] == ["search_tools", "call_tool"]
        found = (await client.call_tool("search_tools", query)).structured_content
        assert [each["name"] for each in found["result"]] == ["weather"]  # type: ignore[index]
        arguments = {"name": "weather", "arguments": {"town": "Oslo"}}
        assert text_of(await client.call_tool("call_tool", arguments)) == "rain in Oslo"
        with pytest.raises(ToolError, match="synthetic search tool"):
            await client.call_tool("call_tool", {"name": "search_tools"})
    shown = serialize_tools_for_output_markdown([Tool.from_function(weather)])
    assert shown.startswith("### weather\n\nTell the weather of a town.\n\n**Parameters**\n- `town` (string, required)")


async def test_marked_functions_in_files_are_components(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    header = "from carrel.compat.fastmcp.tools import tool\nfrom carrel.compat.fastmcp.resources import resource\n"
    (tmp_path / "one.py").write_text(f"{header}@tool\ndef one() -> int:\n    return 1\n")
    package = tmp_path / "inner_of_files"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "base.py").write_text("VALUE = 'inner'\n")
    (package / "two.py").write_text(
        f"{header}from .base import VALUE\n@resource('data://two')\ndef two() -> str:\n    return VALUE\n"
    )
    (tmp_path / "broken.py").write_text("1 / 0\n")
    mcp = FastMCP("files", providers=[FileSystemProvider(tmp_path, reload=True)])
    async with Client(mcp) as client:
        assert (await client.call_tool("one")).data == 1
        assert (await client.read_resource("data://two"))[0].text == "inner"  # type: ignore[union-attr]
        (tmp_path / "three.py").write_text(f"{header}@tool\ndef three() -> int:\n    return 3\n")
        assert (await client.call_tool("three")).data == 3
    assert caplog.text.count("division by zero") == 1


async def test_skills_are_resources_and_are_downloaded(tmp_path: Path) -> None:
    skill = tmp_path / "skills" / "cook"
    (skill / "notes").mkdir(parents=True)
    (skill / "SKILL.md").write_text('---\nname: cook\ndescription: "Cook well"\n---\n# Cook\n')
    (skill / "notes" / "more.txt").write_text("salt")
    mcp = FastMCP("skills", providers=[SkillsDirectoryProvider(tmp_path / "skills")])
    async with Client(mcp) as client:
        found = {str(each.uri): each.description for each in await client.list_resources()}
        assert found == {"skill://cook/SKILL.md": "Cook well", "skill://cook/_manifest": "File listing for cook"}
        assert (await client.read_resource("skill://cook/notes/more.txt"))[0].text == "salt"  # type: ignore[union-attr]
        with pytest.raises(Exception, match="Resource not found"):
            await client.read_resource("skill://cook/a%2F..%2F..%2F..%2Fx")
        assert await sync_skills(client, tmp_path / "copies") == [tmp_path / "copies" / "cook"]
    assert (tmp_path / "copies" / "cook" / "notes" / "more.txt").read_text() == "salt"


async def test_variables_of_templates_cannot_lead_out_of_a_folder() -> None:
    mcp = FastMCP("safe", resource_security=ResourceSecurity(exempt_params={"free"}))
    mcp.resource("path://{path*}", name="file")(lambda path: path)
    mcp.resource("free://{free*}", name="free")(lambda free: free)
    async with Client(mcp) as client:
        assert (await client.read_resource("path://a/b.txt"))[0].text == "a/b.txt"  # type: ignore[union-attr]
        assert (await client.read_resource("free://a%2F..%2Fb"))[0].text == "a/../b"  # type: ignore[union-attr]
        for path in ("a%2F..%2Fb", "%2Fetc%2Fpasswd", "a%00b"):
            with pytest.raises(McpError, match="Resource not found"):
                await client.read_resource(f"path://{path}")


class Kitchen(MCPMixin):
    """Object with a tool, a resource and a prompt."""

    @mcp_tool(description="Cook")
    def cook(self, dish: str) -> str:
        return f"hot {dish}"

    @mcp_tool(enabled=False)
    def hidden(self) -> str:
        return ""

    @mcp_resource("menu://today")
    def menu(self) -> str:
        return "soup"

    @mcp_prompt()
    def order(self) -> str:
        return "Order soup"


async def test_methods_are_registered_and_tools_called_in_bulk() -> None:
    mcp = FastMCP("mixed")
    Kitchen().register_all(mcp, prefix="k")
    BulkToolCaller().register_tools(mcp)
    async with Client(mcp) as client:
        names = sorted(tool.name for tool in await client.list_tools())
        assert names == ["call_tool_bulk", "call_tools_bulk", "k_cook"]
        assert [str(each.uri) for each in await client.list_resources()] == ["k+menu://today"]
        assert [each.name for each in await client.list_prompts()] == ["k_order"]
        calls = {"tool": "k_cook", "tool_arguments": [{"dish": "soup"}, {"dish": "pie"}]}
        found = (await client.call_tool("call_tool_bulk", calls)).structured_content
        texts = [each["content"][0]["text"] for each in found["result"]]  # type: ignore[index]
        assert texts == ["hot soup", "hot pie"]


async def test_a_server_is_inspected_and_its_configuration_written(tmp_path: Path) -> None:
    mcp = FastMCP("seen", version="2")
    mcp.tool(lambda: "x", name="one", tags={"a"})
    info = await inspect_fastmcp(mcp)
    assert (info.name, info.version, info.tools[0].key, info.tools[0].tags) == ("seen", "2", "tool:one@", ["a"])
    assert json.loads(await format_info(mcp, "fastmcp"))["tools"][0]["name"] == "one"
    assert json.loads(await format_info(mcp, "mcp"))["serverInfo"]["name"] == "seen"
    path = tmp_path / "mcp.json"
    config = MCPConfig.from_dict({"one": {"command": "a"}, "two": {"url": "https://x.example/sse"}})
    config.write_to_file(path)
    update_config_file(path, "one", type(config.mcpServers["one"])(command="b"))  # type: ignore[call-arg]
    found = MCPConfig.from_file(path)
    assert found.mcpServers["one"].command == "b"  # type: ignore[union-attr]
    assert type(found.mcpServers["two"].to_transport()).__name__ == "SSETransport"
    with pytest.raises(ValueError, match="No MCP servers defined"):
        MCPConfig.from_file(tmp_path / "none.json")


async def test_a_group_of_clients_calls_tools_by_the_names_of_their_servers() -> None:
    one, two = FastMCP("one"), FastMCP("two")
    one.tool(lambda: "1", name="get")
    two.tool(lambda: "2", name="get")
    async with ClientGroup({"a": Client(one), "b": Client(two)}) as group:
        assert [tool.name for tool in await group.list_tools()] == ["a_get", "b_get"]
        assert text_of(await group.call_tool("b_get")) == "2"
