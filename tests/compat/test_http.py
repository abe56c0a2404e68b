"""HTTP applications of servers written for ``mcp`` 1.x: they answer as the original does."""

from __future__ import annotations

import asyncio
import contextlib
import math
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from carrel import Client
from carrel.compat.mcp import ClientSession
from carrel.compat.mcp.client.sse import sse_client
from carrel.compat.mcp.client.streamable_http import (
    create_mcp_http_client,
    streamable_http_client,
    streamablehttp_client,
)
from carrel.compat.mcp.server.fastmcp import Context, FastMCP
from carrel.compat.mcp.server.sse import SseServerTransport
from carrel.compat.mcp.server.streamable_http import StreamableHTTPServerTransport
from carrel.compat.mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from carrel.compat.mcp.server.transport_security import TransportSecurityMiddleware
from compat.comparison import HERE, normal, on_carrel, on_original, probed
from support.http_process import free_port
from support.http_server import over_http
from support.stdio_process import initialize

pytestmark = pytest.mark.slow
PROGRAM = str(HERE / "programs" / "web.py")
PATHS = {"streamable-http": "/mcp", "sse": "/sse"}
PLAN = {"form": {"date": "today"}}


@contextlib.contextmanager
def served(command: list[str], port: int) -> Iterator[None]:
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        for line in server.stderr:
            if "Uvicorn running" in line:
                break
        yield
    finally:
        server.terminate()
        server.communicate(timeout=60)


@pytest.mark.parametrize("transport", PATHS)
def test_a_server_ends_although_a_client_keeps_a_stream_open(transport: str) -> None:
    port = free_port()
    with (
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
        contextlib.ExitStack() as streams,
        served(on_carrel([PROGRAM, transport, str(port)]), port),
    ):
        accept = {"accept": "application/json, text/event-stream"}
        if transport == "streamable-http":
            opened = client.post("/mcp", json=initialize(), headers=accept)
            accept["mcp-session-id"] = opened.headers["mcp-session-id"]
        stream = streams.enter_context(client.stream("GET", PATHS[transport], headers=accept))
        assert stream.status_code == 200


@pytest.mark.parametrize("transport", PATHS)
def test_a_server_over_http_answers_the_same(transport: str) -> None:
    answers = []
    for kind in (on_original, on_carrel):
        port = free_port()
        with served(kind([PROGRAM, transport, str(port)]), port):
            answers.append(normal(probed([f"http://127.0.0.1:{port}{PATHS[transport]}"], PLAN)["answers"]))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as response:
                assert response.read() == b'{"ok":true}'
    assert answers[0] == answers[1]
    assert not answers[0]["call header {}"]["isError"]


def books(name: str) -> FastMCP:
    mcp = FastMCP(name, streamable_http_path="/")

    @mcp.tool()
    async def where(ctx: Context) -> str:
        request = ctx.request_context.request
        await ctx.info("asked")
        return f"{name} {request.headers['x-shelf']} {request.url.path}"

    return mcp


def serving(app: Any) -> contextlib.AbstractContextManager[str]:
    return over_http(SimpleNamespace(asgi=lambda: app))  # type: ignore[arg-type]


async def test_several_servers_are_mounted_in_one_application() -> None:
    one, two = books("one"), books("two")

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        async with one.session_manager.run(), two.session_manager.run():
            yield

    apps = [Mount("/one", one.streamable_http_app()), Mount("/two", two.streamable_http_app())]
    with serving(Starlette(routes=apps, lifespan=lifespan)) as origin:
        for name in ("one", "two"):
            connect = streamablehttp_client(f"{origin}/{name}/", {"x-shelf": "A"})
            async with connect as (read, write, session_id), ClientSession(read, write) as session:
                await session.initialize()
                assert session_id()
                result = await session.call_tool("where")
                assert result.structuredContent == {"result": f"{name} A /{name}/"}


