"""Notifications of clients to servers of the mirrors: a cancelled call is answered as in ``mcp``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from carrel.compat.mcp.server.fastmcp import FastMCP
from carrel.compat.mcp2.server.mcpserver import MCPServer
from carrel.transports.server.dispatcher import Dispatcher
from compat.comparison import HERE, on_carrel, on_original, run
from support.http_server import over_http
from support.parties import python_program
from support.stdio_process import call, cancelled, initialize, note

PROGRAM = str(HERE / "programs" / "cancels.py")
HEADERS = {"accept": "application/json, text/event-stream"}


def with_tools(mcp: Any, begun: asyncio.Event) -> Any:
    @mcp.tool()
    async def wait() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    @mcp.tool()
    async def end() -> str:
        return "ended"

    return mcp


async def messages(response: httpx.Response) -> AsyncIterator[Any]:
    async for line in response.aiter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


@pytest.mark.slow
def test_the_client_of_mcp_1_gets_the_error_of_a_call_that_it_cancels() -> None:
    found = [run(python_program("1", PROGRAM, *kind([PROGRAM]))) for kind in (on_original, on_carrel)]
    assert found == ["code=0 message='Request cancelled' data=None\n"] * 2


@pytest.mark.parametrize(("make", "code"), [(FastMCP, 0), (MCPServer, -32800)])
async def test_over_http_a_cancelled_call_is_answered_on_its_stream(make: Any, code: int) -> None:
    begun = asyncio.Event()
    app = with_tools(make("cancels"), begun).streamable_http_app()
    with over_http(SimpleNamespace(asgi=lambda: app)) as origin:  # type: ignore[arg-type]
        async with httpx.AsyncClient(base_url=origin, headers=HEADERS, timeout=60) as http:
            opened = await http.post("/mcp", json=initialize())
            http.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            await http.post("/mcp", json=note("notifications/initialized"))
            async with http.stream("POST", "/mcp", json=call(1, "wait")) as response:
                await http.post("/mcp", json=cancelled(1))
                async with aclosing(messages(response)) as found:
                    error = {"code": code, "message": "Request cancelled"}
                    assert [each async for each in found] == [{"jsonrpc": "2.0", "id": 1, "error": error}]


class Sent(list[Any]):
    """Channel that keeps the messages that are sent on it."""

    def send(self, message: bytes, key: Any = None) -> None:
        self.append(json.loads(message))


@pytest.mark.parametrize(("make", "answers"), [(FastMCP, [0]), (MCPServer, [])])
async def test_on_stdio_servers_of_mcp_1_answer_a_cancelled_call_and_servers_of_mcp_2_do_not(
    make: Any, answers: list[int]
) -> None:
    begun = asyncio.Event()
    mcp = with_tools(make("cancels"), begun)
    server = getattr(mcp, "_mcp_server", None) or mcp._lowlevel_server
    app, sent = server.application().endpoint, Sent()
    await app.start()
    dispatcher = Dispatcher(app, sent)  # type: ignore[arg-type]
    for message in (initialize(), note("notifications/initialized"), call(1, "wait")):
        dispatcher.receive(json.dumps(message).encode())
    await begun.wait()
    sent.clear()
    dispatcher.receive(json.dumps(cancelled(1)).encode())
    dispatcher.receive(json.dumps(cancelled(1)).encode())
    dispatcher.receive(json.dumps(call(2, "end")).encode())
    await dispatcher.close(grace=10)
    await app.stop()
    assert [message["error"]["code"] for message in sent if message["id"] == 1] == answers
    assert [message["id"] for message in sent if "result" in message] == [2]


async def test_a_cancelled_call_that_ends_late_leaves_the_next_call_with_its_id_an_answer() -> None:
    begun, ends, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    mcp = with_tools(FastMCP("cancels"), begun)

    @mcp.tool()
    async def clean_up() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ends.wait()
            asyncio.get_running_loop().call_later(0, ended.set)
        return "never"

    app, sent = mcp._mcp_server.application().endpoint, Sent()
    await app.start()
    dispatcher = Dispatcher(app, sent)  # type: ignore[arg-type]
    for message in (initialize(), note("notifications/initialized"), call(1, "clean_up")):
        dispatcher.receive(json.dumps(message).encode())
    await begun.wait()
    begun.clear()
    for message in (cancelled(1), call(1, "wait")):
        dispatcher.receive(json.dumps(message).encode())
    await begun.wait()
    ends.set()
    await ended.wait()
    sent.clear()
    dispatcher.receive(json.dumps(cancelled(1)).encode())
    await dispatcher.close(grace=10)
    await app.stop()
    assert sent == [{"jsonrpc": "2.0", "id": 1, "error": {"code": 0, "message": "Request cancelled"}}]
