"""The end of the client's HTTP transports: whenever it comes, nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from carrel.errors import TransportError
from carrel.protocol.revisions import LATEST_HANDSHAKE
from carrel.transports.client import http as http_client
from carrel.transports.client.http import HTTPTransport
from carrel.transports.client.http_sse import HTTPSSETransport
from carrel.transports.client.options import HTTPOptions
from carrel.wire.base import PageParams
from support.scripted_http_server import Asked, Scripted, scripted
from support.transport_recorder import Asker, Recorder

HANDSHAKE = LATEST_HANDSHAKE.name
HELLO = {"protocolVersion": HANDSHAKE, "capabilities": {}, "serverInfo": {"name": "scripted", "version": "1"}}


async def serve(asked: Asked) -> None:
    """Open a session, answer lists, stream to everything else and never end that."""
    if asked.method == "DELETE":
        await asked.respond(405)
    elif asked.method == "GET":
        await asked.stream(b": hello\n\n")
        await asyncio.Event().wait()
    elif asked.message["method"] == "initialize":
        await asked.result(HELLO, mcp_session_id="session")
    elif asked.message["method"] == "resources/list":
        await asked.result()
    elif "id" not in asked.message:
        await asked.respond(202)
    else:
        await asked.stream(b"id: 1\ndata:\n\n")
        await asyncio.Event().wait()


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Scripted]:
    async with scripted(serve) as server:
        yield server


@pytest_asyncio.fixture
async def ours() -> Any:
    """Return a function that tells the tasks of the client which are still there."""
    before = asyncio.all_tasks()

    def look() -> set[Any]:
        new = asyncio.all_tasks() - before - {asyncio.current_task()}
        return {task for task in new if "Scripted.serve" not in repr(task)}

    return look


async def test_it_may_be_closed_before_it_is_opened_and_more_than_once() -> None:
    for kind in (HTTPTransport, HTTPSSETransport):
        transport = kind("http://127.0.0.1:1/mcp")
        await transport.close()
        await transport.close()
        with pytest.raises(TransportError):
            await transport.open(Recorder())


async def test_it_may_be_closed_by_several_at_a_time_while_requests_are_under_way(server: Scripted, ours: Any) -> None:
    client = Asker(HTTPTransport(server.url), HANDSHAKE)
    await client.transport.open(client.recorder)
    await client.shake_hands()
    for _ in range(50):
        client.start_tool("wait")
    async with asyncio.timeout(60):
        await asyncio.gather(*(client.transport.close() for _ in range(5)))
    assert ours() == set()
    assert client.recorder.failures == {}
    assert len(server.by("DELETE")) == 1


async def test_it_may_be_closed_during_the_handshake(ours: Any) -> None:
    asked_for = asyncio.Event()

    async def silent(asked: Asked) -> None:
        asked_for.set()
        await asyncio.Event().wait()

    async with scripted(silent) as server, Asker(HTTPTransport(server.url), HANDSHAKE) as client:
        client.transport.send(client.connection.initialize(client.revision))
        await asked_for.wait()
        await client.transport.close()
        assert ours() == set()


async def test_closing_is_completed_although_the_one_who_closes_is_cancelled(server: Scripted, ours: Any) -> None:
    client = Asker(HTTPTransport(server.url), HANDSHAKE)
    await client.transport.open(client.recorder)
    await client.shake_hands()
    closing = asyncio.create_task(client.transport.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await client.transport.close()
    assert ours() == set()
    assert len(server.by("DELETE")) == 1


async def test_a_server_that_does_not_let_us_go_is_left(monkeypatch: pytest.MonkeyPatch, ours: Any) -> None:
    monkeypatch.setattr(http_client, "FAREWELL", 0.05)

    async def clingy(asked: Asked) -> None:
        await (asyncio.Event().wait() if asked.method == "DELETE" else serve(asked))

    async with scripted(clingy) as server, Asker(HTTPTransport(server.url), HANDSHAKE) as client:
        await client.shake_hands()
        async with asyncio.timeout(60):
            await client.transport.close()
        assert ours() == set()


async def test_a_request_that_is_let_go_before_it_is_sent_is_never_sent(server: Scripted, ours: Any) -> None:
    async with Asker(HTTPTransport(server.url)) as client:
        client.transport.abandon(client.start("list_resources", PageParams()))
        client.transport.abandon("never heard of")
        await client.ask("list_resources", PageParams())
        assert len(server.asked) == 1
        assert ours() == set()


async def test_letting_go_of_a_request_closes_its_connection_and_no_other(server: Scripted, ours: Any) -> None:
    async with Asker(HTTPTransport(server.url)) as client:
        first, _ = client.start_tool("wait"), client.start_tool("wait")
        while len(server.asked) < 2:
            await asyncio.sleep(0)
        client.transport.abandon(first)
        while len(ours()) > 1:
            await asyncio.sleep(0)
        await client.ask("list_resources", PageParams())
        assert client.recorder.failures == {}


@pytest.mark.parametrize("revision", [None, HANDSHAKE])
async def test_fifty_cancelled_calls_leave_nothing_behind(server: Scripted, ours: Any, revision: str | None) -> None:
    options = {} if revision is None else {"revision": revision}
    async with Asker(HTTPTransport(server.url, HTTPOptions(connections=10)), **options) as client:
        if revision:
            await client.shake_hands()
            while not server.by("GET"):
                await asyncio.sleep(0)
        before = len(ours())
        ids = [client.start_tool("wait") for _ in range(50)]  # most of them wait for a connection
        while len(server.asked) < 10:
            await asyncio.sleep(0)
        for id in ids:
            client.transport.abandon(id)
        await client.ask("list_resources", PageParams())
        while len(ours()) > before or client.transport._background._requests:
            await asyncio.sleep(0)
    assert ours() == set()


async def test_memory_is_the_same_after_hundreds_of_calls(server: Scripted) -> None:
    async with Asker(HTTPTransport(server.url)) as client:

        async def call(times: int) -> None:
            for _ in range(times):
                await client.ask("list_resources", PageParams())
                client.recorder.messages.clear()
                client.recorder.raw.clear()
                client.connection.waiting.clear()
                server.asked.clear()

        await call(200)
        gc.collect()
        tracemalloc.start()
        await call(100)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        await call(500)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert grown < 12_500
        await asyncio.sleep(0)
        assert client.transport._background._requests == {}
