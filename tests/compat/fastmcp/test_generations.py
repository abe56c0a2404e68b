"""Differences between the responses of FastMCP 3 and 4, in this process."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from carrel import Client
from carrel.compat import generation
from carrel.compat.fastmcp import Client as FastMCPClient
from carrel.compat.fastmcp import Context, FastMCP
from carrel.compat.fastmcp.client.elicitation import ElicitResult
from carrel.compat.fastmcp.exceptions import ResourceError
from carrel.compat.fastmcp.prompts import Message
from carrel.compat.fastmcp.tools import ToolResult
from carrel.compat.mcp2.types import ImageContent, TextContent
from carrel.errors import PeerError, ResourceNotFound


@pytest.fixture(params=["3.4.11", "4.1.6"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Major version of the installed package."""
    monkeypatch.setattr(generation, "installed_fastmcp", lambda: request.param)
    return int(request.param[0])


@pytest.fixture
def mcp(version: int) -> FastMCP:
    """Server with a tool, a resource that cannot be read, and a prompt with an argument."""
    mcp = FastMCP("generations", experimental_capabilities={"own": {}})
    mcp.tool(lambda: "x", name="get_user-name")
    mcp.tool(lambda: "x", name="b", title="Own")

    @mcp.resource("data://broken")
    def broken() -> str:
        raise ResourceError("cannot be read")

    @mcp.prompt
    def explain(topic: str) -> str:
        return topic

    return mcp


async def test_tools_have_titles_from_their_names_in_4(mcp: FastMCP, version: int) -> None:
    async with Client(mcp._mcp_server.application()) as client:
        assert [tool.title for tool in await client.list_tools()] == [["Get User Name", None][version == 3], "Own"]


async def test_capabilities_are_those_of_the_version_for_each_revision(mcp: FastMCP, version: int) -> None:
    found = {}
    for revision in ("2025-11-25", "2026-07-28"):
        async with Client(mcp._mcp_server.application(), revision=revision) as client:
            found[revision] = client.capabilities
    assert [each.experimental for each in found.values()] == [{"own": {}}] * 2
    assert found["2025-11-25"].tools.list_changed  # type: ignore[union-attr]
    assert found["2026-07-28"].tools.list_changed == (version == 3)  # type: ignore[union-attr]
    assert found["2026-07-28"].extensions == {"io.modelcontextprotocol/ui": {}}
    assert found["2025-11-25"].extensions == (found["2026-07-28"].extensions if version == 3 else None)


async def test_error_responses_are_those_of_the_version(mcp: FastMCP, version: int) -> None:
    found = []
    async with Client(mcp._mcp_server.application()) as client:
        for use, name in (
            (client.read_resource, "none://such"),
            (client.read_resource, "data://broken"),
            (client.get_prompt, "none"),
            (client.get_prompt, "explain"),
        ):
            with pytest.raises((PeerError, ResourceNotFound)) as caught:
                await use(name)
            error = caught.value.__cause__ if isinstance(caught.value, ResourceNotFound) else caught.value
            assert isinstance(error, PeerError)
            found.append((error.code, error.message, error.data))
    missing, unknown = "Missing required arguments: {'topic'}", "Unknown prompt: 'none'"
    if version == 3:
        assert found == [
            (-32002, "Resource not found: Unknown resource: 'none://such'", None),
            (0, "cannot be read", None),
            (0, unknown, None),
            (0, f"Error rendering prompt 'explain': {missing}", None),
        ]
    else:
        assert found == [
            (-32602, "Resource not found: 'none://such'", {"uri": "none://such"}),
            (-32603, "cannot be read", None),
            (-32602, unknown, None),
            (-32602, missing, None),
        ]


async def test_objects_of_the_client_have_the_names_of_both_versions(mcp: FastMCP) -> None:
    async with FastMCPClient(mcp) as client:
        tool: Any = (await client.list_tools())[0]
        result: Any = await client.call_tool_mcp("b")
    assert tool.input_schema == tool.inputSchema
    assert result.is_error is result.isError is False
    assert not hasattr(result, "no_such_name")


async def test_a_tool_with_task_declares_tasks_in_3_and_is_answered_at_once_in_4(mcp: FastMCP, version: int) -> None:
    @mcp.tool(task=True)
    async def slow() -> str:
        return "done"

    async with Client(mcp._mcp_server.application(), revision="2025-11-25") as client:
        modes = [tool.execution and tool.execution.task_support for tool in await client.list_tools()]
        assert modes == [None, None, ["optional", None][version - 3]]
        assert (client.capabilities.tasks is not None) == (version == 3)  # type: ignore[union-attr]
        assert (await client.call_tool("slow", {})).structured_content == {"result": "done"}


