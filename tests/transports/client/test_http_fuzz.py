"""Responses with bytes changed, left out and put in: each request ends, and with nothing but documented errors."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from carrel.errors import MCPError
from carrel.transports.client import http as http_client
from carrel.transports.client import http_session as endpoint
from carrel.wire.base import PageParams
from support.http_scripts import client_of
from support.scripted_http_server import Asked, scripted

STATUSES = (100, 101, 202, 204, 205, 301, 304, 307, 308, 400, 401, 403, 404, 500, 503)


def respond(chance: random.Random, id: int) -> bytes:
    """Return a response of some kind."""
    result = {"text": "x" * chance.choice((0, 10, 1000))}
    body = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
    kind = chance.randrange(4)
    if kind == 0:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d" % len(body)
    elif kind == 1:
        event = b"id: 5\nretry: 1\nevent: message\ndata: %b\n\n" % body
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked"
    elif kind == 2:
        status, more = chance.choice(STATUSES), b"Location: /x\r\nRetry-After: 1\r\nWWW-Authenticate: Bearer x"
        head = b"HTTP/1.1 %d Some\r\nContent-Length: %d\r\n%b" % (status, len(body), more)
    else:
        coding = chance.choice((b"gzip", b"deflate", b"br", b"zstd", b"x"))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: " + coding
    return head + b"\r\n\r\n" + body


def mangle(chance: random.Random, data: bytes) -> bytes:
    mangled = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        place, how = chance.randrange(len(mangled) + 1), chance.randrange(4)
        if how == 0:
            mangled[place : place + 1] = bytes((chance.randrange(256),))
        elif how == 1:
            del mangled[place : place + chance.randrange(1, 20)]
        elif how == 2:
            mangled[place:place] = chance.randbytes(chance.randrange(1, 8))
        else:
            del mangled[place:]
    return bytes(mangled)


@pytest.mark.parametrize("seed", range(3))
async def test_a_mangled_response_ends_a_request_in_an_orderly_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "LOOK_AFTER", 0.01)
    monkeypatch.setattr(http_client, "ENDING", 0.01)
    chance = random.Random(seed)

    async def babble(asked: Asked) -> None:
        data = mangle(chance, respond(chance, asked.id))
        step = max(1, len(data) // 3)
        for start in range(0, len(data), step):
            await asked.write(data[start : start + step])
            await asyncio.sleep(0)
        if chance.random() < 0.3:
            asked.cut()
        else:
            asked.writer.close()

    async with scripted(babble) as server, client_of(server, max_message=100_000) as client:
        recorder, background = client.recorder, client.transport._background
        for _ in range(200):
            id = client.start("list_resources", PageParams())
            while id in background._requests:
                await asyncio.sleep(0)
            assert recorder.raw or isinstance(recorder.failures[id], MCPError)
            recorder.raw.clear()