async def test_an_http_client_of_the_program_sends_the_requests() -> None:
    methods: list[str] = []

    async def note(request: httpx.Request) -> None:
        methods.append(request.method)

    async with create_mcp_http_client({"x-shelf": "B"}) as http:
        http.event_hooks = {"request": [note]}
        with serving(books("one").streamable_http_app()) as origin:
            connect = streamable_http_client(origin, http_client=http)
            async with connect as (read, write, _), ClientSession(read, write) as session:
                await session.initialize()
                result = await session.call_tool("where")
        assert not http.is_closed
    assert result.structuredContent == {"result": "one B /"}
    assert methods.count("POST") >= 3
    assert methods[-1] == "DELETE"


async def test_a_stateless_client_is_served_too() -> None:
    with serving(books("one").streamable_http_app()) as origin:
        async with Client(origin + "/", revision="2026-07-28") as client:
            assert [tool.name for tool in await client.list_tools()] == ["where"]
            assert "x-shelf" in (await client.call_tool("where")).text


async def test_clients_of_http_with_sse_share_a_server_that_stops_after_the_last() -> None:
    with serving(books("one").sse_app()) as origin:
        headers = {"x-shelf": "C"}
        async with (
            sse_client(f"{origin}/sse", headers) as first,
            sse_client(f"{origin}/sse", headers) as second,
            ClientSession(*first) as one,
            ClientSession(*second) as two,
        ):
            for session in (one, two):
                await session.initialize()
                result = await session.call_tool("where")
                assert result.structuredContent == {"result": "one C /messages/"}
        url = f"{origin}/messages/?sessionId=x"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(urllib.request.Request(url, b"{}", {"content-type": "application/json"}))


async def test_an_endpoint_runs_once_and_only_then_answers() -> None:
    manager = StreamableHTTPSessionManager(books("one")._mcp_server)
    with pytest.raises(RuntimeError, match="Make sure to use run"):
        await manager.handle_request({}, None, None)
    async with manager.run():
        pass
    with pytest.raises(RuntimeError, match="only be called once"):
        async with manager.run():
            pass


@pytest.mark.parametrize(
    ("host", "headers", "status"),
    [
        ("127.0.0.1", {"host": "127.0.0.1:8000"}, None),
        ("127.0.0.1", {"host": "example.org"}, 421),
        ("127.0.0.1", {"host": "127.0.0.1:8000@example.org"}, 421),
        ("127.0.0.1", {"host": "localhost:1", "origin": "http://localhost:2"}, None),
        ("127.0.0.1", {"host": "[::1]:1", "origin": "http://[::1]:1"}, None),
        ("127.0.0.1", {"host": "localhost:1", "origin": "https://example.org"}, 403),
        ("127.0.0.1", {"host": "localhost:1", "origin": "http://localhost:1.example.org"}, 403),
        ("0.0.0.0", {"host": "example.org"}, None),
        ("0.0.0.0", {"content-type": "text/plain"}, 400),
    ],
)
async def test_a_server_of_this_machine_only_is_protected_against_other_hosts(
    host: str, headers: dict[str, str], status: int | None
) -> None:
    middleware = TransportSecurityMiddleware(FastMCP("a", host=host).settings.transport_security)
    given = {"content-type": "application/json", **headers}
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    response = await middleware.validate_request(Request({"type": "http", "headers": raw}), is_post=True)
    assert (None if response is None else response.status_code) == status


def test_the_endpoint_of_messages_is_a_path() -> None:
    with pytest.raises(ValueError, match="is not a relative path"):
        SseServerTransport("https://example.org/messages")


@pytest.mark.parametrize("id", ["my-session", None])
async def test_a_transport_of_the_program_has_its_session_id_and_ends_with_its_block(id: str | None) -> None:
    transport, server = StreamableHTTPServerTransport(id), books("one")._mcp_server

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        async with transport.connect() as streams, anyio.create_task_group() as group:
            group.start_soon(server.run, *streams, server.create_initialization_options())
            yield
            await transport.terminate()

    app = Starlette(routes=[Mount("/", transport.handle_request)], lifespan=lifespan)
    with serving(app) as origin:
        connect = streamablehttp_client(f"{origin}/anywhere", {"x-shelf": "A"})
        async with connect as (read, write, session_id), ClientSession(read, write) as session:
            await session.initialize()
            assert session_id() == id
            assert (await session.call_tool("where")).structuredContent == {"result": "one A /anywhere"}
    assert transport.is_terminated


