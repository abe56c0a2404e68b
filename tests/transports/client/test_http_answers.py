"""What the client's end of Streamable HTTP makes of answers: those that are none, statuses, and sizes."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket

import pytest

from carrel.errors import (
    HTTPStatusError,
    PeerError,
    TransportError,
)
from carrel.transports.client import http_session as endpoint
from carrel.transports.client.http import HTTPTransport
from carrel.wire.base import PageParams
from support.http_scripts import client_of, failure_of, never, outcome_of
from support.scripted_http_server import Asked, scripted
from support.transport_recorder import Asker

# Answers that are none


async def test_a_refused_connection_is_an_error_that_was_not_delivered() -> None:
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
    assert "not a response" in str(failure)


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
    assert "sent no response" in str(failure)


@pytest.mark.parametrize("way", ["json", "stream"])
async def test_a_body_whose_framing_is_wrong_is_told(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "LOOK_AFTER", 0.01)

    async def mangle(asked: Asked) -> None:
        if way == "json":
            await asked.respond(200, content_type="application/json", transfer_encoding="chunked")
        else:
            await asked.stream(b": hello\n\n")
        await asked.write(b"2\r\n{")
        await asyncio.sleep(0.01)  # so that it does not come in one piece
        await asked.write(b"}}}\r\n0\r\n\r\n")

    assert type(await failure_of(mangle)) is TransportError


# Statuses


@pytest.mark.parametrize("status", [400, 403, 404, 405, 418, 429, 500, 502, 503, 504, 599])
async def test_a_status_without_a_message_is_told_with_what_was_said(status: int) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.respond(status, b"<h1>Go\x1b[31m\r\n\taway</h1>" + b"x" * 100_000, content_type="text/html")

    failure = await failure_of(refuse)
    assert type(failure) is HTTPStatusError
    assert failure.status == status
    assert str(status) in str(failure)
    assert r"Go\x1b[31m away" in str(failure)
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


async def test_invalid_compression_of_a_response_is_an_error() -> None:
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
