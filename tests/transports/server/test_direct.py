"""Direct use of the connection: when it is used, and that order, flow control and disconnections are as with ASGI."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import carrel
from carrel import Context
from carrel.transports.server import http_response
from carrel.transports.server.direct import DirectWriter, direct_writer, disconnection, write_response
from carrel.transports.server.streams import COMMENT, HIGH_WATER
from support.raw_http import BOTH, PATIENCE, head, modern, modern_headers, serving
from support.stdio_process import encode, request

pytestmark = pytest.mark.asyncio

SOURCE = str(Path(carrel.__file__).parent)


@pytest.fixture(name="written")
def fixture_written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Record what is written past ASGI."""
    written: list[bytes] = []
    write = DirectWriter.write

    def record(self: DirectWriter, data: bytes) -> None:
        written.append(data)
        write(self, data)

    monkeypatch.setattr(DirectWriter, "write", record)
    return written


@pytest.fixture(name="responses")
def fixture_responses(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record which complete responses are written past ASGI."""
    responses: list[bool] = []

    def record(send: Any, body: bytes) -> bool:
        responses.append(write_response(send, body))
        return responses[-1]

    monkeypatch.setattr(http_response, "write_response", record)
    monkeypatch.setattr(logging.getLogger("uvicorn.access"), "hasHandlers", lambda: False)
    return responses


def announce(shop: Any, *uris: str) -> None:
    shop.app.resources.changed(*uris)
    shop.app.endpoint.runtime.hub._flush()


async def test_a_notification_is_written_at_once_and_is_a_chunk_of_its_own(site, shop, written):
    stream = await site.listen("memo://text")
    await (await site.ask("tools/list")).json()
    announce(shop, "memo://text")
    assert len(written) == 1
    assert (await stream.message())["params"]["uri"] == "memo://text"
    stream.client.close()


async def test_an_event_with_an_id_that_was_written_at_once_is_sent_again_unless_the_client_has_it(site, shop, written):
    session = await site.open()
    await session.subscribe("memo://text")
    stream = await session.get()
    first = await stream.event()
    announce(shop, "memo://text")
    assert len(written) == 1
    event = await stream.event()
    stream.client.close()
    again = await session.get(first.id)
    assert await again.message() == json.loads(event.data)
    again.client.close()
    resumed = await session.get(event.id)
    assert (await resumed.event()).data == "", "nothing was missed"
    resumed.client.close()


async def test_every_event_arrives_in_order_although_its_reader_stalls(site, shop, written):
    stream = await site.listen("memo://text")
    await (await site.ask("tools/list")).json()
    stream.client.reader._transport.pause_reading()
    (entry,) = shop.app.endpoint.runtime.hub._entries
    sent = 0
    while entry.channel.direct is None or entry.channel.direct.ready:  # until the connection takes no more
        entry.channel.send(b'{"number":%d,"text":"%b"}' % (sent, b"x" * 8000))
        sent += 1
        if sent % 50 == 0:
            await asyncio.sleep(0)
    for _ in range(20):
        entry.channel.send(b'{"number":%d}' % sent)
        sent += 1
    assert 0 < len(written) < sent
    stream.client.reader._transport.resume_reading()
    assert [(await stream.message())["number"] for _ in range(sent)] == list(range(sent))


@pytest.mark.parametrize(("kind", "most"), [("listen", 6), ("GET", 11)])
async def test_a_notification_takes_few_calls_for_each_listener(site, shop, kind, most):
    counts, streams = [], []
    for more in (1, 10):
        for _ in range(more):
            if kind == "listen":
                streams.append(await site.listen("memo://text"))
            else:
                session = await site.open()
                await session.subscribe("memo://text")
                streams.append(await session.get())
        channels = [entry.channel for entry in shop.app.endpoint.runtime.hub._by_uri["memo://text"]]
        listening = channels if kind == "listen" else [session.listening[-1] for session in channels]
        while not all(each.direct and each.idle and each._waiter and not each._waiter.done() for each in listening):
            await asyncio.sleep(0)
        calls: list[CodeType] = []
        sys.setprofile(lambda frame, event, _, calls=calls: calls.append(frame.f_code) if event == "call" else None)
        try:
            announce(shop, "memo://text")
        finally:
            sys.setprofile(None)
        names = [code.co_name for code in calls if code.co_filename.startswith(SOURCE)]
        counts.append(len(names))
    assert (counts[1] - counts[0]) / 10 <= most, names[-3 * most :]
    for stream in streams:
        stream.client.close()


async def test_a_keep_alive_comment_is_written_at_once_unless_its_reader_stalls(site, shop, written):
    stream = await site.listen("memo://text")
    await (await site.ask("tools/list")).json()
    (entry,) = shop.app.endpoint.runtime.hub._entries
    entry.channel.keep_alive()
    assert written == [COMMENT]
    assert (await stream.event()).comment == ""
    stream.client.reader._transport.pause_reading()
    while entry.channel.direct.ready:
        entry.channel.send(b'{"text":"%b"}' % (b"x" * 8000))
    sent = len(written)
    entry.channel.keep_alive()
    assert len(written) == sent
    assert entry.channel.ping, "the comment waits for its turn"
    stream.client.close()


async def test_a_middleware_sees_every_message(shop, written):
    bodies: list[bytes] = []
    endpoint = shop.app.asgi()

    async def watching(scope: Any, receive: Any, send: Any) -> None:
        async def record(message: Any) -> None:
            bodies.append(message.get("body", b""))
            await send(message)

        await endpoint(scope, receive, record)

    watching.stop = endpoint.stop  # type: ignore[attr-defined]
    async with serving(watching) as site:
        stream = await site.listen("memo://text")
        announce(shop, "memo://text")
        assert (await stream.message())["method"] == "notifications/resources/updated"
    assert not written
    assert b"resources/updated" in b"".join(bodies)


async def test_another_http_implementation_gets_every_message_through_asgi(serve, shop, written):
    site = await serve(http="h11")
    stream = await site.listen("memo://text")
    await (await site.ask("tools/list")).json()
    announce(shop, "memo://text")
    assert (await stream.message())["params"]["uri"] == "memo://text"
    assert not written


async def test_a_client_of_http_1_0_gets_its_events(site, shop):
    client = await site.connect()
    body = encode(modern("subscriptions/listen", notifications={"resourceSubscriptions": ["memo://text"]}))
    headers = {"Content-Type": "application/json", "Accept": BOTH, **modern_headers("subscriptions/listen")}
    await client.send(head("POST", "/mcp", site.host, headers, body).replace(b"HTTP/1.1", b"HTTP/1.0", 1) + body)
    stream = await client.read()
    assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    announce(shop, "memo://text")
    assert (await stream.message())["params"]["uri"] == "memo://text"


async def test_a_handler_that_reports_without_end_lets_other_requests_run(site, shop, written):
    stop = asyncio.Event()

    @shop.app.tool()
    async def endless(ctx: Context) -> str:
        number = 0
        while not stop.is_set():
            number += 1
            await ctx.report_progress(number)
        return "stopped"

    call = request(1, "tools/call", {"name": "endless", "arguments": {}, "_meta": {"progressToken": 1}})
    session = await site.open()
    reply = await session.post(call)
    await reply.message()
    async with asyncio.timeout(PATIENCE):
        while len(written) <= HIGH_WATER:
            await reply.message()
    stop.set()
    assert (await reply.messages())[-1]["result"]["content"][0]["text"] == "stopped"


async def test_only_the_send_of_the_http_server_can_be_passed_by():
    async def send(message: Any) -> None: ...

    assert direct_writer(send) is None
    assert direct_writer([].append) is None
    assert not write_response(send, b"{}")
    assert not write_response([].append, b"{}")
    assert disconnection(send) is None
    assert disconnection([].pop) is None


async def test_a_response_that_is_written_at_once_is_the_one_that_asgi_would_send(serve, responses):
    direct = await (await serve()).ask("tools/list")
    through_asgi = await (await serve(http="h11")).ask("tools/list")
    assert responses == [True, False]
    assert direct.status == through_asgi.status
    assert sorted(direct.all_headers) == sorted(through_asgi.all_headers)
    assert await direct.body() == await through_asgi.body()


async def test_a_connection_is_kept_after_a_response_that_was_written_at_once(site, responses):
    client = await site.connect()
    for number in range(3):
        reply = await site.post(modern("tools/list", number), modern_headers("tools/list"), client)
        assert (await reply.json())["id"] == number
    assert responses == [True] * 3


async def test_pipelined_requests_are_answered_in_order_where_responses_are_written_at_once(site, responses):
    client = await site.connect()
    headers = {"Content-Type": "application/json", "Accept": BOTH, **modern_headers("tools/list")}
    bodies = [encode(modern("tools/list", number)) for number in range(5)]
    await client.send(b"".join(head("POST", "/mcp", site.host, headers, body) + body for body in bodies))
    assert [(await (await client.read()).json())["id"] for _ in bodies] == list(range(5))
    assert responses == [True] * 5


@pytest.mark.parametrize("header", [{"Connection": "close"}, {"Origin": "http://localhost"}])
async def test_a_response_with_headers_of_its_own_goes_through_asgi(site, responses, header):
    reply = await site.ask("tools/list", header)
    assert "connection" in reply.headers or "access-control-allow-origin" in reply.headers
    assert (await reply.json())["result"]["tools"]
    assert True not in responses


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_a_client_that_disconnects_ends_its_stream_and_leaves_no_task(serve, shop, http):
    site = await serve(http=http)
    await (await site.ask("tools/list")).json()  # starts the server
    before = asyncio.all_tasks()
    stream = await site.listen("memo://text")
    tasks = asyncio.all_tasks() - before
    assert len(tasks) == (1 if http == "httptools" else 2)  # no task waits for the end of the connection
    stream.client.close()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait(tasks)
    assert not shop.app.endpoint.runtime.hub._entries


async def test_a_client_that_disconnects_cancels_its_request(site, shop):
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @shop.app.tool()
    async def linger() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    client = await site.connect()
    message = modern("tools/call", name="linger", arguments={})
    body = encode(message)
    headers = {"Content-Type": "application/json", "Accept": BOTH, **modern_headers("tools/call", name="linger")}
    await client.send(head("POST", "/mcp", site.host, headers, body) + body)
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
        client.close()
        await cancelled.wait()
