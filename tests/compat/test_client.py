"""``ClientSession`` of ``carrel.compat.mcp`` with servers in this process, and how servers see their sessions."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import anyio
import pytest
from pydantic import AnyUrl, BaseModel, FileUrl

from carrel import Client
from carrel import Server as CarrelServer
from carrel.client.handlers import Handlers, Sampling
from carrel.compat.fastmcp.client.messages import MessageHandler
from carrel.compat.mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from carrel.compat.mcp.client.callbacks import Callbacks
from carrel.compat.mcp.server.fastmcp import Context, FastMCP
from carrel.compat.mcp.server.lowlevel import Server
from carrel.compat.mcp.server.lowlevel.helper_types import ReadResourceContents
from carrel.compat.mcp.server.models import InitializationOptions
from carrel.compat.mcp.server.session import ServerSession
from carrel.compat.mcp.shared.memory import (
    create_client_server_memory_streams,
    create_connected_server_and_client_session,
)
from carrel.compat.mcp.shared.progress import progress
from carrel.compat.mcp.shared.session import RequestResponder
from carrel.protocol.revisions import LATEST_HANDSHAKE
from carrel.wire.base import Wire
from carrel.wire.client_features import ElicitationCompleteParams
from carrel.wire.resources import ResourceUpdatedParams
from carrel.wire.tasks import Task
from carrel.wire.utilities import CancelledParams, LoggingMessageParams, ProgressParams

TIME = "2026-01-01T00:00:00Z"


class Form(BaseModel):
    name: str
    tags: list[str] = []


def asking() -> FastMCP:
    mcp = FastMCP("asking")

    @mcp.tool()
    async def ask(ctx: Context) -> str:
        return str(await ctx.elicit("Who?", Form))

    @mcp.tool()
    async def visit(ctx: Context) -> str:
        return (await ctx.elicit_url("Go there", "https://example.org", "1")).action

    @mcp.tool()
    async def think(ctx: Context) -> str:
        message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="hi"))
        answer = await ctx.session.create_message([message], max_tokens=5, system_prompt="be brief")
        return str(answer.content.text)

    @mcp.tool()
    async def roots(ctx: Context) -> str:
        return str((await ctx.session.list_roots()).roots[0].uri)

    @mcp.tool()
    async def steps(ctx: Context) -> None:
        with progress(ctx.request_context, total=2) as counted:
            await counted.progress(1, "one")
            await counted.progress(1)
        await ctx.session.send_resource_updated(AnyUrl("note://1"))
        await ctx.session.send_tool_list_changed()
        await ctx.warning("done")

    @mcp.tool()
    def wrong() -> types.CallToolResult:
        return types.CallToolResult(content=[])

    @mcp.tool()
    async def forever() -> str:
        await asyncio.Event().wait()
        return ""

    return mcp


async def text_of(session: ClientSession, tool: str) -> str:
    result = await session.call_tool(tool)
    return str(getattr(result.content[0], "text", ""))


async def test_what_a_server_asks_is_answered_by_the_callbacks() -> None:
    asked: list[Any] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"name": "Ada"} if params.mode == "form" else None)

    async def sample(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        assert params.systemPrompt == "be brief"
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text="ho"), model="none"
        )

    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///home"}]})

    async with create_connected_server_and_client_session(
        asking(), elicitation_callback=elicit, sampling_callback=sample, list_roots_callback=roots
    ) as session:
        assert await text_of(session, "ask") == "action='accept' data=Form(name='Ada', tags=[])"
        assert await text_of(session, "visit") == "accept"
        assert await text_of(session, "think") == "ho"
        assert await text_of(session, "roots") == "file:///home"
    assert asked[0].requestedSchema["required"] == ["name"]
    assert (asked[1].url, asked[1].elicitationId) == ("https://example.org", "1")


async def test_a_callback_may_refuse_and_a_client_without_one_is_not_asked() -> None:
    async def refuse(context: Any, params: Any) -> types.ErrorData:
        return types.ErrorData(code=7, message="not now")

    async with create_connected_server_and_client_session(asking(), sampling_callback=refuse) as session:
        assert await text_of(session, "think") == "Error executing tool think: not now"
        assert "The client does not offer elicitation" in await text_of(session, "ask")
        assert session.get_server_capabilities() is not None


async def test_notifications_reach_the_callbacks_in_order() -> None:
    seen: list[Any] = []
    done = asyncio.Event()

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        seen.append((params.level, params.data))
        done.set()

    async def other(message: Any) -> None:
        seen.append(message.root.method)

    async def counted(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with create_connected_server_and_client_session(
        asking(), logging_callback=log, message_handler=other
    ) as session:
        await session.call_tool("steps", progress_callback=counted)
        await asyncio.wait_for(done.wait(), 60)
    updates = [each for each in seen if isinstance(each, str)]
    assert updates[:2] == ["notifications/resources/updated", "notifications/tools/list_changed"]
    assert (1.0, 2.0, "one") in seen
    assert ("warning", "done") in seen


async def test_every_notification_of_a_server_has_a_model_and_a_hook() -> None:
    params: dict[str, Wire] = {
        "cancelled": CancelledParams(request_id=1),
        "elicitation_complete": ElicitationCompleteParams(elicitation_id="e"),
        "message": LoggingMessageParams(level="info", data="x"),
        "progress": ProgressParams(progress_token=1, progress=1),
        "resource_updated": ResourceUpdatedParams(uri="a:b"),
        "task_status": Task(task_id="t", status="working", created_at=TIME, last_updated_at=TIME, ttl=None),
    }
    handled: list[Any] = []

    class Hooks(MessageHandler):
        async def on_progress(self, message: Any) -> None:
            handled.append(message)

        on_logging_message = on_tool_list_changed = on_resource_list_changed = on_progress
        on_prompt_list_changed = on_resource_updated = on_cancelled = on_progress

    async def handle(message: Any) -> None:
        heard.append(message.root.method)
        await hooks(message)
        if len(heard) == len(LATEST_HANDSHAKE.events):
            done.set()

    heard: list[str] = []
    hooks, done = Hooks(), asyncio.Event()
    callbacks = Callbacks(
        None, sampling=None, elicitation=None, roots=None, logging=None, message=handle, sampling_capabilities=None
    )
    callbacks.start()
    for event in (*LATEST_HANDSHAKE.events, "no such event"):
        callbacks.take(event, params.get(event))
    await done.wait()
    await callbacks.stop()
    assert heard == [row.method for row in LATEST_HANDSHAKE.events.values()]
    unhooked = {"notifications/elicitation/complete", "notifications/tasks/status"}
    assert [message.method for message in handled] == [method for method in heard if method not in unhooked]


async def test_errors_are_those_of_the_face() -> None:
    async with create_connected_server_and_client_session(asking()) as session:
        with pytest.raises(McpError, match="Timed out while waiting for response to CallToolRequest") as timeout:
            await session.call_tool("forever", read_timeout_seconds=timedelta(seconds=0.05))
        assert timeout.value.error.code == 408
        with pytest.raises(McpError, match="Unknown resource: a://b") as unknown:
            await session.read_resource("a://b")
        assert unknown.value.error.code == 0
        with pytest.raises(McpError, match="Method not found"):
            await session.subscribe_resource("a://b")
        with pytest.raises(ValueError, match="Cannot specify both cursor and params"):
            await session.list_tools("a", params=types.PaginatedRequestParams(cursor="a"))
    with pytest.raises(McpError, match="Connection closed"):
        await session.list_tools()


async def test_a_result_that_does_not_fit_its_schema_is_an_error() -> None:
    server: Server[Any, Any] = Server("loose")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [types.Tool(name="a", inputSchema={"type": "object"}, outputSchema=schema)]

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        return types.CallToolResult(content=[], structuredContent=arguments or None)

    async with create_connected_server_and_client_session(server) as session:
        assert (await session.call_tool("a", {"a": 1})).structuredContent == {"a": 1}
        with pytest.raises(RuntimeError, match="Invalid structured content returned by tool a"):
            await session.call_tool("a", {"a": "b"})
        with pytest.raises(RuntimeError, match="did not return structured content"):
            await session.call_tool("a")


async def test_a_low_level_server_has_handlers_for_all_else() -> None:
    server: Server[Any, Any] = Server("complete", version="7", instructions="Ask")
    heard: list[Any] = []

    @server.list_resources()
    async def list_resources(request: types.ListResourcesRequest) -> types.ListResourcesResult:
        cursor = None if request.params is None else request.params.cursor
        found = types.Resource(uri=AnyUrl(f"page://{cursor or 0}"), name="page")
        return types.ListResourcesResult(resources=[found], nextCursor=None if cursor else "1")

    @server.read_resource()
    async def read_resource(uri: AnyUrl) -> list[ReadResourceContents]:
        return [ReadResourceContents("text"), ReadResourceContents(b"\0", "image/png", {"a": 1})]

    @server.subscribe_resource()
    async def subscribe(uri: AnyUrl) -> None:
        heard.append(("subscribe", str(uri)))

    @server.unsubscribe_resource()
    async def unsubscribe(uri: AnyUrl) -> None:
        heard.append(("unsubscribe", str(uri)))

    @server.set_logging_level()
    async def set_level(level: types.LoggingLevel) -> None:
        heard.append(level)

    @server.completion()
    async def complete(ref: Any, argument: types.CompletionArgument, context: Any) -> types.Completion | None:
        return types.Completion(values=[f"{ref.type} {argument.value} {context.arguments['a']}"]) if context else None

    async with create_connected_server_and_client_session(server) as session:
        assert (await session.list_resources()).nextCursor == "1"
        last = await session.list_resources(params=types.PaginatedRequestParams(cursor="1"))
        assert (str(last.resources[0].uri), last.nextCursor) == ("page://1", None)
        contents = (await session.read_resource("a://b")).contents
        assert [type(each).__name__ for each in contents] == ["TextResourceContents", "BlobResourceContents"]
        assert contents[1].meta == {"a": 1}
        await session.subscribe_resource("a://b")
        await session.unsubscribe_resource("a://b")
        await session.set_logging_level("error")
        await session.send_ping()
        await session.send_roots_list_changed()
        reference = types.PromptReference(type="ref/prompt", name="p")
        found = await session.complete(reference, {"name": "n", "value": "v"}, {"a": "b"})
        assert found.completion.values == ["ref/prompt v b"]
        assert (await session.complete(reference, {"name": "n", "value": "v"})).completion.values == []
        with pytest.raises(McpError, match="Method not found"):
            await session.list_tools()
    assert heard == [("subscribe", "a://b"), ("unsubscribe", "a://b"), "error"]


async def test_a_notification_that_cancels_a_request_ends_the_call() -> None:
    ids: asyncio.Queue[Any] = asyncio.Queue()
    server = Server[Any, Any]("waiting")

    @server.call_tool()
    async def wait(name: str, arguments: Any) -> Any:
        ids.put_nowait(server.request_context.request_id)
        await asyncio.Event().wait()

    async with create_connected_server_and_client_session(server) as session:
        call = asyncio.create_task(session.call_tool("wait"))
        cancelled = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=await ids.get()))
        await session.send_notification(types.ClientNotification(cancelled))
        with pytest.raises(McpError, match="Request cancelled"):
            await call


async def test_a_program_answers_the_messages_of_a_session_itself() -> None:
    options = InitializationOptions(
        server_name="own", server_version="1", capabilities=types.ServerCapabilities(tools=types.ToolsCapability())
    )
    async with create_client_server_memory_streams() as (ours, theirs):

        async def answer() -> None:
            async with ServerSession(*theirs, options) as session:
                async for message in session.incoming_messages:
                    if isinstance(message, RequestResponder):
                        with message:
                            roots = await session.list_roots()
                            tool = types.Tool(name=str(roots.roots[0].uri), inputSchema={})
                            await message.respond(types.ServerResult(types.ListToolsResult(tools=[tool])))

        async def roots(context: Any) -> types.ListRootsResult:
            return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///a"))])

        answering = asyncio.create_task(answer())
        async with ClientSession(*ours, list_roots_callback=roots) as client:
            assert (await client.initialize()).serverInfo.name == "own"
            assert [tool.name for tool in (await client.list_tools()).tools] == ["file:///a"]
        await answering


async def test_streams_of_messages_that_a_program_makes_itself_work() -> None:
    server = asking()._mcp_server
    async with (
        create_client_server_memory_streams() as ((client_read, client_write), (read, write)),
        anyio.create_task_group() as group,
    ):
        group.start_soon(lambda: server.run(read, write, server.create_initialization_options()))
        async with ClientSession(client_read, client_write) as session:
            result = await session.initialize()
            assert result.serverInfo.name == "asking"
            assert len((await session.list_tools()).tools) == 7
        group.cancel_scope.cancel()


async def test_a_program_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        async with stdio_client(StdioServerParameters(command="no-such-program")):
            pass


async def test_a_server_for_mcp_is_added_to_a_server_of_carrel() -> None:
    outer: CarrelServer[Any] = CarrelServer("outer")
    inner = asking()

    @inner.resource("note://{name}")
    def note(name: str) -> str:
        return f"note {name}"

    @inner.prompt()
    def greet(name: str) -> str:
        return f"Hello {name}"

    outer.add_provider(inner._mcp_server.application(), namespace="inner")

    async def sample(question: Sampling) -> str:
        return "thought"

    async with Client(outer, handlers=Handlers(sample=sample)) as client:
        assert [tool.name for tool in await client.list_tools()][:2] == ["inner_ask", "inner_visit"]
        assert (await client.call_tool("inner_think")).text == "thought"
        assert len(await client.list_resource_templates()) == 1
        result = await client.get_prompt("inner_greet", {"name": "Ada"})
        assert result.messages[0].content.text == "Hello Ada"