async def test_a_form_has_the_members_of_a_schema_that_the_version_sends(mcp: FastMCP, version: int) -> None:
    forms: list[dict[str, Any]] = []

    async def fill_in(message: str, kind: Any, params: Any, context: Any) -> dict[str, Any]:
        forms.append(params.requestedSchema)
        return {"value": "red"}

    @mcp.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Which?", str)).data)

    async with FastMCPClient(mcp, elicitation_handler=fill_in) as client:
        assert (await client.call_tool("ask")).data == "red"
    assert ("title" in forms[0]) == (version == 3)
    assert "description" not in forms[0]
    assert forms[0]["required"] == ["value"]


async def test_the_session_asks_with_the_names_of_both_versions_and_answers_may_name_their_type(mcp: FastMCP) -> None:
    async def fill_in(message: str, kind: Any, params: Any, context: Any) -> ElicitResult[dict[str, Any]]:
        return ElicitResult[dict[str, Any]](action="accept", content={"value": message})

    schema: dict[str, Any] = {"type": "object", "properties": {"value": {"type": "string"}}}

    @mcp.tool
    async def ask(ctx: Context) -> list[Any]:
        one = await ctx.session.elicit_form("one", requested_schema=schema, related_request_id=ctx.request_id)
        two = await ctx.session.elicit_form("two", schema, ctx.request_id)
        return [one.content, two.content]

    async with FastMCPClient(mcp, elicitation_handler=fill_in) as client:
        assert (await client.call_tool("ask")).data == [{"value": "one"}, {"value": "two"}]


async def test_content_blocks_of_mcp_2_are_content_and_what_clients_get(mcp: FastMCP, version: int) -> None:
    text, image = TextContent(text="a"), ImageContent(data="aGk=", mime_type="image/png")

    @mcp.tool
    def one() -> TextContent:
        return text

    @mcp.tool
    def several() -> list[TextContent | ImageContent]:
        return [text, image]

    @mcp.tool
    def whole() -> ToolResult:
        return ToolResult([text, image], {"b": 1})

    @mcp.prompt
    def ask() -> Message:
        return Message(text)

    async with Client(mcp._mcp_server.application()) as client:
        assert all(tool.output_schema is None for tool in await client.list_tools() if tool.name in ("one", "several"))
        assert [len((await client.call_tool(name)).content) for name in ("one", "several", "whole")] == [1, 2, 2]
        assert (await client.call_tool("several")).structured_content is UNSET
        prompt = await client.get_prompt("ask")
        assert getattr(prompt.messages[0].content, "text", None) == "a"
    async with FastMCPClient(mcp) as caller:
        found = (await caller.call_tool("several")).content
    assert all(isinstance(block, TextContent | ImageContent) for block in found)
    assert found[1].mime_type == "image/png"


async def test_lists_have_all_pages_or_fail_and_requests_are_sent_whether_or_not_there_is_a_cache() -> None:
    mcp = FastMCP("pages", list_page_size=1)
    for name in ("a", "b", "c"):
        mcp.tool(lambda: "x", name=name)
    async with FastMCPClient(mcp, cache=True) as client:
        assert [tool.name for tool in await client.list_tools(max_pages=3)] == ["a", "b", "c"]
        with pytest.raises(RuntimeError, match=r"auto-pagination limit \(2 pages\) for list_tools"):
            await client.list_tools(max_pages=2)
        mcp.tool(lambda: "x", name="d")
        assert len(await client.list_tools()) == 4


async def test_prompts_tell_how_to_write_their_arguments_and_read_them_as_the_version_does(version: int) -> None:
    mcp = FastMCP("prompts")

    @mcp.prompt
    def explain(topic: str | None = None, pages: list[int] = [1]) -> str:  # noqa: B006
        return f"{topic!r} {pages!r}"

    async with Client(mcp._mcp_server.application()) as client:
        [prompt] = await client.list_prompts()
        told = [each.description for each in prompt.arguments]  # type: ignore[union-attr]
        messages = (await client.get_prompt("explain", {"topic": "null", "pages": "[2]"})).messages
    schema = '{"items":{"type":"integer"},"type":"array"}'
    in_4 = f"Provide a value matching the following JSON schema: {schema}. Encode non-string values as JSON."
    assert told[1] == (f"Provide as a JSON string matching the following schema: {schema}" if version == 3 else in_4)
    assert messages[0].content.text == ("None [2]" if version == 3 else "'null' [2]")  # type: ignore[union-attr]
