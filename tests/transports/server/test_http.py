"""One HTTP request: what it may look like, and which way it is answered.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import time

import pytest

from carrel import Context, Limits
from support.memory_client import PLAIN
from support.raw_http import BOTH, head, modern, modern_headers
from support.stdio_process import call, cancelled, encode, initialize, note, request, text_of

pytestmark = pytest.mark.asyncio
SERVERS = pytest.mark.parametrize("http", ["httptools", "h11"])
MEGABYTE = 1_000_000


def peak() -> int:
    """How much memory this process has, in bytes."""
    return int(pathlib.Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) * 1024


# JSON or a stream


@SERVERS
async def test_an_answer_that_is_ready_is_json(serve, http):
    site = await serve(http=http)
    reply = await site.call("echo", text="糖尿病")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert text_of(await reply.json()) == "糖尿病"


async def test_an_answer_is_json_although_it_has_to_be_waited_for(site, shop):
    asking = asyncio.create_task(site.call("wait"))
    await shop.begun.wait()
    shop.go.set()
    reply = await asking
    assert text_of(await reply.json()) == "waited"


@SERVERS
async def test_a_message_before_the_response_makes_it_a_stream(serve, shop, http):
    shop.go.set()
    site = await serve(http=http)
    reply = await site.ask("tools/call", name="steps", arguments={"n": 2}, _meta={"progressToken": "p"})
    assert (reply.status, reply.headers["content-type"]) == (200, "text/event-stream")
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.headers["cache-control"] == "no-cache, no-transform"
    *progress, answer = await reply.messages()
    assert [message["params"]["progress"] for message in progress] == [1, 2, 3]
    assert text_of(answer) == "done"


async def test_a_slow_answer_becomes_a_stream_in_a_session(serve, shop):
    site = await serve(patience=0.01)
    session = await site.open()
    reply = await session.call("wait")
    assert reply.headers["content-type"] == "text/event-stream"
    shop.go.set()
    assert text_of((await reply.messages())[-1]) == "waited"


async def test_a_stateless_answer_becomes_a_stream_when_a_silent_connection_would_be_closed(serve, shop):
    site = await serve(keep_alive=0.01)
    reply = await site.call("wait")
    assert reply.headers["content-type"] == "text/event-stream"
    assert (await reply.event()).comment == ""
    shop.go.set()
    assert text_of((await reply.messages())[-1]) == "waited"


async def test_a_client_that_takes_events_only_gets_a_stream(site):
    reply = await site.call("echo", {"Accept": "text/event-stream"}, text="x")
    assert [text_of(message) for message in await reply.messages()] == ["x"]


async def test_a_client_that_takes_json_only_gets_its_answer_however_much_there_is_to_say_before(serve, shop):
    site = await serve(keep_alive=0.01, patience=0.01)
    shop.go.set()
    reply = await site.ask(
        "tools/call",
        {"Accept": "application/json"},
        name="steps",
        arguments={"n": 1000},
        _meta={"progressToken": "p"},
    )
    assert text_of(await reply.json()) == "done"


async def test_messages_sent_without_awaiting_each_all_arrive(site, shop):
    @shop.app.tool()
    async def at_once(ctx: Context) -> str:
        await asyncio.gather(*(ctx.info(number) for number in range(1000)))
        return "said"

    session = await site.open()
    *messages, answer = await (await session.call("at_once")).messages()
    assert [message["params"]["data"] for message in messages] == list(range(1000))
    assert text_of(answer) == "said"


# Accept and Content-Type


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (BOTH, 200),
        ("text/event-stream,application/json;q=0.9", 200),
        ("APPLICATION/JSON , Text/Event-Stream", 200),
        ("*/*", 200),
        ("application/*", 200),
        ("text/*", 200),
        (None, 200),
        ("application/json", 200),
        ("text/html", 406),
        ("", 406),
        ("application/jsonx", 406),
    ],
)
async def test_an_accept_header_has_to_allow_what_can_be_answered(site, accept, status):
    reply = await site.call("echo", {"Accept": accept}, text="x")
    assert reply.status == status


async def test_an_accept_header_may_be_on_several_lines(site):
    headers = [
        *(("Content-Type", "application/json"), ("Accept", "application/json"), ("Accept", "text/event-stream")),
        *modern_headers("tools/list").items(),
    ]
    reply = await site.request("POST", headers, encode(modern("tools/list")))
    assert reply.status == 200


@pytest.mark.parametrize("content_type", ["text/plain", None, "", "multipart/form-data", "application/js"])
async def test_a_body_that_is_not_said_to_be_json_is_refused(site, content_type):
    reply = await site.call("echo", {"Content-Type": content_type}, text="x")
    assert reply.status == 415
    assert "application/json" in (await reply.json())["error"]["message"]


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_a_content_type_may_have_parameters(site, content_type):
    assert (await site.call("echo", {"Content-Type": content_type}, text="x")).status == 200


# Methods, paths and headers


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "PURGE", "HEAD"])
async def test_other_methods_are_not_allowed(site, method):
    client = await site.connect()
    reply = await client.request(method, body=b"")
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, POST, DELETE, OPTIONS"
    if method != "HEAD":
        assert method in (await reply.json())["error"]["message"]
        assert (await site.post(modern("tools/list"), modern_headers("tools/list"), client)).status == 200


@pytest.mark.parametrize("path", ["/", "/mcp2", "/mcp/x", "/MCP", "//mcp", "/x/../mcp", "/mcp%00"])
async def test_other_paths_are_not_found(site, path):
    reply = await site.post(modern("tools/list"), modern_headers("tools/list"), path=path)
    assert reply.status == 404
    assert (await reply.json())["error"]["message"] == "The MCP endpoint is /mcp"


@pytest.mark.parametrize("path", ["/mcp/", "/mcp?x=1", "/%6dcp"])
async def test_the_path_may_be_written_in_other_ways(site, path):
    assert (await site.post(modern("tools/list"), modern_headers("tools/list"), path=path)).status == 200


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "Origin", "Content-Type", "Authorization", "Last-Event-ID"),
        *("Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-X"),
    ],
)
async def test_a_header_that_decides_must_not_be_there_twice(site, name):
    headers = {
        "Host": site.host,
        "Content-Type": "application/json",
        "Accept": BOTH,
        **modern_headers("tools/list"),
    }
    twice = [*headers.items(), *[(name, headers.get(name, "x"))] * (1 if name in headers else 2)]
    reply = await site.request("POST", twice, encode(modern("tools/list")))
    assert reply.status == 400
    assert "is repeated" in (await reply.json())["error"]["message"]


async def test_many_headers_are_read_in_linear_time(site):
    headers = {"Content-Type": "application/json", "Accept": BOTH, **modern_headers("tools/list")}

    async def cost(count):
        pairs = [
            *headers.items(),
            *(("X-Same", "x") if number % 2 else (f"X-{number}", "x") for number in range(count)),
        ]
        began = time.thread_time()
        assert (await site.request("POST", pairs, encode(modern("tools/list")))).status == 200
        return time.thread_time() - began

    few, many = [min([await cost(count) for _ in range(3)]) for count in (5_000, 40_000)]
    assert many < few * 8 * 3


# The body


@pytest.mark.parametrize("length", [MEGABYTE + 1, 10**9, 10**18, 10**19])
async def test_a_body_that_says_it_is_too_long_is_refused_at_once(serve, length):
    site = await serve(limits=Limits(max_message_bytes=MEGABYTE))
    reply = await site.post(b"", {"Content-Length": str(length)})
    assert reply.status == 413
    assert (await reply.json())["error"]["message"] == "The body is too long: at most 1000000 bytes (max_message_bytes)"


@SERVERS
async def test_a_body_without_a_length_is_refused_when_it_gets_too_long_in_bounded_memory(serve, http):
    site = await serve(http=http)
    client = await site.connect()
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    await client.send(head("POST", "/mcp", site.host, headers, None))
    before = peak()
    chunk = b"%x\r\n%b\r\n" % (MEGABYTE, b"x" * MEGABYTE)
    try:
        for _ in range(300):
            await client.send(chunk)
        await client.send(b"0\r\n\r\n")
        assert (await client.read()).status == 413
    except ConnectionError:
        assert http == "h11"  # it closes, and the rest of what was sent breaks the connection
    assert peak() - before < 100 * MEGABYTE
    assert (await site.call("echo", text="x")).status == 200


async def test_a_body_in_tiny_pieces_is_one_body(site):
    client = await site.connect()
    body = encode(modern("tools/call", name="echo", arguments={"text": "糖"}))
    headers = {
        "Content-Type": "application/json",
        "Accept": BOTH,
        "Transfer-Encoding": "chunked",
        **modern_headers("tools/call", name="echo"),
    }
    await client.send(head("POST", "/mcp", site.host, headers, None))
    for byte in body:
        await client.send(b"1\r\n%c\r\n" % byte)
    await client.send(b"0\r\n\r\n")
    assert text_of(await (await client.read()).json()) == "糖"


@pytest.mark.parametrize("body", [b"", b'{"jsonrpc"'])
async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(serve, body):
    site = await serve(limits=Limits(body_timeout=0.05))
    client = await site.connect()
    await client.send(
        b"POST /mcp HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
        % site.host.encode()
        + body
    )
    reply = await client.read()
    assert reply.status == 408
    assert "0.05 seconds" in (await reply.json())["error"]["message"]
    await client.closed()


async def test_a_client_may_disconnect_within_a_request_body(site):
    client = await site.connect()
    await client.send(
        b"POST /mcp HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        % site.host.encode()
    )
    client.close()
    assert (await site.call("echo", text="x")).status == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"p\xff"}', -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b'{"a":' * 100_000, -32700),
        (b"[]", -32600),
        (b'"text"', -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_body_that_is_no_message_is_a_400_with_the_reason(site, body, code):
    client = await site.connect()
    reply = await site.post(body, client=client)
    assert reply.status == 400
    assert (await reply.json())["error"]["code"] == code
    assert (await site.post(modern("tools/list"), modern_headers("tools/list"), client)).status == 200


async def test_a_client_may_expect_to_be_asked_for_its_body(site):
    client = await site.connect()
    body = encode(modern("tools/list"))
    headers = {
        "Content-Type": "application/json",
        "Accept": BOTH,
        "Expect": "100-continue",
        "Content-Length": str(len(body)),
        **modern_headers("tools/list"),
    }
    assert (await client.request("POST", headers)).status == 100
    await client.send(body)
    assert (await client.read()).status == 200


# Notifications, responses, batches


@pytest.mark.parametrize("message", [note("notifications/cancelled", requestId=7), note("notifications/unknown")])
async def test_a_notification_is_accepted_without_a_body(site, message):
    session = await site.open()
    for reply in (await session.post(message), await site.post(message, {"MCP-Protocol-Version": "2026-07-28"})):
        assert reply.status == 202
        assert await reply.body() == b""


async def test_a_response_to_no_request_is_accepted(site):
    session = await site.open()
    reply = await session.post({"jsonrpc": "2.0", "id": 7, "result": {}})
    assert (reply.status, await reply.body()) == (202, b"")


async def test_a_batch_is_answered_as_one_in_the_revision_that_has_them(site, shop):
    session = await site.open("2025-03-26")
    shop.go.set()
    reply = await session.post(
        [request(1, "ping"), note("notifications/x"), call(2, "wait"), call(3, "echo", text="x"), {"jsonrpc": "2.0"}]
    )
    answers = await reply.json()
    assert [answer.get("id") for answer in answers] == [1, 2, 3, None]
    assert [text_of(answers[1]), text_of(answers[2])] == ["waited", "x"]


async def test_a_batch_of_notifications_is_accepted(site):
    session = await site.open("2025-03-26")
    reply = await session.post([note("notifications/x"), note("notifications/initialized")])
    assert (reply.status, await reply.body()) == (202, b"")


async def test_a_slow_batch_is_a_stream_with_one_event(serve, shop):
    site = await serve(patience=0.01)
    session = await site.open("2025-03-26")
    reply = await session.post([request(1, "ping"), call(2, "wait")])
    shop.go.set()
    (answers,) = await reply.messages()
    assert [answer["id"] for answer in answers] == [1, 2]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_batch_is_refused_in_a_revision_without_them(site, revision):
    session = await site.open(revision)
    assert (await session.post([request(1, "ping")])).status == 400


async def test_a_huge_batch_is_refused(site):
    session = await site.open("2025-03-26")
    reply = await session.post([request(id, "ping") for id in range(10_000)])
    assert reply.status == 400
    assert "500" in (await reply.json())["error"]["message"]


# Clients that go away


async def test_a_client_that_goes_away_before_the_answer_cancels_its_request(site, shop):
    client = await site.connect()
    headers = {"Content-Type": "application/json", "Accept": BOTH, **modern_headers("tools/call", name="wait")}
    asking = asyncio.create_task(
        client.request("POST", headers, encode(modern("tools/call", name="wait", arguments={})))
    )
    await shop.begun.wait()
    client.close()
    await shop.cancelled.wait()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asking


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25"])
async def test_so_does_one_with_a_session_while_there_is_no_stream_to_come_back_to(serve, shop, revision):
    site = await serve(patience=100)
    session = await site.open(revision)
    asking = asyncio.create_task(session.call("wait"))
    await shop.begun.wait()
    site.close()
    await shop.cancelled.wait()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asking


async def test_a_closed_stream_cancels_a_stateless_request(site, shop):
    reply = await site.ask("tools/call", name="steps", arguments={"n": 1}, _meta={"progressToken": 1})
    assert (await reply.message())["params"]["progress"] == 1
    reply.client.close()
    await shop.cancelled.wait()


async def test_a_notification_cancels_a_request_of_the_same_session_only(site, shop):
    session, other = await site.open(), await site.open()
    asking = asyncio.create_task(session.call("wait", id=5))
    await shop.begun.wait()
    assert (await other.post(cancelled(5))).status == 202
    assert (await site.post(cancelled(5), {"MCP-Protocol-Version": "2026-07-28"})).status == 202
    assert shop.running == 1
    assert (await session.post(cancelled(5))).status == 202
    await shop.cancelled.wait()
    reply = await asking
    assert reply.status == 202 or await reply.messages() == []
    assert (await (await session.call("echo", id=5, text="free again")).result())["id"] == 5


async def test_a_handler_that_is_cancelled_from_elsewhere_is_an_internal_error(site, shop):
    @shop.app.tool()
    async def broken() -> str:
        inner = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(inner.cancel)
        return await inner

    session = await site.open()
    for reply in (await site.call("broken"), await session.call("broken")):
        assert (await reply.result())["error"] == PLAIN


# Many at once


async def test_answers_never_reach_another_client_although_all_use_the_same_ids(site):
    sessions = [await site.open() for _ in range(25)]

    async def chat(number: int) -> None:
        for turn in range(8):
            text = f"{number}/{turn}"
            if number < 25:
                reply = await sessions[number].call("echo", id=1, text=text)
            else:
                reply = await site.call("echo", id=1, text=text)
            answer = await reply.result()
            assert (answer["id"], text_of(answer)) == (1, text)

    await asyncio.gather(*(chat(number) for number in range(100)))


async def test_streams_never_reach_another_client_although_all_use_the_same_ids(site, shop):
    sessions = [await site.open() for _ in range(10)]
    streams = [await session.call("steps", id=1, n=number + 1) for number, session in enumerate(sessions)]
    shop.go.set()
    for number, stream in enumerate(streams):
        *progress, answer = await stream.messages()
        assert [message["params"]["progress"] for message in progress] == list(range(1, number + 3))
        assert answer["id"] == 1


async def test_pipelined_requests_are_answered_in_order(site):
    client = await site.connect()
    headers = {"Content-Type": "application/json", "Accept": BOTH, **modern_headers("tools/list")}
    for id in range(20):
        body = encode(modern("tools/list", id))
        await client.send(head("POST", "/mcp", site.host, headers, body) + body)
    assert [(await (await client.read()).json())["id"] for _ in range(20)] == list(range(20))


async def test_a_refused_request_leaves_the_connection_usable(site):
    client = await site.connect()
    for status, headers in ((415, {"Content-Type": "x"}), (406, {"Accept": "x"}), (403, {"Origin": "http://evil"})):
        reply = await site.post(initialize(), headers, client)
        assert reply.status == status
        assert "id" not in json.loads(await reply.body())
    assert (await site.post(initialize(), client=client)).status == 200
