"""Graceful shutdown of the HTTP server: requests that arrive while it begins are answered."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest

from carrel import Limits, Server
from carrel.transports.server import http_protocol
from carrel.transports.server.connections import Connections
from carrel.transports.server.forwarded import TrustedProxies
from carrel.transports.server.http_server import EndpointServer
from support.raw_http import PATIENCE, head, modern, modern_headers

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

BODY = json.dumps(modern("tools/call", name="hello", arguments={})).encode()
HEADERS = {
    **modern_headers("tools/call", name="hello"),
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


@asynccontextmanager
async def started():
    """Start a server, and yield it and its address. The test shuts it down."""
    app = Server("greeter")

    @app.tool
    async def hello() -> str:
        return "hello"

    with socket.create_server(("127.0.0.1", 0)) as listener:
        table = Connections(Limits(), 100)
        server = EndpointServer(app.asgi(), [listener], table, TrustedProxies(()), tls=None, on_started=lambda: None)
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup()
        address = listener.getsockname()
        yield server, address


def request_to(address):
    return head("POST", "/mcp", f"{address[0]}:{address[1]}", HEADERS, BODY) + BODY


async def test_a_connection_that_waits_to_be_accepted_is_answered():
    async with started() as (server, address):
        with socket.create_connection(address) as client:  # the event loop does not run: nobody has accepted it
            client.sendall(request_to(address))
            await asyncio.wait_for(server.shutdown(), PATIENCE)
            answered = client.recv(65536)
    assert answered.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answered.lower()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


async def test_a_connection_whose_first_request_is_on_its_way_is_answered(monkeypatch):
    monkeypatch.setattr(http_protocol, "FIRST_REQUEST", PATIENCE)
    async with started() as (server, address):
        reader, writer = await asyncio.open_connection(*address)
        while not server.server_state.connections:
            await asyncio.sleep(0.01)
        (connection,) = server.server_state.connections
        connection.shutdown()
        writer.write(request_to(address))
        answered = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        await asyncio.wait_for(server.shutdown(), PATIENCE)
    assert answered.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answered.lower()


async def test_a_connection_without_a_request_is_closed_soon():
    async with started() as (server, address):
        reader, writer = await asyncio.open_connection(*address)
        while not server.server_state.connections:
            await asyncio.sleep(0.01)
        await asyncio.wait_for(server.shutdown(), PATIENCE)
        assert await reader.read() == b""
        writer.close()
    assert not server.server_state.connections
