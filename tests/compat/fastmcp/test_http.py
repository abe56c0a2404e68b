"""Servers written for ``fastmcp``, over HTTP: they answer as the original does, alone and mounted in an application."""

from __future__ import annotations

import urllib.request
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from carrel.compat.fastmcp import Client, FastMCP
from carrel.compat.fastmcp.utilities.lifespan import combine_lifespans
from compat.comparison import probed
from compat.fastmcp.comparison import PROGRAMS, alike, on_carrel, on_original
from compat.test_http import served
from support.http_process import free_port
from support.http_server import over_http

pytestmark = pytest.mark.slow
PATHS = {"http": "/mcp", "sse": "/sse"}


# The transport of sse is that of ``mcp``, in ``compat/test_http.py``.
@pytest.mark.parametrize("transport", ["http", pytest.param("sse", marks=pytest.mark.exhaustive)])
def test_a_server_over_http_answers_the_same(transport: str) -> None:
    answers = []
    for kind in (on_original, on_carrel):
        port = free_port()
        with served(kind([str(PROGRAMS / "web.py"), transport, str(port)]), port):
            url = f"http://127.0.0.1:{port}{PATHS[transport]}"
            answers.append(alike(probed([url], {"form": {"value": "now"}})["answers"]))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as response:
                assert response.read() == b'{"ok":true}'
    assert answers[0] == answers[1]
    assert answers[0]["call ask {}"]["structuredContent"] == {"result": "now"}
    assert answers[0]["call remember {}"]["structuredContent"]["result"] in (1, 2)


async def test_servers_are_mounted_in_one_application() -> None:
    apps = {}
    for name in ("one", "two"):
        mcp = FastMCP(name)
        mcp.tool(lambda name=name: f"I am {name}", name="who", exclude_args=["name"])
        apps[name] = mcp.http_app(path="/mcp")
    routes = [Mount(f"/{name}", app) for name, app in apps.items()]
    whole = Starlette(routes=routes, lifespan=combine_lifespans(*(app.lifespan for app in apps.values())))
    server: Any = SimpleNamespace(asgi=lambda: whole)
    with over_http(server) as url:
        for name in apps:
            async with Client(f"{url.removesuffix('/mcp')}/{name}/mcp") as client:
                assert (await client.call_tool("who")).content[0].text == f"I am {name}"


async def test_a_stateless_server_gives_no_session_id_and_any_process_answers() -> None:
    def made() -> Any:
        mcp = FastMCP("free")
        mcp.tool(lambda a: f"got {a}", name="say")
        return mcp.http_app(stateless_http=True)

    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "say", "arguments": {"a": "x"}}}
    opening = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}
    for message, word in ((first, "serverInfo"), (call, "got x"), (call, "got x")):
        app = made()  # each request meets another process
        server: Any = SimpleNamespace(asgi=lambda app=app: app)
        with over_http(server) as origin:
            url = f"{origin}/mcp"
            async with httpx.AsyncClient() as client:
                response = await client.post(url, json=message, headers=headers)
                assert (response.status_code, word in response.text) == (200, True), response.text
                assert "mcp-session-id" not in response.headers
                assert (await client.get(url, headers=headers)).status_code == 405
    with over_http(SimpleNamespace(asgi=made)) as url:  # type: ignore[arg-type]
        async with Client(f"{url}/mcp") as other:
            assert (await other.call_tool("say", {"a": "y"})).content[0].text == "got y"
