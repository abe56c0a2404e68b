"""Checks of failed connections, over HTTP and for programs."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from carrel.host import Host, ServerConfig
from carrel.host.checks import check_connection
from support.scripted_http_server import Asked, scripted

pytestmark = pytest.mark.slow


@asynccontextmanager
async def failed(config: ServerConfig) -> AsyncIterator[Host]:
    async with Host([config], start_timeout=20) as host:
        assert host.server(config.name).state == "failed"
        yield host


async def outcome(config: ServerConfig) -> dict[str, bool | None]:
    async with failed(config) as host:
        return {check.step: check.ok for check in await check_connection(host.server(config.name))}


async def test_a_program_that_is_missing_or_ends() -> None:
    assert await outcome(ServerConfig(name="a", command="no-such-program")) == {"program": False, "initialize": None}
    ends = ServerConfig(name="a", command=sys.executable, args=("-c", "raise SystemExit('no licence')"))
    assert await outcome(ends) == {"program": True, "initialize": False}
    async with failed(ends) as host:
        server = host.server("a")
        assert isinstance(server.error, Exception)
        assert server.resolved is not None
        assert "no licence" in (server.reason or "")


async def test_a_host_without_an_address_and_a_closed_port() -> None:
    unknown = ServerConfig(name="a", url="https://no-such-host.invalid/mcp", transport="http")
    assert await outcome(unknown) == {
        "dns": False,
        "tcp": None,
        "tls": None,
        "http": None,
        "authorization": None,
        "version": None,
        "initialize": None,
    }
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = await outcome(ServerConfig(name="a", url=f"http://127.0.0.1:{port}/mcp", transport="http"))
    assert (found["dns"], found["tcp"], found["http"]) == (True, False, None)


async def test_an_http_server_that_wants_authorization_or_answers_with_errors() -> None:
    for status, step in ((401, "authorization"), (500, "http")):

        async def answer(asked: Asked, status: int = status) -> None:
            await asked.respond(status)

        async with scripted(answer) as server:
            found = await outcome(ServerConfig(name="a", url=server.url, transport="http"))
        assert (found["dns"], found["tcp"]) == (True, True)
        assert [name for name, ok in found.items() if ok is False] == [step]