async def ping(transport: StreamableHTTPServerTransport) -> list[dict[str, Any]]:
    """Send a ping to a transport as an ASGI application, and return the messages of its response."""
    sent: list[dict[str, Any]] = []
    headers = [(b"accept", b"application/json, text/event-stream"), (b"content-type", b"application/json")]
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    await transport.handle_request(scope, receive, send)
    return sent


async def test_a_transport_that_was_terminated_answers_404() -> None:
    transport = StreamableHTTPServerTransport("my-session")
    async with transport.connect():
        waiting = asyncio.ensure_future(ping(transport))  # nothing serves the streams yet
        cancelled = asyncio.ensure_future(ping(transport))
        await asyncio.sleep(0)
        cancelled.cancel()
        await transport.terminate()
        for sent in (await waiting, await ping(transport)):
            assert sent[0]["status"] == 404
            assert (b"mcp-session-id", b"my-session") in sent[0]["headers"]
            assert b"Session has been terminated" in sent[1]["body"]
    assert cancelled.cancelled()


PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
}
DISCOVER = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": MODERN_META}}
DISCOVERS = {"mcp-method": "server/discover"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def client_of(manager: StreamableHTTPSessionManager) -> httpx.AsyncClient:
    """Return a client whose requests the manager handles in this process."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(manager.handle_request),
        base_url="http://127.0.0.1/mcp",
        headers={"accept": "application/json, text/event-stream"},
    )


async def test_at_the_limit_of_sessions_a_new_session_is_refused_until_another_one_ends() -> None:
    manager = StreamableHTTPSessionManager(books("one")._mcp_server, max_sessions=1)
    async with manager.run(), client_of(manager) as client:
        first = await client.post("", json=HELLO)
        refused = await client.post("", json=HELLO)
        assert refused.status_code == 503
        assert refused.json()["error"]["message"] == "Too many open sessions"
        session = {"mcp-session-id": first.headers["mcp-session-id"]}
        assert list(manager._server_instances) == [session["mcp-session-id"]]
        modern = await client.post("", json=DISCOVER, headers={"mcp-protocol-version": "2026-07-28", **DISCOVERS})
        assert modern.status_code == 200
        assert (await client.delete("", headers=session)).status_code == 200
        assert not manager._server_instances
        gone = await client.post("", json=PING, headers=session)
        assert (gone.status_code, gone.json()["error"]["message"]) == (404, "Session not found")
        assert (await client.post("", json=HELLO)).status_code == 200


async def test_a_refused_request_leaves_no_session() -> None:
    manager = StreamableHTTPSessionManager(books("one")._mcp_server, max_sessions=1)
    async with manager.run(), client_of(manager) as client:
        for request in (PING, {}, {"jsonrpc": "2.0", "method": "notifications/initialized"}):
            assert (await client.post("", json=request)).status_code == 400
            assert not manager._server_instances
        assert (await client.delete("")).status_code == 400
        assert (await client.patch("")).status_code == 405
        assert (await client.post("", json=HELLO)).status_code == 200


async def test_an_idle_session_ends_and_is_forgotten() -> None:
    manager = StreamableHTTPSessionManager(books("one")._mcp_server, session_idle_timeout=0.05)
    async with manager.run(), client_of(manager) as client:
        opened = await client.post("", json=HELLO)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        [transport] = manager._server_instances.values()
        while not transport.is_terminated:
            await asyncio.sleep(0.01)
        assert not manager._server_instances
        assert (await client.post("", json=PING, headers=session)).status_code == 404


@pytest.mark.parametrize(
    "limits", [{"session_idle_timeout": 0}, {"session_idle_timeout": math.inf}, {"max_sessions": 0}]
)
def test_a_limit_of_sessions_that_is_not_positive_is_an_error(limits: Any) -> None:
    with pytest.raises(ValueError, match="must be a positive"):
        StreamableHTTPSessionManager(books("one")._mcp_server, **limits)
