"""The client's HTTP transports with servers that we did not write: the official SDKs, in each way they can answer."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel.errors import MCPError, SessionExpired
from carrel.protocol.revisions import LATEST, LATEST_HANDSHAKE, REVISIONS
from carrel.transports.client.http import HTTPTransport
from carrel.transports.client.http_sse import HTTPSSETransport
from carrel.wire.base import PageParams
from carrel.wire.resources import ReadResourceParams
from support.parties import node_environment, node_program, python_program
from support.transport_recorder import Asker

SERVERS = Path(__file__).parent / "servers"
HANDSHAKE = [name for name, revision in REVISIONS.items() if not revision.stateless]
#: Revisions of sessions, by the way in which servers answer: each revision with each server, in one of the ways.
BY_WAY = {"stream": (HANDSHAKE[0], HANDSHAKE[-1]), "json": tuple(HANDSHAKE[1:-1])}
#: How many calls are in flight at the same time.
CALLS = 50
CAPABLE = {"elicitation": {}}


def command(party: str, way: str) -> tuple[list[str], dict[str, str] | None]:
    if party.startswith("typescript"):
        program = f"typescript_sdk_{party.removeprefix('typescript-')}_http.cjs"
        return [node_program(), str(SERVERS / program), way], node_environment()
    return python_program(party.removeprefix("python-"), str(SERVERS / "python_sdk_http.py"), way), None


@contextlib.contextmanager
def running(party: str, way: str) -> Iterator[str]:
    arguments, environment = command(party, way)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(scope="module", params=["python-1", "python-2", "typescript-1"])
def party(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module", params=["stream", "json"])
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def url(party: str, way: str) -> Iterator[str]:
    with running(party, way) as url:
        yield url


@pytest.fixture(scope="module")
def stream_url(party: str) -> Iterator[str]:
    with running(party, "stream") as url:
        yield url


@pytest.fixture(scope="module")
def sse_url(party: str) -> Iterator[str]:
    with running(party, "sse") as url:
        yield url


async def tour(client: Asker, *, streams: bool) -> None:
    """Do what every server has an answer to."""
    assert (await client.call("echo", text="größer"))["content"][0]["text"] == "größer"
    read = await client.ask("read_resource", ReadResourceParams(uri="memo://text"))
    assert read["contents"][0]["text"] == "text"
    id = client.start_tool("count", n=3)
    assert (await client.recorder.result(id))["content"][0]["text"] == "counted to 3"
    if streams:
        progress = [note["params"] for note in client.recorder.notices("notifications/progress")]
        assert [(note["progressToken"], note["progress"]) for note in progress] == [(id, 1), (id, 2), (id, 3)]
    ids = [client.start_tool("echo", text=str(number)) for number in range(CALLS)]
    for number, id in enumerate(ids):
        assert (await client.recorder.result(id))["content"][0]["text"] == str(number)


async def be_asked(client: Asker) -> None:
    """Answer a question of the server."""
    id = client.start_tool("ask")
    await client.recorder.until(lambda: client.recorder.notices("elicitation/create"))
    (question,) = client.recorder.notices("elicitation/create")
    await client.answer(question["id"], {"action": "accept", "content": {"name": "Ada"}})
    assert (await client.recorder.result(id))["content"][0]["text"] == "Hello, Ada"


async def test_sessions(url: str, way: str) -> None:
    for revision in BY_WAY[way]:
        async with Asker(HTTPTransport(url), revision, **CAPABLE) as client:
            assert (await client.shake_hands())["protocolVersion"] == revision
            await tour(client, streams=way == "stream")
            assert client.recorder.failures == {}


async def test_questions(stream_url: str) -> None:
    async with Asker(HTTPTransport(stream_url), LATEST_HANDSHAKE.name, **CAPABLE) as client:
        await client.shake_hands()
        await be_asked(client)


async def test_a_stream_that_the_server_has_closed_is_resumed(stream_url: str) -> None:
    async with Asker(HTTPTransport(stream_url), LATEST_HANDSHAKE.name, **CAPABLE) as client:
        await client.shake_hands()
        assert (await client.call("pause"))["content"][0]["text"] == "after the pause"


async def test_a_session_that_has_ended(url: str) -> None:
    async with Asker(HTTPTransport(url), LATEST_HANDSHAKE.name) as client:
        await client.shake_hands()
        ended = Asker(HTTPTransport(url), LATEST_HANDSHAKE.name)
        async with ended:
            await ended.shake_hands()
            session = ended.transport._session
        client.transport._session = session
        with pytest.raises(SessionExpired):
            await client.ask("list_resources", PageParams())
        await client.shake_hands()
        assert await client.ask("list_resources", PageParams())


@pytest.mark.parametrize("revision", [HANDSHAKE[0], HANDSHAKE[-1]])
async def test_http_with_sse(sse_url: str, revision: str) -> None:
    async with Asker(HTTPSSETransport(sse_url), revision, **CAPABLE) as client:
        assert (await client.shake_hands())["protocolVersion"] == revision
        await tour(client, streams=True)
        if "elicit" in client.revision.server_requests:
            await be_asked(client)
        assert client.recorder.ends == []
    assert client.recorder.ends == []


@pytest.mark.parametrize(("modern", "way"), [("python-2", "stream"), ("python-2", "json"), ("typescript-2", "stream")])
async def test_stateless_requests(modern: str, way: str) -> None:
    with running(modern, way) as url:
        async with Asker(HTTPTransport(url)) as client:
            assert (await client.ask("discover", PageParams()))["supportedVersions"]
            await tour(client, streams=way == "stream")
            assert client.recorder.failures == {}


@pytest.mark.parametrize("old", ["python-1", "typescript-1"])
async def test_a_stateless_request_to_an_older_server_is_refused_with_a_status(old: str) -> None:
    with running(old, "json") as url:
        async with Asker(HTTPTransport(url)) as client:
            failure = await client.recorder.failure(client.start("discover", PageParams()))
            assert failure.status == 400


async def test_the_endpoint_of_streamable_http_is_none_of_http_with_sse(url: str) -> None:
    client = Asker(HTTPSSETransport(url), HANDSHAKE[-1])
    with pytest.raises(MCPError):
        await client.transport.open(client.recorder)


async def test_the_endpoint_of_http_with_sse_is_none_of_streamable_http(sse_url: str) -> None:
    async with Asker(HTTPTransport(sse_url), LATEST.name) as client:
        failure = await client.recorder.failure(client.start("discover", PageParams()))
        assert failure.status in (400, 404, 405)
