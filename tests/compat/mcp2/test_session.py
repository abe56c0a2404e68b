"""``carrel.compat.mcp2``: sessions of clients and servers in one process, and what the original does not compare."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.client.client import Client
from carrel.compat.mcp2.client.extension import (
    ClaimContext,
    ClientExtension,
    NotificationBinding,
    ResultClaim,
    UnexpectedClaimedResult,
)
from carrel.compat.mcp2.client.session import ClientSession
from carrel.compat.mcp2.server.caching import CacheHint
from carrel.compat.mcp2.server.lowlevel.server import Server
from carrel.compat.mcp2.server.mcpserver import Context, Elicit, MCPServer, Resolve
from carrel.compat.mcp2.server.request_state import InvalidRequestState, RequestStateSecurity
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.shared.memory import create_client_server_memory_streams
from carrel.compat.mcp2.types.base import Notification, Request, RequestParams, Result

MODES = ["auto", "legacy"]


class CountParams(RequestParams):
    first_word: str


class CountRequest(Request[CountParams, Literal["extra/count"]]):
    method: Literal["extra/count"] = "extra/count"
    params: CountParams


class CountResult(Result):
    letter_count: int


@pytest.mark.parametrize("mode", MODES)
async def test_a_method_that_the_protocol_does_not_have_is_answered(mode: str) -> None:
    async def count(ctx: Any, params: CountParams) -> dict[str, Any]:
        return {"letterCount": len(params.first_word)}

    server = Server("s")
    server.add_request_handler("extra/count", CountParams, count)
    async with Client(server, mode=mode) as client:
        request = CountRequest(params=CountParams(first_word="four"))
        result = await client.session.send_request(request, CountResult)
        assert result.letter_count == 4


async def test_invalid_results_and_exceptions_become_error_responses() -> None:
    async def listed(ctx: Any, params: Any) -> dict[str, Any]:
        return {"tools": [{"name": 3}]}

    async def called(ctx: Any, params: Any) -> Any:
        raise RuntimeError("secret")

    async with Client(Server("s", on_list_tools=listed, on_call_tool=called), mode="legacy") as client:
        with pytest.raises(MCPError, match="Handler returned an invalid result") as caught:
            await client.list_tools()
        assert caught.value.code == types.INTERNAL_ERROR
        with pytest.raises(MCPError, match="secret") as caught:
            await client.call_tool("a")
        assert caught.value.code == 0
    async with Client(Server("s", on_list_tools=listed, on_call_tool=called)) as client:
        with pytest.raises(MCPError, match="Internal server error"):
            await client.call_tool("a")


@pytest.mark.parametrize("mode", MODES)
async def test_an_error_of_mcp_1_is_an_error_response_too(mode: str) -> None:
    async def called(ctx: Any, params: Any) -> Any:
        raise McpError(code=-32050, message="own", data=[1])

    async with Client(Server("s", on_call_tool=called), mode=mode) as client:
        with pytest.raises(MCPError, match="own") as caught:
            await client.call_tool("a")
        assert (caught.value.code, caught.value.data) == (-32050, [1])


async def test_a_fresh_list_comes_from_the_cache_until_it_changes() -> None:
    asked = []

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        asked.append(1)
        return types.ListToolsResult(tools=[])

    hints: Any = {"tools/list": CacheHint(ttl_ms=60_000)}
    async with Client(Server("s", on_list_tools=listed, cache_hints=hints)) as client:
        await client.list_tools()
        await client.list_tools()
        assert len(asked) == 1
        await client.list_tools(cache_mode="refresh")
        await client.list_tools(cache_mode="bypass")
        assert len(asked) == 3


async def test_a_server_serves_a_pair_of_streams_of_messages() -> None:
    import anyio

    mcp = MCPServer("streams")

    @mcp.tool()
    async def hello(ctx: Context) -> str:
        return ctx.mcp_server.name

    server = mcp._lowlevel_server
    async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as group:
        group.start_soon(server.run, *theirs, server.create_initialization_options())
        async with ClientSession(*ours) as session:
            assert (await session.initialize()).server_info.name == "streams"
            assert (await session.call_tool("hello")).structured_content == {"result": "streams"}
        group.cancel_scope.cancel()


@pytest.mark.filterwarnings("ignore::carrel.compat.mcp2.shared.exceptions.MCPDeprecationWarning")
async def test_notifications_are_handled_inside_the_middleware() -> None:
    found: list[Any] = []
    done = asyncio.Event()

    async def progress(ctx: Any, params: types.ProgressNotificationParams) -> None:
        found.append((params.progress_token, ctx.request_id))

    async def roots_changed(ctx: Any, params: Any) -> None:
        found.append(str((await ctx.session.list_roots()).roots[0].uri))
        done.set()

    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///a")])

    async def note(ctx: Any, call_next: Any) -> Any:
        found.append(ctx.method)
        return await call_next(ctx)

    server = Server("s", on_progress=progress, on_roots_list_changed=roots_changed)
    server.middleware.append(note)
    async with Client(server, mode="legacy", list_roots_callback=roots) as client:
        await client.send_progress_notification("upload", 0.5)
        await client.send_roots_list_changed()
        await done.wait()
    assert found[:2] == ["initialize", "notifications/initialized"]
    assert ("upload", None) in found
    assert found[-1] == "file:///a"


async def test_questions_are_limited_to_a_number_of_rounds() -> None:
    mcp = MCPServer("rounds")

    @mcp.tool()
    def never() -> str | types.InputRequiredResult:
        return types.InputRequiredResult(request_state="again")

    async with Client(mcp, input_required_max_rounds=2) as client:
        with pytest.raises(RuntimeError, match="for more than 2 rounds"):
            await client.call_tool("never")
        result = await client.session.call_tool("never", allow_input_required=True)
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await client.session.call_tool("never", request_state=f"{result.request_state}x")


def test_states_are_sealed_with_the_first_key_and_opened_with_all() -> None:
    old, new = "o" * 32, "n" * 32
    token = RequestStateSecurity(keys=[old]).codec.seal(b"state")
    assert RequestStateSecurity(keys=[new, old]).codec.unseal(token) == b"state"
    for keys in ([new], ["x" * 32]):
        with pytest.raises(InvalidRequestState):
            RequestStateSecurity(keys=keys).codec.unseal(token)
    with pytest.raises(ValueError, match="at least 32 bytes"):
        RequestStateSecurity(keys=["short"])


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TypeError, match="on_nothing"):
        Server("s", on_nothing=None)
    with pytest.raises(TypeError, match="nothing"):
        MCPServer("s", nothing=1)
    with pytest.raises(ValueError, match="mode must be"):
        Client(Server("s"), mode="2025-11-25")


async def test_a_notification_that_cancels_a_request_ends_its_handler() -> None:
    ids: asyncio.Queue[Any] = asyncio.Queue()
    ended = asyncio.Event()

    async def wait(ctx: Any, params: Any) -> Any:
        ids.put_nowait(ctx.request_id)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Client(Server("s", on_call_tool=wait), mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("wait"))
        params = types.CancelledNotificationParams(request_id=await ids.get())
        await client.session.send_notification(types.CancelledNotification(params=params))
        await ended.wait()
        call.cancel()
        await asyncio.wait((call,))


class Colour(BaseModel):
    """Docstring that is not for users."""

    colour: str


async def ask_colour() -> Elicit[Colour]:
    return Elicit("Which?", Colour)


@pytest.mark.parametrize("mode", MODES)
async def test_the_form_of_a_resolver_has_the_members_of_the_protocol_in_the_newest_revision(mode: str) -> None:
    forms: list[dict[str, Any]] = []
    server = MCPServer("s")

    @server.tool()
    async def paint(colour: Annotated[Colour, Resolve(ask_colour)]) -> str:
        return colour.colour

    async def fill_in(context: Any, params: Any) -> types.ElicitResult:
        forms.append(params.requested_schema)
        return types.ElicitResult(action="accept", content={"colour": "red"})

    async with Client(server, mode=mode, elicitation_callback=fill_in) as client:
        assert (await client.call_tool("paint", {})).content[0].text == "red"
    assert (forms[0].keys() == {"properties", "required", "type"}) == (mode == "auto")
    assert forms[0]["required"] == ["colour"]


class Ticket(Result):
    result_type: Literal["com.example/ticket"] = "com.example/ticket"
    ticket_number: int


class NewsParams(BaseModel):
    text: str


class Tickets(ClientExtension):
    """Extension with a type of results and a notification."""

    identifier = "com.example/tickets"

    def __init__(self) -> None:
        self.news: asyncio.Queue[str] = asyncio.Queue()

    def claims(self) -> list[ResultClaim[Ticket]]:
        return [ResultClaim(result_type="com.example/ticket", model=Ticket, resolve=self.resolve)]

    def notifications(self) -> list[NotificationBinding[NewsParams]]:
        return [NotificationBinding(method="notifications/com.example/news", params_type=NewsParams, handler=self.take)]

    async def resolve(self, result: Ticket, context: ClaimContext) -> types.CallToolResult:
        text = f"{context.tool_name}: {result.ticket_number}"
        return types.CallToolResult(content=[types.TextContent(text=text)])

    async def take(self, params: NewsParams) -> None:
        self.news.put_nowait(params.text)


class News(Notification[NewsParams, str]):
    method: str = "notifications/com.example/news"
    params: NewsParams


def ticket_server() -> Server[Any]:
    """Return a server that answers with a ticket to clients that declare the extension."""

    async def called(ctx: Any, params: types.CallToolRequestParams) -> Any:
        declared = ctx.session.client_params.capabilities.extensions or {}
        for text in ({}, {"text": "first"}, {"text": "second"}):
            await ctx.session.send_notification(News.model_construct(params=NewsParams.model_construct(**text)))
        if "com.example/tickets" in declared:
            return {"resultType": "com.example/ticket", "ticketNumber": 7}
        return types.CallToolResult(content=[types.TextContent(text="no ticket")])

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="buy", input_schema={"type": "object"})])

    return Server("s", on_call_tool=called, on_list_tools=listed)


async def test_an_extension_resolves_results_that_it_adds_and_receives_its_notifications() -> None:
    extension = Tickets()
    async with Client(ticket_server(), extensions=[extension]) as client:
        result = await client.call_tool("buy")
        assert result.content == [types.TextContent(text="buy: 7")]
        assert [await extension.news.get() for _ in range(2)] == ["first", "second"]
        with pytest.raises(UnexpectedClaimedResult) as caught:
            await client.session.call_tool("buy")
        assert caught.value.result.ticket_number == 7


async def test_an_extension_that_adds_results_is_not_declared_in_a_handshake() -> None:
    extension = Tickets()
    async with Client(ticket_server(), mode="legacy", extensions=[extension]) as client:
        result = await client.call_tool("buy")
        assert result.content == [types.TextContent(text="no ticket")]
        assert await extension.news.get() == "first"


def test_a_type_of_results_or_a_notification_of_two_extensions_is_an_error() -> None:
    class Others(Tickets):
        identifier = "com.example/others"

    with pytest.raises(ValueError, match=r"'com\.example/tickets' and by 'com\.example/others'"):
        Client(ticket_server(), extensions=[Tickets(), Others()])
    claims = {"com.example/tickets": Tickets().claims()}
    with pytest.raises(ValueError, match="has no extensions entry"):
        ClientSession(result_claims=claims)
    with pytest.raises(ValueError, match="duplicate notification binding"):
        ClientSession(notification_bindings=[*Tickets().notifications(), *Others().notifications()])
