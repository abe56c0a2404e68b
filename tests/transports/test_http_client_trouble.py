"""The client's end of Streamable HTTP, with servers that break, babble, lead elsewhere or say nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from carrel.errors import (
    AuthorizationError,
    ConfigError,
    HTTPStatusError,
    MCPError,
    PeerError,
    SessionExpired,
    TransportError,
)
from carrel.protocol.revisions import LATEST_HANDSHAKE, REVISIONS
from carrel.transports import backoff, http_client
from carrel.transports.http_client import HTTPTransport
from carrel.wire.base import PageParams

from .receiving import Asker
from .scripted import Asked, Scripted, scripted

HANDSHAKE = LATEST_HANDSHAKE.name
FIRST = next(name for name in reversed(REVISIONS) if REVISIONS[name].resumable)
HELLO = {"protocolVersion": HANDSHAKE, "capabilities": {}, "serverInfo": {"name": "scripted", "version": "1"}}
SESSION = "a-session-id"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST", 0.01)


def client_of(server: Scripted, revision: str | None = None, **options: Any) -> Asker:
    return Asker(HTTPTransport(server.url, **options), **({} if revision is None else {"revision": revision}))


async def outcome_of(script: Any, **options: Any) -> Any:
    """Return what comes of one request to a scripted server."""
    async with scripted(script) as server, client_of(server, **options) as client:
        return await client.recorder.outcome(client.start("list_resources", PageParams()))


async def failure_of(script: Any, **options: Any) -> MCPError:
    outcome = await outcome_of(script, **options)
    assert isinstance(outcome, MCPError), outcome
    return outcome


def session(script: Any, *, revision: str = HANDSHAKE, listen: Any = None) -> Any:
    """Return a script that opens a session, and does with all other POST requests what ``script`` says."""

    async def serve(asked: Asked) -> None:
        if asked.method == "POST" and asked.message.get("method") == "initialize":
            await asked.result({**HELLO, "protocolVersion": revision}, mcp_session_id=SESSION)
        elif asked.method == "POST" and asked.message.get("method", "").startswith("notifications/"):
            await asked.respond(202)
        elif asked.method == "DELETE":
            await asked.respond(200)
        elif asked.method == "GET" and listen is not None and "last-event-id" not in asked.headers:
            await listen(asked)
        elif asked.method == "GET" and listen is None and "last-event-id" not in asked.headers:
            await asked.respond(405)
        else:
            await script(asked)

    return serve


async def never(asked: Asked) -> None:
    await asyncio.Event().wait()


# Answers that are none


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with Asker(HTTPTransport(f"http://127.0.0.1:{port}/mcp")) as client:
        failure = await client.recorder.failure(client.start("list_resources", PageParams()))
    assert type(failure) is TransportError
    assert not failure.delivered
    assert f"127.0.0.1:{port}" in str(failure)


async def test_the_connection_is_cut_before_the_answer() -> None:
    async def cut(asked: Asked) -> None:
        asked.cut()

    failure = await failure_of(cut)
    assert type(failure) is TransportError
    assert failure.delivered


@pytest.mark.parametrize("size", [10, 70])
async def test_the_connection_is_cut_within_the_answer(size: int) -> None:
    async def cut(asked: Asked) -> None:
        await asked.respond(200, b'{"jsonrpc": "2.0"', content_type="application/json", content_length=str(size * 10))
        asked.writer.close()

    failure = await failure_of(cut)
    assert type(failure) is TransportError
    assert failure.delivered


async def test_a_stream_that_ends_before_the_answer_is_told_in_a_stateless_revision() -> None:
    async def end(asked: Asked) -> None:
        await asked.stream(b"id: 1\ndata: {}\n\n")
        await asked.end()

    failure = await failure_of(end)
    assert "before the answer" in str(failure)


async def test_a_stream_that_breaks_before_the_answer_is_told_in_a_stateless_revision() -> None:
    async def cut(asked: Asked) -> None:
        await asked.stream(b"data: {}\n\nda")
        asked.cut()

    assert "before the answer" in str(await failure_of(cut))


@pytest.mark.parametrize(
    "garbage",
    [b"garbage\r\n\r\n", b"HTTP/1.1 banana\r\n\r\n", b"\x00" * 100 + b"\r\n\r\n", b"HTTP/1.1 200 OK\r\nx\r\n\r\n"],
)
async def test_a_server_that_does_not_speak_http_is_told(garbage: bytes) -> None:
    async def babble(asked: Asked) -> None:
        await asked.write(garbage)
        asked.writer.close()

    assert type(await failure_of(babble)) is TransportError


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"\xff\xfe\xfd",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b'{"jsonrpc":"2.0","id":1}'[:-1],
        b'{"jsonrpc":"1.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":999,"result":{}}',
        b'{"jsonrpc":"2.0","id":"1","result":{}}',
        b'{"jsonrpc":"2.0","id":[1],"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=range(15),
)
async def test_json_that_is_no_answer_is_told(body: bytes) -> None:
    async def babble(asked: Asked) -> None:
        await asked.respond(200, body, content_type="application/json")

    failure = await failure_of(babble)
    assert type(failure) is TransportError
    assert "no answer" in str(failure)


async def test_an_error_without_an_id_belongs_to_the_request_it_answers() -> None:
    async def refuse(asked: Asked) -> None:
        await asked.answer({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}})

    failure = await failure_of(refuse)
    assert isinstance(failure, PeerError)
    assert failure.code == -32700


async def test_invalid_utf8_in_an_answer_does_not_harm_the_others() -> None:
    async def mangle(asked: Asked) -> None:
        if asked.id == 1:
            body = b'{"jsonrpc":"2.0","id":1,"result":{"text":"\xff\xfe"}}'
            await asked.respond(200, body, content_type="application/json")
        else:
            await asked.result()

    async with scripted(mangle) as server, client_of(server) as client:
        client.start("list_resources", PageParams())
        assert await client.ask("list_resources", PageParams()) == {}
        assert len(client.recorder.raw) == 2


@pytest.mark.parametrize("kind", ["text/html", "text/html; charset=utf-8", "application/jsonx", "", "text/plain"])
async def test_another_content_type_is_told(kind: str) -> None:
    async def page(asked: Asked) -> None:
        await asked.respond(200, b"<html>Welcome</html>", **({"content_type": kind} if kind else {}))

    failure = await failure_of(page)
    assert type(failure) is TransportError
    assert (kind.partition(";")[0] or "(none)") in str(failure)


@pytest.mark.parametrize("kind", ["application/json;charset=utf-8", "Application/JSON", "application/json ; x=y"])
async def test_parameters_and_case_of_the_content_type_do_not_matter(kind: str) -> None:
    async def answer(asked: Asked) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": asked.id, "result": {}}).encode()
        await asked.respond(200, body, content_type=kind)

    assert (await outcome_of(answer))["result"] == {}


@pytest.mark.parametrize("status", [202, 204])
async def test_a_request_that_is_only_accepted_fails(status: int) -> None:
    async def accept(asked: Asked) -> None:
        await asked.respond(status)

    failure = await failure_of(accept)
    assert str(status) in str(failure)
    assert "no answer" in str(failure)


# Statuses


@pytest.mark.parametrize("status", [400, 403, 404, 405, 418, 429, 500, 502, 503, 504, 599])
async def test_a_status_without_a_message_is_told_with_what_was_said(status: int) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.respond(status, b"<h1>Go\x1b[31m\r\n\taway</h1>" + b"x" * 100_000, content_type="text/html")

    failure = await failure_of(refuse)
    assert type(failure) is HTTPStatusError
    assert failure.status == status
    assert str(status) in str(failure)
    assert "Go [31m away" in str(failure)
    assert len(str(failure)) < 400
    assert failure.retry_after is None


@pytest.mark.parametrize("id", ['"id":null,', '"id":"other",', ""])
@pytest.mark.parametrize("status", [400, 403, 404, 500])
async def test_an_error_of_the_protocol_with_a_status_is_that_error_whatever_its_id(status: int, id: str) -> None:
    async def refuse(asked: Asked) -> None:
        body = f'{{"jsonrpc":"2.0",{id}"error":{{"code":-32022,"message":"no","data":{{"supported":["x"]}}}}}}'
        await asked.respond(status, body.encode(), content_type="application/json")

    failure = await failure_of(refuse)
    assert isinstance(failure, PeerError)
    assert (failure.code, failure.status, failure.data) == (-32022, status, {"supported": ["x"]})


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("7", 7, 7),
        ("0", 0, 0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 86400, 86400),
        ("Fri, 01 Jan 1999 00:00:00 GMT", 0, 0),
        ("99999999999999999999", 86400, 86400),
    ],
)
async def test_when_to_try_again_is_told(value: str, least: float, most: float) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.respond(503, retry_after=value)

    failure = await failure_of(refuse)
    assert isinstance(failure, HTTPStatusError)
    assert failure.retry_after is not None
    assert least <= failure.retry_after <= most


@pytest.mark.parametrize("value", ["soon", "-1", "1.5", "", "Fri, 99 Foo 2100"])
async def test_a_senseless_retry_after_is_none(value: str) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.respond(429, retry_after=value)

    failure = await failure_of(refuse)
    assert isinstance(failure, HTTPStatusError)
    assert failure.retry_after is None
    assert not failure.delivered


# Sizes


async def test_a_body_that_says_it_is_too_long_is_not_read() -> None:
    async def flood(asked: Asked) -> None:
        await asked.respond(200, b"{", content_type="application/json", content_length=str(10**12))
        await never(asked)

    assert "longer than 1000 bytes" in str(await failure_of(flood, max_message=1000))


async def test_a_body_that_does_not_end_is_not_read_to_its_end() -> None:
    async def flood(asked: Asked) -> None:
        await asked.respond(200, content_type="application/json", transfer_encoding="chunked")
        while True:
            await asked.piece(b"[" * 65536)

    assert "longer than 100000 bytes" in str(await failure_of(flood, max_message=100_000))


async def test_a_body_is_measured_after_decompression() -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 60_000

    async def flood(asked: Asked) -> None:
        await asked.respond(200, bomb, content_type="application/json", content_encoding="gzip")

    assert "longer than 100000 bytes" in str(await failure_of(flood, max_message=100_000))


async def test_a_compressed_answer_is_read() -> None:
    async def answer(asked: Asked) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": asked.id, "result": {"text": "x" * 10_000}}).encode()
        await asked.respond(200, gzip.compress(body), content_type="application/json", content_encoding="gzip")

    assert (await outcome_of(answer))["result"]["text"] == "x" * 10_000


async def test_what_is_not_compressed_although_it_says_so_is_told() -> None:
    async def answer(asked: Asked) -> None:
        await asked.respond(200, b"not gzip", content_type="application/json", content_encoding="gzip")

    assert type(await failure_of(answer)) is TransportError


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 70_000, b"data: x\n" * 10_000, b"data\n" * 20_000])
async def test_an_event_that_does_not_end_is_not_read_to_its_end(piece: bytes) -> None:
    async def flood(asked: Asked) -> None:
        await asked.stream()
        while True:
            await asked.piece(piece)

    assert "longer than 100000 bytes" in str(await failure_of(flood, max_message=100_000))


async def test_a_refusal_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def flood(asked: Asked) -> None:
        await asked.respond(500, transfer_encoding="chunked")
        while True:
            await asked.piece(b"x" * 65536)

    failure = await failure_of(flood)
    assert isinstance(failure, HTTPStatusError)
    assert failure.status == 500


@pytest.mark.parametrize("way", ["json", "stream"])
async def test_an_answer_may_come_one_byte_at_a_time(way: str) -> None:
    async def trickle(asked: Asked) -> None:
        body = json.dumps(
            {"jsonrpc": "2.0", "id": asked.id, "result": {"text": "größer\r\n"}}, ensure_ascii=False
        ).encode()
        if way == "json":
            await asked.respond(200, content_type="application/json", transfer_encoding="chunked")
        else:
            await asked.stream()
            body = b": comment\r\nevent: message\r\ndata: " + body + b"\r\n\r\n"
        for byte in body:
            await asked.piece(bytes((byte,)))
            await asyncio.sleep(0)
        await asked.end()

    assert (await outcome_of(trickle))["result"]["text"] == "größer\r\n"


# Redirects


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("absolute", [False, True])
async def test_a_redirect_to_another_path_of_the_same_server_is_followed(status: int, absolute: bool) -> None:
    async def move(asked: Asked) -> None:
        if asked.target == "/mcp":
            location = f"http://{asked.headers['host']}/other?x=1" if absolute else "/other?x=1"
            await asked.respond(status, location=location)
        else:
            assert asked.target == "/other?x=1"
            await asked.result()

    async with scripted(move) as server, client_of(server) as client:
        for _ in range(3):
            await client.ask("list_resources", PageParams())
        assert [asked.body for asked in server.asked[:2]] == [server.asked[0].body] * 2
        assert len(server.asked) == (4 if status == 308 else 6)  # one of them is permanent
        assert server.connections == 1


@pytest.mark.parametrize(
    ("status", "location"),
    [
        (302, "/other"),
        (301, "/other"),
        (303, "/other"),
        (307, "http://127.0.0.1:1/mcp"),
        (308, "http://localhost/mcp"),
        (307, "https://127.0.0.1/mcp"),
        (307, "//example.test/mcp"),
        (307, "ftp://127.0.0.1/"),
        (307, "javascript:alert(1)"),
        (307, "http://[::1"),
        (307, ""),
        (300, "/other"),
        (304, "/other"),
    ],
)
async def test_a_redirect_elsewhere_is_not_followed(status: int, location: str) -> None:
    async def move(asked: Asked) -> None:
        assert asked.target == "/mcp"
        await asked.respond(status, **({"location": location} if location else {}))

    failure = await failure_of(move, headers={"Authorization": "Bearer secret"})
    assert type(failure) is TransportError
    assert not failure.delivered
    assert str(status) in str(failure)
    if "example.test" in location or "localhost" in location:
        assert location.removeprefix("http:") in str(failure)


async def test_redirects_in_circles_end() -> None:
    async def move(asked: Asked) -> None:
        await asked.respond(307, location="/mcp")

    assert "circles" in str(await failure_of(move))


# Connections


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async def answer(asked: Asked) -> None:
        if asked.id % 2:
            await asked.result()
        else:
            await asked.stream()
            await asked.event({"jsonrpc": "2.0", "id": asked.id, "result": {}})
            await asked.end()

    async with scripted(answer) as server, client_of(server) as client:
        for _ in range(20):
            await client.ask("list_resources", PageParams())
        assert server.connections == 1


async def test_a_stream_that_stays_open_after_the_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "ENDING", 0.01)

    async def linger(asked: Asked) -> None:
        await asked.stream()
        await asked.event({"jsonrpc": "2.0", "id": asked.id, "result": {}})
        await never(asked)

    async with scripted(linger) as server, client_of(server) as client:
        await client.ask("list_resources", PageParams())
        while len(asyncio.all_tasks()) > 3:
            await asyncio.sleep(0)
        await client.ask("list_resources", PageParams())
        assert server.connections == 2


def test_a_connection_that_the_server_has_closed_in_the_meantime_is_not_used() -> None:
    closed, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))
    seen: list[bytes] = []

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                data = connection.recv(65536)
                while b"\r\n\r\n" not in data or not data.endswith(b"}"):
                    data += connection.recv(65536)
                seen.append(data)
                body = b'{"jsonrpc":"2.0","id":%d,"result":{}}' % json.loads(data.partition(b"\r\n\r\n")[2])["id"]
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                connection.sendall(head + body)
            closed.set()

    async def ask() -> None:
        port = listener.getsockname()[1]
        async with Asker(HTTPTransport(f"http://127.0.0.1:{port}/mcp")) as client:
            await client.ask("list_resources", PageParams())
            closed.wait()  # the event loop does not see it
            await client.ask("list_resources", PageParams())

    thread = threading.Thread(target=serve)
    thread.start()
    asyncio.run(ask())
    thread.join()
    listener.close()
    assert len(seen) == 2


async def test_a_long_message_is_sent() -> None:
    async def answer(asked: Asked) -> None:
        await asked.result({"length": len(asked.message["params"]["arguments"]["text"])})

    async with scripted(answer) as server, client_of(server) as client:
        assert await client.call("echo", text="x" * 5_000_000) == {"length": 5_000_000}


async def test_what_is_in_the_query_is_not_told() -> None:
    async def refuse(asked: Asked) -> None:
        assert asked.target == "/mcp?key=secret"
        if asked.id == 1:
            await asked.respond(500)
        else:
            asked.cut()

    async with scripted(refuse) as server, Asker(HTTPTransport(f"{server.url}?key=secret")) as client:
        for _ in range(2):
            failure = await client.recorder.failure(client.start("list_resources", PageParams()))
            assert server.url in str(failure)
            assert "secret" not in str(failure)


async def test_endless_requests_do_not_keep_others_waiting() -> None:
    async def serve(asked: Asked) -> None:
        if asked.message["method"] == "subscriptions/listen":
            await asked.stream(b": open\n\n")
        else:
            await asked.result()

    async with scripted(serve) as server, client_of(server, connections=1) as client:
        for _ in range(5):
            message = client.connection.request("list_resources", PageParams())
            message.data = message.data.replace(b"resources/list", b"subscriptions/listen")
            message.endless = True
            client.transport.send(message)
        assert await client.ask("list_resources", PageParams()) == {}


async def test_questions_can_be_answered_while_all_connections_wait_for_that() -> None:
    questions: list[Asked] = []

    async def serve(asked: Asked) -> None:
        if "method" in asked.message:
            await asked.stream()
            await asked.event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
            questions.append(asked)
        else:
            await asked.respond(202)
            question = questions.pop()
            await question.event({"jsonrpc": "2.0", "id": question.id, "result": {}})
            await question.end()

    async with scripted(session(serve)) as server, client_of(server, HANDSHAKE, connections=1) as client:
        await client.shake_hands()
        id = client.start("list_resources", PageParams())
        await client.recorder.until(lambda: client.recorder.notices("roots/list"))
        await client.answer("q", {"roots": []})
        assert await client.recorder.result(id) == {}
        answer = next(asked for asked in server.asked if asked.body and "method" not in asked.message)
        assert answer.message == {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}
        assert answer.headers["mcp-session-id"] == SESSION


async def test_a_server_that_never_answers_the_connection_is_given_up() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = []
        for _ in range(8):  # until the queue is full, and further ones get no answer
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        async with Asker(HTTPTransport(f"http://127.0.0.1:{port}/mcp", connect_timeout=0.05)) as client:
            failure = await client.recorder.failure(client.start("list_resources", PageParams()))
        for filler in fillers:
            filler.close()
    assert type(failure) is TransportError
    assert not failure.delivered


# Headers


async def test_headers_of_a_stateless_request() -> None:
    async def answer(asked: Asked) -> None:
        await asked.result(mcp_session_id="ignored")

    async with scripted(answer) as server, client_of(server, headers={"X-Mine": "ö", "User-Agent": "me"}) as client:
        id = client.start_tool("größe", {"Mcp-Param-Region": "us"})
        await client.recorder.result(id)
        await client.ask("list_resources", PageParams())
        first, second = (asked.headers for asked in server.asked)
        assert first["accept"] == "application/json, text/event-stream"
        assert first["content-type"] == "application/json"
        assert first["mcp-protocol-version"] == client.revision.name
        assert first["mcp-method"] == "tools/call"
        assert first["mcp-name"] == "=?base64?Z3LDtsOfZQ==?="
        assert first["mcp-param-region"] == "us"
        assert first["x-mine"] == "ö"
        assert first["user-agent"] == "me"
        assert second["mcp-method"] == "resources/list"
        assert not {"mcp-name", "mcp-param-region", "mcp-session-id"} & set(second)
    assert [asked.method for asked in server.asked] == ["POST", "POST"]  # nothing is said at the end


@pytest.mark.parametrize("revision", [FIRST, HANDSHAKE])
async def test_headers_of_a_session(revision: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    script = session(answer, revision=revision)
    async with scripted(script) as server, client_of(server, revision) as client:
        await client.shake_hands()
        await client.ask("list_resources", PageParams())
        while not server.by("GET"):
            await asyncio.sleep(0)
    first, *others = [asked.headers for asked in server.asked]
    assert not {"mcp-session-id", "mcp-protocol-version"} & set(first)
    assert [asked.method for asked in server.asked].count("DELETE") == 1
    for headers in others:
        assert headers["mcp-session-id"] == SESSION
        assert headers.get("mcp-protocol-version") == (revision if REVISIONS[revision].version_header else None)
        assert not {"mcp-method", "mcp-name"} & set(headers)
    assert server.by("GET")[0].headers["accept"] == "text/event-stream"


async def test_a_users_headers_do_not_replace_those_of_the_protocol() -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    mine = {
        "accept": "x",
        "Content-Type": "x",
        "MCP-Protocol-Version": "x",
        "mcp-session-id": "x",
        "Host": "x",
        "Mcp-Param-Region": "x",
        "content-length": "1",
        "Transfer-Encoding": "chunked",
        "Cookie": "a=b",
    }
    async with scripted(answer) as server, client_of(server, headers=mine) as client:
        await client.ask("list_resources", PageParams())
    (asked,) = server.asked
    assert asked.headers["cookie"] == "a=b"
    assert "x" not in asked.headers.values()


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"a": "b\r\nc: d"}, {"a": "\x00"}, {"": "x"}, {"a": 1}, {"ö": "x"}])
def test_a_header_that_cannot_be_sent_is_refused_at_once(headers: Any) -> None:
    with pytest.raises(ConfigError):
        HTTPTransport("http://127.0.0.1/mcp", headers=headers)


@pytest.mark.parametrize(
    "url", ["", "mcp", "ftp://x/", "http://", "file:///etc/passwd", "http://u:p@x/", "http://[", "http://x:99999/"]
)
def test_a_url_that_makes_no_sense_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError):
        HTTPTransport(url)


@pytest.mark.parametrize("id", ["with space", "ö", ""])
async def test_a_session_id_that_is_not_visible_ascii_is_refused(id: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result(HELLO, mcp_session_id=id)

    async with scripted(answer) as server, client_of(server, HANDSHAKE) as client:
        with pytest.raises(TransportError, match="visible ASCII"):
            await client.shake_hands()
        assert server.asked


async def test_a_404_in_a_session_means_that_it_is_over() -> None:
    async def gone(asked: Asked) -> None:
        await asked.answer({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "gone"}}, status=404)

    async with scripted(session(gone)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        with pytest.raises(SessionExpired):
            await client.ask("list_resources", PageParams())
        await client.shake_hands()
        again = [asked for asked in server.by("POST") if asked.message.get("method") == "initialize"][1]
        assert "mcp-session-id" not in again.headers


async def test_the_server_hears_that_the_handshake_is_complete_before_anything_else() -> None:
    told = asyncio.Event()
    served: list[str] = []

    async def serve(asked: Asked) -> None:
        method = "" if asked.method != "POST" else asked.message["method"]
        if method == "notifications/initialized":
            served.append("begun")
            await told.wait()
            await asked.respond(202)
            served.append("complete")
        elif method == "resources/list":
            served.append(method)
            await asked.result()
        else:
            await session(never)(asked)

    async with scripted(serve) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        id = client.start("list_resources", PageParams())
        while not served:
            await asyncio.sleep(0)
        assert len(server.asked) == 2
        told.set()
        await client.recorder.result(id)
        assert served == ["begun", "complete", "resources/list"]


# Streams that are resumed


async def test_a_stream_goes_on_where_it_broke() -> None:
    async def serve(asked: Asked) -> None:
        if asked.method == "POST":
            await asked.stream(b"retry: 1\nid: a-1\ndata: \n\n")
            await asked.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}, "a-2")
            await asked.piece(b"id: a-3\ndata: {")  # not complete, and so not received
            asked.cut()
        elif asked.headers["last-event-id"] == "a-2":
            await asked.stream()
            await asked.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 2}}, "ä-4")
            await asked.end()
        else:
            assert asked.headers["last-event-id"] == "ä-4"
            await asked.stream()
            await asked.event({"jsonrpc": "2.0", "id": 2, "result": {"done": True}}, "a-5")
            await asked.end()

    async with scripted(session(serve)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        id = client.start("list_resources", PageParams())
        assert id == 2
        assert await client.recorder.result(id) == {"done": True}
        assert [m["params"]["progress"] for m in client.recorder.notices("notifications/progress")] == [1, 2]
        resumed = [asked for asked in server.by("GET") if "last-event-id" in asked.headers]
        assert [asked.headers["mcp-session-id"] for asked in resumed] == [SESSION] * 2


async def test_the_server_says_how_long_to_wait_before_a_stream_is_resumed() -> None:
    times: list[float] = []

    async def serve(asked: Asked) -> None:
        times.append(asyncio.get_running_loop().time())
        if asked.method == "POST":
            await asked.stream(b"retry: 150\nid: 1\ndata:\n\n")
            await asked.end()
        else:
            await asked.stream()
            await asked.event({"jsonrpc": "2.0", "id": 2, "result": {}})
            await asked.end()

    async with scripted(session(serve)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.ask("list_resources", PageParams())
    assert 0.149 <= times[1] - times[0] < 0.35


@pytest.mark.parametrize("status", [400, 404, 405, 501])
async def test_a_stream_that_the_server_does_not_resume_is_given_up(status: int) -> None:
    async def serve(asked: Asked) -> None:
        if asked.method == "POST":
            await asked.stream(b"id: 1\nretry: 1\ndata:\n\n")
            await asked.end()
        else:
            await asked.respond(status, b"no")

    async with scripted(session(serve)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        failure = await client.recorder.failure(client.start("list_resources", PageParams()))
        assert "could not be resumed" in str(failure)
        assert type(failure) is TransportError
        assert failure.delivered
        assert len([asked for asked in server.by("GET") if "last-event-id" in asked.headers]) == 1


@pytest.mark.parametrize("how", ["cut", "503", "empty"])
async def test_a_stream_is_not_resumed_for_ever(how: str) -> None:
    async def serve(asked: Asked) -> None:
        if asked.method == "POST":
            await asked.stream(b"id: 1\nretry: 0\ndata:\n\n")
            await asked.end()
        elif how == "cut":
            asked.cut()
        elif how == "503":
            await asked.respond(503)
        else:
            await asked.stream()
            await asked.end()

    async with scripted(session(serve)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.recorder.failure(client.start("list_resources", PageParams()))
        tries = len([asked for asked in server.by("GET") if "last-event-id" in asked.headers])
        assert http_client.MAX_TRIES <= tries <= 2 * http_client.MAX_TRIES  # aiohttp itself repeats a GET once


async def test_a_stream_without_event_ids_is_not_resumed() -> None:
    async def serve(asked: Asked) -> None:
        await asked.stream(b"retry: 1\ndata:\n\n")
        await asked.end()

    async with scripted(session(serve)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.recorder.failure(client.start("list_resources", PageParams()))
        assert not [asked for asked in server.by("GET") if "last-event-id" in asked.headers]


# The stream that belongs to no request


NEWS = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def test_messages_that_belong_to_no_request_are_handed_on() -> None:
    async def listen(asked: Asked) -> None:
        await asked.stream()
        await asked.event(NEWS)
        await never(asked)

    async with scripted(session(never, listen=listen)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.recorder.until(lambda: client.recorder.notices(NEWS["method"]))
        assert client.recorder.interruptions == 0


async def test_a_server_that_offers_no_stream_is_not_asked_again() -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    async with scripted(session(answer)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        while not server.by("GET"):
            await asyncio.sleep(0)
        await client.transport._listening
        assert len(server.by("GET")) == 1


async def test_a_stream_that_could_not_be_resumed_is_told() -> None:
    count = 0

    async def listen(asked: Asked) -> None:
        nonlocal count
        count += 1
        await asked.stream(b": hello\n\n")
        if count == 1:
            asked.cut()
        else:
            await asked.event(NEWS)
            await never(asked)

    async with scripted(session(never, listen=listen)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.recorder.until(lambda: client.recorder.notices(NEWS["method"]))
        assert client.recorder.interruptions == 1


async def test_a_stream_that_was_resumed_has_missed_nothing() -> None:
    async def listen(asked: Asked) -> None:
        await asked.stream(b"retry: 1\nid: 7\ndata:\n\n")
        asked.cut()

    async def resume(asked: Asked) -> None:
        assert asked.headers["last-event-id"] == "7"
        await asked.stream()
        await asked.event(NEWS)
        await never(asked)

    async with scripted(session(resume, listen=listen)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.recorder.until(lambda: client.recorder.notices(NEWS["method"]))
        assert client.recorder.interruptions == 0


async def test_a_place_that_the_server_has_forgotten_is_given_up() -> None:
    count = 0

    async def listen(asked: Asked) -> None:
        nonlocal count
        count += 1
        await asked.stream(b"retry: 1\nid: 7\ndata:\n\n")
        if count == 1:
            asked.cut()
        else:
            await asked.event(NEWS)
            await never(asked)

    async def refuse(asked: Asked) -> None:
        await asked.respond(400, b"what?")

    async with scripted(session(refuse, listen=listen)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.recorder.until(lambda: client.recorder.notices(NEWS["method"]))
        assert client.recorder.interruptions == 1


async def test_listening_goes_on_when_the_server_was_away() -> None:
    count = 0

    async def listen(asked: Asked) -> None:
        nonlocal count
        count += 1
        if count < 3:
            await asked.respond(503 if count == 1 else 409)  # 409: it has not noticed yet that a stream is gone
            return
        await asked.stream()
        await asked.event(NEWS)
        await never(asked)

    async with scripted(session(never, listen=listen)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.recorder.until(lambda: client.recorder.notices(NEWS["method"]))
        assert count == 3


async def test_a_session_that_is_over_is_the_end() -> None:
    count = 0

    async def listen(asked: Asked) -> None:
        nonlocal count
        count += 1
        if count == 1:
            await asked.stream(b": hello\n\n")
            await asked.end()
        else:
            await asked.respond(404)

    async with scripted(session(never, listen=listen)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.recorder.until(lambda: client.recorder.ends)
        assert type(client.recorder.ends[0]) is SessionExpired
        assert len(server.by("GET")) == 2


async def test_a_server_that_has_nothing_to_get_may_say_so_with_a_404() -> None:
    async def listen(asked: Asked) -> None:
        await asked.respond(404, b"Cannot GET /mcp")

    async def answer(asked: Asked) -> None:
        await asked.result()

    async with scripted(session(answer, listen=listen)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.transport._listening
        assert await client.ask("list_resources", PageParams()) == {}
        assert client.recorder.ends == []
        assert len(server.by("GET")) == 1


# Who asks


class Passport:
    """Credentials whose token changes with every refusal, as long as there are any."""

    principal = "somebody"

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.refusals: list[tuple[str, int, Sequence[str], str | None]] = []

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.tokens[0]}"} if self.tokens else {}

    async def refused(
        self,
        url: str,
        status: int,
        challenges: Sequence[str],
        revision: str | None,
        *,
        sent: Mapping[str, str] | None = None,
        nonce: str | None = None,
    ) -> bool:
        self.refusals.append((url, status, list(challenges), revision))
        if len(self.tokens) < 2:
            return False
        self.tokens.pop(0)
        return True

    async def close(self) -> None:
        raise AssertionError("they belong to somebody else")


def guarded(token: str, status: int = 401) -> Any:
    async def serve(asked: Asked) -> None:
        if asked.headers.get("authorization") == f"Bearer {token}":
            await asked.result()
        else:
            await asked.respond(status, b"who?", www_authenticate='Bearer realm="x"')

    return serve


async def test_without_credentials_a_401_says_how_to_give_them() -> None:
    failure = await failure_of(guarded("secret"))
    assert type(failure) is AuthorizationError
    assert "auth=" in str(failure)


async def test_a_token_in_the_headers_is_sent() -> None:
    outcome = await outcome_of(guarded("secret"), headers={"Authorization": "Bearer secret"})
    assert outcome["result"] == {}


@pytest.mark.parametrize("status", [401, 403])
async def test_credentials_are_asked_for_better_ones(status: int) -> None:
    passport = Passport("old", "new", "secret")
    async with (
        scripted(guarded("secret", status)) as server,
        client_of(server, credentials=passport, headers={"authorization": "Bearer mine"}) as client,
    ):
        assert await client.ask("list_resources", PageParams()) == {}
        expected = (server.url, status, ['Bearer realm="x"'], client.revision.name)
        assert passport.refusals == [expected, expected]
        assert [asked.headers["authorization"] for asked in server.asked] == [
            "Bearer old",
            "Bearer new",
            "Bearer secret",
        ]


@pytest.mark.parametrize("status", [401, 403])
async def test_credentials_are_asked_three_times_and_no_more(status: int) -> None:
    passport = Passport(*"abcdefgh")
    async with scripted(guarded("secret", status)) as server, client_of(server, credentials=passport) as client:
        failure = await client.recorder.failure(client.start("list_resources", PageParams()))
        assert type(failure) is AuthorizationError
        assert len(server.asked) == 4
        assert len(passport.refusals) == 3


async def test_credentials_that_cannot_be_had_fail_the_request() -> None:
    class Lost(Passport):
        async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
            raise AuthorizationError("the browser was closed")

    failure = await failure_of(never, credentials=Lost())
    assert type(failure) is AuthorizationError
    assert str(failure) == "the browser was closed"


async def test_broken_credentials_fail_the_request_and_nothing_else() -> None:
    class Broken(Passport):
        async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
            raise ZeroDivisionError

    assert isinstance(await failure_of(never, credentials=Broken()), TransportError)


async def test_a_403_that_does_not_ask_who_it_is_is_told_as_it_is() -> None:
    async def forbid(asked: Asked) -> None:
        await asked.answer({"jsonrpc": "2.0", "error": {"code": -32600, "message": "not from here"}}, status=403)

    failure = await failure_of(forbid, credentials=Passport("a"))
    assert isinstance(failure, PeerError)
    assert failure.status == 403


# Proxies and TLS


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    async with scripted(answer) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:secret@{proxy.host}")
        monkeypatch.setenv("no_proxy", "other.test")
        async with Asker(HTTPTransport("http://example.test/mcp")) as client:
            await client.ask("list_resources", PageParams())
        (asked,) = proxy.asked
        assert asked.target == "http://example.test/mcp"
        assert asked.headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"


async def test_a_server_that_the_environment_excepts_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "example.test")
    assert HTTPTransport("http://www.example.test/mcp")._endpoint._proxy is None
    assert HTTPTransport("http://example.org/mcp")._endpoint._proxy is not None


async def test_no_proxy_leads_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await outcome_of(answer))["result"] == {}


def test_a_proxy_that_is_not_supported_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="socks5"):
        HTTPTransport("http://example.test/mcp")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a file with a key and a certificate of 127.0.0.1 that nobody vouches for."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    key = path.with_suffix(".key")
    subprocess.run([*command, *subject, "-keyout", str(key), "-out", str(path)], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + key.read_bytes())
    return str(path)


async def test_a_server_must_prove_who_it_is(certificate: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate)
    async with scripted(answer, tls=theirs) as server:
        async with client_of(server) as client:
            failure = await client.recorder.failure(client.start("list_resources", PageParams()))
            assert type(failure) is TransportError
            assert not failure.delivered
            assert "certificate" in str(failure).lower()
        assert server.asked == []
        async with client_of(server, tls=ssl.create_default_context(cafile=certificate)) as client:
            for _ in range(3):
                assert await client.ask("list_resources", PageParams()) == {}
        assert server.connections <= 2


def test_a_tls_context_that_verifies_nothing_is_refused() -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with pytest.raises(ConfigError, match="verify"):
        HTTPTransport("https://example.test/mcp", tls=context)
