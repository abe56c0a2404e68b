"""Budgets of HTTP without sockets: the memory of a session and of a stream, and the Python calls of one request."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

import carrel
from carrel import Limits, Server
from carrel.transports.server.connections import Connections
from carrel.transports.server.forwarded import TrustedProxies
from carrel.transports.server.http import StreamableHTTP
from carrel.transports.server.http_protocol import LimitedProtocol
from support.raw_http import BOTH, head, modern, modern_headers
from support.stdio_process import encode, initialize

pytestmark = pytest.mark.asyncio
COUNT = 200
SOURCE = carrel.__file__.removesuffix("__init__.py")


class Transport:
    """Transport that hands every response to a waiting request."""

    __slots__ = ("written",)

    def __init__(self) -> None:
        self.written: asyncio.Future[bytes] | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)}.get(name, default)

    def write(self, data: bytes) -> None:
        if self.written is not None and b"jsonrpc" in data:
            self.written.set_result(data)
            self.written = None

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...


class Front:
    """HTTP front of a server, with protocols on transports that go nowhere."""

    def __init__(self) -> None:
        limits = Limits(max_sessions_per_client=1000, max_listeners_per_client=1000)
        self.app = Server("s", limits=limits)
        self.app.resources.add("memo://text", "text")
        self.endpoint = StreamableHTTP(self.app)
        self._config = uvicorn.Config(self.endpoint, log_config=None, access_log=False, ws="none")
        self._config.load()
        self._table = Connections(limits, 10_000)
        self._state = ServerState()
        self.protocols: list[LimitedProtocol] = []

    def connect(self) -> LimitedProtocol:
        options = {"config": self._config, "server_state": self._state, "app_state": {}}
        protocol = LimitedProtocol(self._table, TrustedProxies(()), **options)
        protocol.connection_made(Transport())  # type: ignore[arg-type]
        self.protocols.append(protocol)
        return protocol

    async def post(self, protocol: Any, message: Any, headers: dict[str, str]) -> bytes:
        body = encode(message)
        usual = {"Content-Type": "application/json", "Accept": BOTH, **headers}
        written = protocol.transport.written = asyncio.get_running_loop().create_future()
        protocol.data_received(head("POST", "/mcp", "127.0.0.1", usual, body) + body)
        return bytes(await written)

    async def session(self) -> None:
        protocol = self.protocols[0] if self.protocols else self.connect()
        assert b"protocolVersion" in await self.post(protocol, initialize("2025-11-25"), {})

    async def stream(self) -> None:
        message = modern("subscriptions/listen", notifications={"resourceSubscriptions": ["memo://text"]})
        headers = modern_headers("subscriptions/listen")
        assert b"acknowledged" in await self.post(self.connect(), message, headers)

    async def close(self) -> None:
        for protocol in self.protocols:
            protocol.connection_lost(None)
        await self.endpoint.stop()


async def bytes_of(opened: Callable[[], Awaitable[None]]) -> float:
    """Return the bytes that each of many takes, once everything that is made when it is first used has been made."""
    for _ in range(50):
        await opened()
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(COUNT):
            await opened()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / COUNT
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("kind", "budget"), [("session", 1_400), ("stream", 13_000)])
async def test_an_idle_session_and_an_open_stream_take_little_memory(kind: str, budget: int) -> None:
    front = Front()
    try:
        size = await bytes_of(getattr(front, kind))
    finally:
        await front.close()
    assert size <= budget, f"{size:.0f} bytes (1,060 and 10,800 when this was written, with Python 3.11)"


async def test_a_stateless_request_takes_few_calls() -> None:
    """The count is the same on every machine: it includes the protocol of the connection, but not uvicorn."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(SOURCE):
            calls.append(f"{name.removeprefix(SOURCE)}:{frame.f_code.co_name}")

    front = Front()
    try:
        protocol = front.connect()
        message = modern("resources/read", uri="memo://text")
        headers = modern_headers("resources/read", uri="memo://text")
        for _ in range(2):  # what is made when it is first used has been made
            await front.post(protocol, message, headers)
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            assert b'"contents"' in await front.post(protocol, message, headers)
        finally:
            sys.setprofile(before)
    finally:
        await front.close()
    assert len(calls) <= 54, calls
