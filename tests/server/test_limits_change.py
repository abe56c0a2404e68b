"""Limits that change while a server runs."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from carrel import Context, Limits, Server
from carrel.errors import ConfigError
from carrel.transports import memory
from carrel.transports.server.http import StreamableHTTP
from carrel.transports.server.stdio import Stdio
from support.http_requests import initialize, request
from support.http_server import over_http
from support.memory_client import JUNE, call


def changed(app: Server, **limits: float) -> None:
    app.limits = msgspec.structs.replace(app.limits, **limits)


async def test_limits_that_change_hold_for_what_comes_next() -> None:
    app = Server("limits")
    app.resources.add("memo://1", "a")
    app.resources.add("memo://2", "b")
    go = asyncio.Event()

    @app.tool
    async def wait() -> None:
        await go.wait()

    @app.tool
    async def keep(size: int, context: Context) -> None:
        assert context.session is not None
        await context.session.set("a", "x" * size)

    async with memory.connect(app, JUNE) as peer:
        first = peer.start("tools/call", {"name": "wait"})
        changed(app, max_requests_in_flight=1, max_subscriptions=1, max_session_state_bytes=50)
        assert "Too many requests" in (await peer.request("tools/call", {"name": "wait"}))["error"]["message"]
        go.set()
        assert "result" in await first
        assert "result" in await peer.request("resources/subscribe", {"uri": "memo://1"})
        assert "at most 1" in (await peer.request("resources/subscribe", {"uri": "memo://2"}))["error"]["message"]
        assert (await call(peer, "keep", size=100))["isError"] is True
        changed(app, max_kept_bytes_per_client=1, max_session_state_bytes=1000)
        refused = await peer.request("tools/call", {"name": "keep", "arguments": {"size": 100}})
        assert "max_kept_bytes_per_client" in refused["error"]["message"]


@pytest.mark.slow
def test_limits_of_http_change_while_it_is_served() -> None:
    app = Server("limits")
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"padding": "x" * 500}}
    with over_http(app) as origin:
        url = f"{origin}/mcp"
        session = {"mcp-session-id": initialize(url)}
        assert request(url, body, session).status == 200
        changed(app, max_message_bytes=400, max_sessions_per_client=1, session_ttl=3600)
        assert request(url, body, session).status == 413
        initialize(url)  # takes the place of the idle one
        assert request(url, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, session).status == 404


async def test_limits_that_cannot_change_while_the_server_runs_are_named_and_nothing_changes() -> None:
    app = Server("limits", limits=Limits(max_tasks=7))
    StreamableHTTP(app)
    changed(app, max_connections=5)
    async with memory.connect(app, JUNE):
        before = app.limits
        with pytest.raises(ConfigError, match=r"max_connections, max_connections_per_address$"):
            changed(app, max_connections=6, max_connections_per_address=1, max_tasks=9)
        assert app.limits == before
        assert (before.max_connections, before.max_tasks) == (5, 7)
        changed(app, max_tasks=9)
    changed(app, max_connections=6)
    assert (before.max_tasks, app.limits.max_tasks, app.limits.max_connections) == (7, 9, 6)


def test_servers_that_were_given_the_same_limits_change_them_apart() -> None:
    shared = Limits()
    one, other = Server("one", limits=shared), Server("other", limits=shared)
    changed(one, max_tasks=3)
    assert (one.limits.max_tasks, other.limits.max_tasks, shared.max_tasks) == (3, 10_000, 10_000)


async def test_the_largest_message_on_stdio_changes_with_the_limit() -> None:
    app = Server("limits")
    sent: list[bytes] = []
    connection = Stdio(app.endpoint)
    assert connection._receive(None) is not None
    changed(app, max_message_bytes=100)
    connection._answer = lambda: sent.extend(line or b"too long" for line in connection._unanswered)  # type: ignore
    connection.data_received(json.dumps({"padding": "x" * 200}).encode() + b"\n")
    assert sent == [b"too long"]


async def test_more_threads_serve_the_calls_that_come_next() -> None:
    app = Server("limits", limits=Limits(max_threads=1, max_threads_per_client=1))
    pool = app.endpoint.runtime.threads
    assert await pool.run("a", lambda: pool.threads) == 1
    changed(app, max_threads=3, max_threads_per_client=2, max_waiting_for_threads_per_client=5)
    assert (pool.threads, pool.per_client, pool.waiting_per_client) == (3, 2, 5)
    await pool.close(1.0)
