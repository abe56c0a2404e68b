"""Pipelined requests of one connection under ``run("http")``, when their client goes away."""

from __future__ import annotations

import asyncio

import pytest

from carrel import Server
from support.raw_http import BOTH, head, modern, modern_headers
from support.stdio_process import encode

from .test_http_memory import Front, Transport

pytestmark = pytest.mark.asyncio


class Closing(Transport):
    """Transport that keeps what is written to it after its end."""

    __slots__ = ("late", "over")

    def __init__(self) -> None:
        super().__init__()
        self.over = False
        self.late: list[bytes] = []

    def write(self, data: bytes) -> None:
        if self.over:
            self.late.append(data)

    def is_closing(self) -> bool:
        return self.over


async def test_a_client_that_goes_away_cancels_the_request_that_is_answered_and_no_other_begins() -> None:
    front = Front()
    begun: list[int] = []
    first, second, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
    waits = add_wait(front.app, begun, first, second, cancelled)
    protocol = front.connect()
    transport = protocol.transport = Closing()  # type: ignore[assignment]
    try:
        sent = b""
        for id in range(3):
            body = encode(modern("tools/call", id, name=waits, arguments={"id": id}))
            headers = {"Content-Type": "application/json", "Accept": BOTH, **modern_headers("tools/call", name=waits)}
            sent += head("POST", "/mcp", "127.0.0.1", headers, body) + body
        protocol.data_received(sent)
        async with asyncio.timeout(60):
            await first.wait()
            transport.over = True  # type: ignore[attr-defined]
            protocol.connection_lost(None)
            await cancelled.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert begun == [0]
        assert transport.late == []  # type: ignore[attr-defined]
    finally:
        front.protocols.clear()
        await front.close()


def add_wait(
    app: Server, begun: list[int], first: asyncio.Event, second: asyncio.Event, cancelled: asyncio.Event
) -> str:
    @app.tool
    async def wait(id: int) -> str:
        begun.append(id)
        first.set()
        try:
            await second.wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "done"

    return "wait"
