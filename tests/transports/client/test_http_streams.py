"""Streams of a session: those that are resumed, and the one that belongs to no request."""

from __future__ import annotations

import asyncio

import pytest

from carrel.errors import (
    SessionExpired,
    TransportError,
)
from carrel.transports.client import backoff
from carrel.transports.client import http as http_client
from carrel.wire.base import PageParams
from support.http_scripts import HANDSHAKE, SESSION, client_of, never, session
from support.scripted_http_server import Asked, scripted


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST", 0.001)


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
        await asked.stream(b"event: ping\ndata: {}\n\ndata:\n\n")
        await asked.event(NEWS)
        await never(asked)

    async with scripted(session(never, listen=listen)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        await client.recorder.until(lambda: client.recorder.notices(NEWS["method"]))
        assert client.recorder.interruptions == 0
        assert client.recorder.messages[1:] == [NEWS]


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
