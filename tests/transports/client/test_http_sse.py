"""The client's end of HTTP+SSE, with our own server and with servers that break."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from carrel.errors import AuthorizationError, ConfigError, HTTPStatusError, PeerError, TransportError
from carrel.protocol.revisions import REVISIONS
from carrel.transports.client.http_sse import HTTPSSETransport
from carrel.transports.client.options import HTTPOptions
from carrel.wire.base import PageParams
from carrel.wire.resources import ReadResourceParams
from support.raw_http import Site
from support.scripted_http_server import Asked, scripted
from support.transport_recorder import Asker

HANDSHAKE = [name for name, revision in REVISIONS.items() if not revision.stateless]
OLDEST = HANDSHAKE[-1]


@pytest_asyncio.fixture
async def old_site(serve: Any) -> Site:
    return await serve(sse_path="/sse")


def asker(url: str, revision: str = OLDEST, **options: Any) -> Asker:
    return Asker(HTTPSSETransport(url, HTTPOptions(**options)), revision)


HELLO = {"protocolVersion": OLDEST, "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}


class Old:
    """A server of HTTP+SSE: what it says first, and what it does with messages, is up to the test."""

    def __init__(self, endpoint: str = "/messages?id=1", **replies: Any) -> None:
        self.endpoint = endpoint
        self.replies = replies
        self.stream: Any = None

    async def __call__(self, asked: Asked) -> None:
        if asked.method == "GET":
            self.stream = asked
            await asked.stream(f": hello\n\nevent: endpoint\ndata: {self.endpoint}\n\n".encode())
            return
        method = asked.message.get("method", "")
        if method == "initialize":
            await asked.respond(202, b"Accepted")
            await self.answer(asked, HELLO)
        elif method in self.replies:
            await self.replies[method](self, asked)
        else:
            await asked.respond(202)

    async def answer(self, asked: Asked, result: Any) -> None:
        await self.stream.event({"jsonrpc": "2.0", "id": asked.id, "result": result})


async def failure_of_opening(script: Any, **options: Any) -> Exception:
    async with scripted(script) as server:
        client = asker(server.url, **options)
        before = asyncio.all_tasks()
        with pytest.raises(Exception) as raised:  # noqa: PT011  (the tests look at it)
            await client.transport.open(client.recorder)
        assert not {task for task in asyncio.all_tasks() - before if "carrel" in repr(task)}
        assert client.recorder.ends == []
        await client.transport.close()
        return raised.value


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_session_begins_and_requests_are_answered(old_site: Site, revision: str) -> None:
    async with asker(f"http://{old_site.host}/sse", revision) as client:
        assert (await client.shake_hands())["protocolVersion"] == revision
        ids = [client.start("read_resource", ReadResourceParams(uri="memo://text")) for _ in range(300)]
        for id in ids:
            assert (await client.recorder.result(id))["contents"][0]["text"] == "text"
        assert client.recorder.failures == {}
    assert client.recorder.ends == []


async def test_cancelling_takes_a_message(old_site: Site, shop: Any) -> None:
    async with asker(f"http://{old_site.host}/sse") as client:
        await client.shake_hands()
        id = client.start_tool("wait")
        await shop.begun.wait()
        assert not client.transport.cancels
        message = client.connection.give_up(id, "enough")
        await client.transport.send(message)
        client.transport.abandon(id)
        await shop.cancelled.wait()


async def test_a_server_of_another_kind_is_told(old_site: Site) -> None:
    client = asker(f"http://{old_site.host}/nothing")
    with pytest.raises(PeerError, match="endpoint") as raised:
        await client.transport.open(client.recorder)
    assert raised.value.status == 404


async def test_a_lost_stream_is_the_end() -> None:
    async def cut(old: Old, asked: Asked) -> None:
        await asked.respond(202)
        old.stream.cut()

    async with scripted(Old(**{"resources/list": cut})) as server, asker(server.url) as client:
        await client.shake_hands()
        client.start("list_resources", PageParams())
        await client.recorder.until(lambda: client.recorder.ends)
        failure = await client.recorder.failure(client.start("list_resources", PageParams()))
        assert type(failure) is TransportError
        assert not failure.delivered
    assert len(client.recorder.ends) == 1


async def test_a_stream_that_ends_properly_is_the_end_too() -> None:
    async def end(old: Old, asked: Asked) -> None:
        await asked.respond(202)
        await old.answer(asked, {})
        await old.stream.end()

    async with scripted(Old(**{"resources/list": end})) as server, asker(server.url) as client:
        await client.shake_hands()
        assert await client.ask("list_resources", PageParams()) == {}
        (error,) = await client.recorder.until(lambda: client.recorder.ends)
        assert "ended the stream" in str(error)


@pytest.mark.parametrize(
    "endpoint",
    [
        *("http://127.0.0.1:1/messages", "https://127.0.0.1/messages", "//example.test/messages", "http://localhost/"),
        *("ftp://127.0.0.1/", "javascript:alert(1)", "http://[", "http://user:password@HOST/messages"),
    ],
)
async def test_messages_are_not_sent_elsewhere(endpoint: str) -> None:
    failure = await failure_of_opening(Old(endpoint), headers={"Authorization": "Bearer secret"})
    assert type(failure) is TransportError
    assert "elsewhere" in str(failure)


@pytest.mark.parametrize("endpoint", ["/messages?id=1", "messages?id=1", "?id=1", "http://HOST/messages?id=1"])
async def test_where_to_post_may_be_said_in_any_way(endpoint: str) -> None:
    old = Old(endpoint)
    async with scripted(old) as server:
        old.endpoint = endpoint.replace("HOST", server.host)
        async with asker(server.url) as client:
            await client.shake_hands()
            assert {asked.target for asked in server.by("POST")} == {
                "/mcp?id=1" if endpoint[0] == "?" else "/messages?id=1"
            }


async def test_only_the_first_endpoint_counts() -> None:
    async def move(old: Old, asked: Asked) -> None:
        await old.stream.piece(b"event: endpoint\ndata: http://127.0.0.1:1/\n\nevent: ping\ndata: {}\n\n")
        await asked.respond(200, b"whatever", content_type="text/plain")
        await old.answer(asked, {})

    async with scripted(Old(**{"resources/list": move})) as server, asker(server.url) as client:
        await client.shake_hands()
        for _ in range(2):
            assert await client.ask("list_resources", PageParams()) == {}
        assert len(client.recorder.messages) == 3


@pytest.mark.parametrize(("status", "kind"), [(200, "text/html"), (200, "application/json"), (202, "")])
async def test_a_response_that_is_not_a_stream_is_an_error(status: int, kind: str) -> None:
    async def page(asked: Asked) -> None:
        await asked.respond(status, b"<html>", **({"content_type": kind} if kind else {}))

    failure = await failure_of_opening(page)
    assert type(failure) is TransportError
    assert (kind or "(none)") in str(failure)


@pytest.mark.parametrize("status", [400, 404, 405, 500])
async def test_a_refusal_is_told(status: int) -> None:
    async def refuse(asked: Asked) -> None:
        await asked.respond(status, b"no")

    failure = await failure_of_opening(refuse)
    assert isinstance(failure, HTTPStatusError)
    assert failure.status == status


async def test_a_server_that_wants_to_know_who_asks_is_told() -> None:
    async def refuse(asked: Asked) -> None:
        await asked.respond(401, www_authenticate="Bearer")

    assert isinstance(await failure_of_opening(refuse), AuthorizationError)


async def test_a_stream_that_ends_at_once_is_told() -> None:
    async def end(asked: Asked) -> None:
        await asked.stream(b"event: message\ndata: {}\n\n")
        await asked.end()

    assert "ended the stream" in str(await failure_of_opening(end))


@pytest.mark.parametrize("silent", ["connection", "stream"])
async def test_a_server_that_does_not_say_where_to_post_is_given_up(silent: str) -> None:
    async def wait(asked: Asked) -> None:
        if silent == "stream":
            await asked.stream(b": hello\n\n")
        await asyncio.Event().wait()

    assert "within 0.05 seconds" in str(await failure_of_opening(wait, connect_timeout=0.05))


async def test_a_message_that_is_too_long_is_the_end() -> None:
    async def flood(old: Old, asked: Asked) -> None:
        await asked.respond(202)
        await old.answer(asked, {"text": "x" * 2000})

    async with scripted(Old(**{"resources/list": flood})) as server, asker(server.url, max_message=1000) as client:
        await client.shake_hands()
        client.start("list_resources", PageParams())
        (error,) = await client.recorder.until(lambda: client.recorder.ends)
        assert "1000 bytes" in str(error)


@pytest.mark.parametrize("status", [400, 404, 503])
async def test_a_message_that_is_refused_fails(status: int) -> None:
    async def refuse(old: Old, asked: Asked) -> None:
        await asked.respond(status, b"no")

    async with scripted(Old(**{"resources/list": refuse})) as server, asker(server.url) as client:
        await client.shake_hands()
        failure = await client.recorder.failure(client.start("list_resources", PageParams()))
        assert isinstance(failure, HTTPStatusError)
        assert failure.status == status


async def test_a_message_that_is_refused_with_an_error_of_the_protocol_is_that_error() -> None:
    async def refuse(old: Old, asked: Asked) -> None:
        await asked.answer({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}}, status=400)

    async with scripted(Old(**{"resources/list": refuse})) as server, asker(server.url) as client:
        await client.shake_hands()
        failure = await client.recorder.failure(client.start("list_resources", PageParams()))
        assert isinstance(failure, PeerError)
        assert (failure.code, failure.status) == (-32700, 400)


async def test_the_server_hears_that_the_handshake_is_complete_before_anything_else() -> None:
    told, seen = asyncio.Event(), []

    async def wait(old: Old, asked: Asked) -> None:
        await told.wait()
        seen.append("complete")
        await asked.respond(202)

    async def answer(old: Old, asked: Asked) -> None:
        seen.append("request")
        await asked.respond(202)
        await old.answer(asked, {})

    script = Old(**{"notifications/initialized": wait, "resources/list": answer})
    async with scripted(script) as server, asker(server.url) as client:
        await client.shake_hands()
        id = client.start("list_resources", PageParams())
        while len(server.asked) < 3:
            await asyncio.sleep(0)
        told.set()
        await client.recorder.result(id)
        assert seen == ["complete", "request"]


async def test_it_may_be_closed_while_it_is_opened() -> None:
    asked_for = asyncio.Event()

    async def wait(asked: Asked) -> None:
        asked_for.set()
        await asyncio.Event().wait()

    async with scripted(wait) as server:
        client = asker(server.url)
        opening = asyncio.create_task(client.transport.open(client.recorder))
        await asked_for.wait()
        await asyncio.gather(client.transport.close(), client.transport.close())
        with pytest.raises(TransportError):
            await opening
        again = asyncio.create_task(asker(server.url).transport.open(client.recorder))
        asked_for.clear()
        await asked_for.wait()
        again.cancel()
        with pytest.raises(asyncio.CancelledError):
            await again
        assert not {task for task in asyncio.all_tasks() if "carrel" in repr(task)}


async def test_closing_is_not_told_as_a_loss() -> None:
    async with scripted(Old()) as server, asker(server.url) as client:
        await client.shake_hands()
        client.start("list_resources", PageParams())
        await client.transport.close()
        assert client.recorder.ends == []
        assert client.recorder.failures == {}
        assert isinstance(await client.recorder.failure(client.start("list_resources", PageParams())), TransportError)


def test_a_url_that_makes_no_sense_is_refused_at_once() -> None:
    with pytest.raises(ConfigError):
        HTTPSSETransport("sse")
