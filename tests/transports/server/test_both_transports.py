"""One server on stdio and HTTP at once, in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from carrel import Client
from carrel.errors import TransportError
from support.http_process import free_port

SERVER = Path(__file__).parents[2] / "support" / "servers" / "both_transports.py"
TIMEOUT = 60


@pytest.mark.slow
async def test_clients_on_stdio_and_http_see_one_server_and_hear_of_its_changes() -> None:
    port = free_port()
    async with asyncio.timeout(TIMEOUT), Client([sys.executable, str(SERVER), str(port)]) as stdio:
        assert (await stdio.read_resource("memo://1")).contents[0].text == "one"  # type: ignore[union-attr]
        async with await _connected(f"http://127.0.0.1:{port}/mcp") as http:
            async with stdio.watch("memo://1") as on_stdio, http.watch("memo://1") as on_http:
                assert (await http.call_tool("change")).content[0].text == "changed"  # type: ignore[union-attr]
                assert (await anext(aiter(on_stdio))).uri == (await anext(aiter(on_http))).uri == "memo://1"
            assert (await stdio.read_resource("memo://1")).contents[0].text == "two"  # type: ignore[union-attr]


async def _connected(url: str) -> Client:
    """Return a client of a server that may still be starting."""
    while True:
        client = Client(url)
        try:
            async with client:
                pass
        except TransportError:
            await asyncio.sleep(0.05)
        else:
            return Client(url)
