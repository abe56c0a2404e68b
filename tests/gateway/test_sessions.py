"""Servers over HTTP that end their sessions under a gateway."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import pytest

from carrel import Client, Context, Server
from carrel.gateway import Gateway
from carrel.host.config import ServerConfig

PATIENCE = 60.0
REVISION = "2025-11-25"
pytestmark = pytest.mark.slow


@contextlib.asynccontextmanager
async def served(app: Server) -> AsyncIterator[str]:
    """Serve over HTTP, and yield the URL."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(app.run_async("http", port=0, on_started=started.set_result))
    try:
        yield await asyncio.wait_for(started, PATIENCE)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def end_session(gateway: Gateway, name: str, url: str) -> str:
    """End the session of a gateway with a server, as the server would, and return its id."""
    connection = gateway.host.server(name).client.session.connection
    assert connection is not None
    session = connection.transport.session_id  # type: ignore[attr-defined]
    assert session
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": REVISION}
    async with aiohttp.ClientSession() as http, http.delete(url, headers=headers) as answer:
        assert answer.status in (200, 204)
    return str(session)


async def test_an_expired_session_is_opened_again_once_with_its_subscriptions_and_log_level() -> None:
    app = Server("shop")
    app.resources.add("note://1", "one")
    sessions = []

    @app.tool
    async def note(context: Context) -> str:
        sessions.append(context.session.id if context.session else None)
        context.debug("noted")
        return "noted"

    async with served(app) as url:
        config = ServerConfig(name="shop", url=url, transport="http")
        heard: list[object] = []
        async with (
            Gateway([config], revision=REVISION) as gateway,
            Client(gateway.app, log_level="debug", log=lambda params: heard.append(params.data)) as client,
            client.watch("note://1") as changes,
            asyncio.timeout(PATIENCE),
        ):
            assert (await client.call_tool("note")).text == "noted"
            old = await end_session(gateway, "shop", url)
            assert (await client.call_tool("note")).text == "noted"
            assert sessions[0] == old
            assert len(set(sessions)) == 2
            assert (await client.read_resource("note://1")).contents[0].text == "one"  # type: ignore[union-attr]
            assert (await anext(changes)).uri == "note://1"  # it may have changed while there was no session
            app.resources.changed("note://1")
            assert (await anext(changes)).uri == "note://1"
            assert heard == ["noted", "noted"]
            assert gateway.host.server("shop").state == "ready"


async def test_a_server_that_is_gone_is_named_in_the_error_and_not_half_alive() -> None:
    app = Server("shop")

    @app.tool
    async def note() -> str:
        return "noted"

    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(app))
        config = ServerConfig(name="shop", url=url, transport="http", headers={"X-Key": "secret-value"})
        async with Gateway([config], revision=REVISION) as gateway, Client(gateway.app) as client:
            assert (await client.call_tool("note")).text == "noted"
            await end_session(gateway, "shop", url)
            await stack.aclose()
            for _ in range(2):
                result = await asyncio.gather(client.call_tool("note"), return_exceptions=True)
                assert "shop is not available" in str(result[0])
                assert "secret-value" not in str(result[0])
                assert url not in str(result[0])
