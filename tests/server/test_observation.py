"""Observers of a server: each call is told once, with its response, on every path."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel import Client, Context, Server
from carrel.errors import MCPError, ServerUnavailable
from carrel.protocol.observer import RejectedRequest
from carrel.protocol.server import Call, ErrorResponse


class Notes:
    """Observer that keeps what it is told."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self.refusals: list[RejectedRequest] = []
        self.open = True

    def admit(self, call: Call) -> None:
        if not self.open and call.request.operation == "call_tool":
            raise ServerUnavailable("closed")

    def answered(self, call: Call, reply: Any, seconds: float) -> None:
        kind = (
            "cancelled" if reply is None else "error" if isinstance(reply, ErrorResponse) else "ok" if reply else "open"
        )
        assert seconds >= 0
        self.found.append((call.request.operation, kind))

    def http_rejected(self, request: RejectedRequest) -> None:
        self.refusals.append(request)

    def of(self, operation: str) -> list[str]:
        return [kind for name, kind in self.found if name == operation]


@pytest.fixture
def app() -> Server:
    app = Server("observed")
    app.resources.add("note://one", "1")

    @app.tool
    def now() -> str:
        return "now"

    @app.tool
    async def later(context: Context) -> str:
        context.report_progress(1)
        await asyncio.Event().wait()
        return "later"

    @app.tool
    async def soon() -> str:
        await asyncio.sleep(0)
        return "soon"

    return app


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_each_call_is_told_once(app: Server, revision: str) -> None:
    first, second = Notes(), Notes()
    app.endpoint.observe(first)
    app.endpoint.observe(second)
    async with Client(app, revision=revision) as client:
        await client.read_resource("note://one")
        with pytest.raises(MCPError):
            await client.read_resource("note://two")
        await client.call_tool("now")
        await client.call_tool("soon")
        async with client.watch("note://one") as changes:
            app.resources.replace("note://one", "2")
            await anext(aiter(changes))
        begun = asyncio.Event()
        task = asyncio.create_task(client.call_tool("later", progress=lambda *_: begun.set()))
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(60):
            while len(first.of("call_tool")) < 3:
                await asyncio.sleep(0.01)
    assert first.found == second.found
    assert first.of("read_resource") == ["ok", "error"]
    assert first.of("call_tool") == ["ok", "ok", "cancelled"]
    if revision == "2026-07-28":
        assert first.of("listen") == ["open", "cancelled"]  # the client has ended it


async def test_an_observer_can_refuse_calls(app: Server) -> None:
    notes = Notes()
    app.endpoint.observe(notes)
    async with Client(app) as client:
        notes.open = False
        with pytest.raises(MCPError, match="closed"):
            await client.call_tool("now")
        notes.open = True
        assert (await client.call_tool("now")).text == "now"
    assert notes.of("call_tool") == ["error", "ok"]


async def test_without_observers_the_dispatcher_answers_itself(app: Server) -> None:
    assert app.endpoint.answer == app.endpoint._dispatch.answer
