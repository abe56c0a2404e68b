"""Sessions over Streamable HTTP: ids, headers, streams that are resumed, and sessions that end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from carrel.client.handlers import Handlers
from carrel.errors import TransportError
from client.test_messages import everything, slowly
from support.scripted_server import (
    Exchange,
    Partner,
    Reply,
    as_events,
    as_json,
    connected,
    event,
    never,
    silence,
)
from support.server_connection import JUNE, MARCH, NOVEMBER

pytestmark = pytest.mark.requirement


SESSIONS = (MARCH, JUNE, NOVEMBER)
ID = "!secret~session"


def in_session(revision: str, **answers: Any) -> Partner:
    partner = Partner(revision, answers)
    partner.session = ID
    return partner


def after_the_handshake(partner: Partner) -> list[Exchange]:
    begun = next(
        index
        for index, exchange in enumerate(partner.exchanges)
        if exchange.method == "POST" and exchange.message.get("method") == "initialize"
    )
    return partner.exchanges[begun + 1 :]


@pytest.mark.parametrize("revision", SESSIONS)
async def test_every_request_of_a_session_says_which_one_and_which_revision(revision: str) -> None:
    partner = in_session(revision, **{"tools/call": slowly})
    async with connected(partner, "http") as client:
        await everything(client, partner)
    opening = next(each for each in partner.exchanges if b'"initialize"' in each.body)
    assert "mcp-session-id" not in opening.headers
    later = after_the_handshake(partner)
    assert {exchange.method for exchange in later} == {"POST", "GET", "DELETE"}
    for exchange in later:
        assert exchange.headers["mcp-session-id"] == ID
        assert exchange.headers.get("mcp-protocol-version") == (None if revision == MARCH else revision)


@pytest.mark.parametrize("revision", SESSIONS)
async def test_messages_are_posted_one_by_one_and_streams_are_asked_for_by_name(revision: str) -> None:
    partner = in_session(revision, **{"tools/call": slowly})
    async with connected(partner, "http", handlers=Handlers(elicit_form=silence)) as client:
        await everything(client, partner)
    for exchange in partner.exchanges:
        accepted = {kind.strip() for kind in exchange.headers.get("accept", "").split(",")}
        if exchange.method == "POST":
            assert {"application/json", "text/event-stream"} <= accepted
            assert isinstance(exchange.message, dict)
        elif exchange.method == "GET":
            assert accepted == {"text/event-stream"}
    assert "initialize" not in [part["method"] for part in partner.sent[2:] if "method" in part]


@pytest.mark.parametrize("revision", SESSIONS)
async def test_a_session_that_is_gone_is_begun_anew_without_its_id(revision: str) -> None:
    partner = in_session(revision)
    gone = False

    def respond(exchange: Exchange) -> Reply | None:
        nonlocal gone
        if exchange.method == "POST" and exchange.message.get("method") == "tools/call" and not gone:
            gone, partner.session = True, "second"
            return Reply(404)
        return None

    partner.respond = respond
    async with connected(partner, "http") as client:
        assert (await client.call_tool("t")).content
    openings = [each for each in partner.exchanges if b'"initialize"' in each.body]
    assert len(openings) == 2
    assert "mcp-session-id" not in openings[1].headers
    last = [each for each in partner.exchanges if b'"tools/call"' in each.body][-1]
    assert last.headers["mcp-session-id"] == "second"


@pytest.mark.parametrize("revision", SESSIONS)
async def test_an_ended_session_is_noticed_by_a_client_that_only_listens(revision: str) -> None:
    partner = in_session(revision)
    gone = asyncio.Event()

    async def until_it_is_gone() -> AsyncIterator[bytes]:
        yield b": hello\n\n"
        await gone.wait()

    def respond(exchange: Exchange) -> Reply | None:
        if gone.is_set() and exchange.headers.get("mcp-session-id") == ID:
            return Reply(404)
        return as_events(until_it_is_gone()) if exchange.method == "GET" else None

    partner.respond = respond
    async with connected(partner, "http") as client, client.watch("a:1") as changes:
        partner.session = "second"
        gone.set()
        async with asyncio.timeout(60):
            assert (await anext(changes)).kind == "missed"
        await partner.until("resources/subscribe", 2)
    last = [each for each in partner.exchanges if b'"resources/subscribe"' in each.body][-1]
    assert last.headers["mcp-session-id"] == "second"


@pytest.mark.parametrize("id", ["caf\u00e9", "a b", "a\x7f", ""])
async def test_an_id_that_is_not_visible_ascii_is_not_used(id: str) -> None:
    partner = in_session(NOVEMBER)
    partner.session = id
    with contextlib.suppress(TransportError):
        async with connected(partner, "http") as client:
            await client.ping()
    assert not any(exchange.headers.get("mcp-session-id") == id for exchange in partner.exchanges if id)


async def test_the_id_of_a_session_is_not_written_down_and_goes_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    visits: list[bytes] = []

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(await reader.read(65536))
        writer.close()

    other = await asyncio.start_server(visit, "127.0.0.1", 0)
    partner = in_session(NOVEMBER)

    def respond(exchange: Exchange) -> Reply | None:
        if exchange.method == "POST" and exchange.message.get("method") == "tools/call":
            return Reply(307, {"Location": f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/mcp"})
        return None

    partner.respond = respond
    with caplog.at_level(logging.DEBUG):
        async with connected(partner, "http") as client:
            with pytest.raises(TransportError) as caught:
                await client.call_tool("t")
            await client.read_resource("a:b")
    other.close()
    assert not any(ID.encode() in visit for visit in visits)
    assert ID not in caplog.text
    assert ID not in str(caught.value)


@pytest.mark.parametrize("revision", SESSIONS)
async def test_a_stream_that_broke_is_resumed_after_the_time_that_the_server_asked_for(revision: str) -> None:
    partner = in_session(revision)
    resumed: list[tuple[float, Exchange]] = []
    broke = 0.0

    async def broken() -> AsyncIterator[bytes]:
        nonlocal broke
        yield event(None, id="event-1", retry=300)
        broke = asyncio.get_running_loop().time()

    async def rest(id: Any) -> AsyncIterator[bytes]:
        yield event({"jsonrpc": "2.0", "id": id, "result": {"content": []}}, id="event-2")

    def respond(exchange: Exchange) -> Reply | None:
        if exchange.method == "POST" and exchange.message.get("method") == "tools/call":
            return as_events(broken())
        if exchange.method == "GET" and "last-event-id" in exchange.headers:
            resumed.append((asyncio.get_running_loop().time(), exchange))
            return as_events(rest(partner.sent_id))  # type: ignore[attr-defined]
        return None

    partner.respond = respond
    async with connected(partner, "http") as client:
        partner.sent_id = client.session.connection.connection.last_id + 1  # type: ignore[attr-defined, union-attr]
        assert (await client.call_tool("t")).content == []
    ((moment, exchange),) = resumed
    assert exchange.headers["last-event-id"] == "event-1"
    assert exchange.headers["mcp-session-id"] == ID
    assert moment - broke >= 0.3


@pytest.mark.parametrize("revision", SESSIONS)
async def test_giving_up_sends_a_notification_and_a_lost_stream_is_no_cancellation(revision: str) -> None:
    partner = in_session(revision, **{"tools/call": silence})
    async with connected(partner, "http") as client:
        call = asyncio.create_task(client.call_tool("t"))
        id = (await partner.until("tools/call"))["id"]
        call.cancel()
        cancelled = await partner.until("notifications/cancelled")
        assert cancelled["params"]["requestId"] == id


@pytest.mark.parametrize("revision", SESSIONS)
@pytest.mark.parametrize("status", [405, 404, 400, 501])
async def test_a_server_without_a_stream_of_its_own_is_used_without(revision: str, status: int) -> None:
    partner = in_session(revision)
    partner.respond = lambda exchange: Reply(status) if exchange.method == "GET" else None
    async with connected(partner, "http") as client:
        assert (await client.call_tool("t")).content


@pytest.mark.parametrize("revision", SESSIONS)
async def test_questions_on_the_stream_of_the_server_are_answered_by_posts(revision: str) -> None:
    partner = in_session(revision)

    async def ask() -> AsyncIterator[bytes]:
        yield event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}, id="1")
        async for nothing in never():
            yield nothing

    partner.respond = lambda exchange: as_events(ask()) if exchange.method == "GET" else None
    async with connected(partner, "http", handlers=Handlers(roots=["/srv"])):
        message = await partner.until(None)
    assert message == {"jsonrpc": "2.0", "id": "q", "result": {"roots": [{"uri": "file:///srv", "name": "srv"}]}}


@pytest.mark.parametrize("revision", SESSIONS)
async def test_a_server_without_sessions_gets_no_id(revision: str) -> None:
    partner = Partner(revision)
    async with connected(partner, "http") as client:
        await client.ping()
    assert not any("mcp-session-id" in exchange.headers for exchange in partner.exchanges)
    assert "DELETE" not in {exchange.method for exchange in partner.exchanges}


async def test_a_server_of_the_older_transport_is_found_and_posted_to_where_it_says() -> None:
    partner = Partner("2024-11-05")
    said: asyncio.Queue[bytes] = asyncio.Queue()

    async def stream() -> AsyncIterator[bytes]:
        yield b"event: endpoint\ndata: /messages?session=1\n\n"
        while True:
            yield b"event: message\ndata: " + await said.get() + b"\n\n"

    async def respond(exchange: Exchange) -> Reply | None:
        if exchange.method == "GET":
            return as_events(stream())
        if exchange.path == "/mcp":
            return Reply(405)
        for reply in await partner.take(exchange.message):
            said.put_nowait(as_json(reply).body)
        return Reply(202)

    partner.respond = respond
    async with connected(partner, "http", handlers=Handlers(roots=[])) as client:
        assert client.revision == "2024-11-05"
        assert (await client.read_resource("a:b")).contents[0].uri == "a:b"
        said.put_nowait(b'{"jsonrpc":"2.0","id":"q","method":"ping"}')
        assert (await partner.until(None))["id"] == "q"
    posts = [each for each in partner.exchanges if each.method == "POST" and each.path != "/mcp"]
    assert {each.path for each in posts} == {"/messages?session=1"}
    assert [each.message.get("method") for each in posts[:2]] == ["initialize", "notifications/initialized"]


@pytest.mark.parametrize("where", ["http://127.0.0.1:9/elsewhere", "//evil.example/x", "https://evil.example/"])
async def test_the_older_transport_posts_to_no_other_server(where: str) -> None:
    partner = Partner("2024-11-05")

    async def stream() -> AsyncIterator[bytes]:
        yield f"event: endpoint\ndata: {where}\n\n".encode()
        async for nothing in never():
            yield nothing

    partner.respond = lambda exchange: as_events(stream()) if exchange.method == "GET" else Reply(405)
    with pytest.raises(TransportError):
        async with connected(partner, "http"):
            pass
