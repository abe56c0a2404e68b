"""``host_origin_protection=``: requests with foreign Host and Origin headers are refused as in FastMCP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from carrel.compat.fastmcp import FastMCP
from carrel.compat.fastmcp.server.http import HostOriginGuardMiddleware, create_sse_app, create_streamable_http_app
from carrel.compat.fastmcp.settings import settings

HEADERS = {"accept": "application/json, text/event-stream"}
PING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


async def status(headers: dict[str, str], **options: Any) -> int:
    """Return the status of an ``initialize`` request to an application with options."""
    app = FastMCP("guarded").http_app(**options)
    transport = httpx.ASGITransport(app)
    async with app.lifespan(app), httpx.AsyncClient(transport=transport, base_url="http://0.0.0.0:8000") as client:
        return (
            await client.post("/mcp", headers={**HEADERS, "host": "public.example", **headers}, json=PING)
        ).status_code


@pytest.mark.parametrize(
    ("headers", "options", "expected"),
    [
        ({}, {}, 200),
        ({"origin": "https://evil.example"}, {}, 200),
        ({}, {"host_origin_protection": True}, 421),
        ({"host": "localhost:8000"}, {"host_origin_protection": True}, 200),
        ({"host": "[::1]:8000"}, {"host_origin_protection": True}, 200),
        ({"host": "localhost:8000", "origin": "http://127.0.0.1:3000"}, {"host_origin_protection": True}, 200),
        ({"host": "localhost", "origin": "https://evil.example"}, {"host_origin_protection": True}, 403),
        ({"host": "localhost", "origin": "null"}, {"host_origin_protection": True}, 403),
        ({}, {"host_origin_protection": "auto"}, 200),
        ({"host": "localhost", "origin": "https://evil.example"}, {"host_origin_protection": "auto"}, 403),
        ({}, {"host_origin_protection": "auto", "allowed_hosts": ["*.example"]}, 200),
        ({"host": "public.example.org"}, {"host_origin_protection": "auto", "allowed_hosts": ["*.example"]}, 421),
        ({"origin": "http://public.example"}, {"host_origin_protection": True, "allowed_hosts": ["*"]}, 200),
        ({"origin": "http://public.example:80"}, {"host_origin_protection": True, "allowed_hosts": ["*"]}, 200),
        ({"origin": "https://public.example"}, {"host_origin_protection": True, "allowed_hosts": ["*"]}, 403),
        ({"origin": "http://localhost"}, {"host_origin_protection": True, "allowed_hosts": ["*"]}, 403),
        ({"origin": "https://a.b"}, {"host_origin_protection": "auto", "allowed_origins": ["https://a.b:443/"]}, 200),
        (
            {"origin": "http://public.example"},
            {"host_origin_protection": "auto", "allowed_origins": ["https://a"]},
            403,
        ),
        ({}, {"host_origin_protection": True, "transport": "sse"}, 421),
    ],
)
async def test_requests_of_other_hosts_and_origins_are_refused_if_the_program_says_so(
    headers: dict[str, str], options: dict[str, Any], expected: int
) -> None:
    assert await status(headers, **options) == expected


@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1", 421), ("0.0.0.0", 200), ("10.0.0.7", 200), (None, 200)]
)
async def test_a_server_on_a_loopback_address_checks_the_host(address: str | None, expected: int) -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.append({"status": 200})

    async def send(message: Any) -> None:
        sent.append(message)

    guard = HostOriginGuardMiddleware(app)
    scope = {
        "type": "http",
        "server": None if address is None else (address, 8000),
        "headers": [(b"host", b"evil.example")],
    }
    await guard(scope, None, send)
    assert sent[0]["status"] == expected


async def test_the_settings_hold_where_the_program_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "http_host_origin_protection", True)
    assert await status({}) == 421
    monkeypatch.setattr(settings, "http_allowed_hosts", ["public.example"])
    assert await status({}) == 200
    assert await status({}, host_origin_protection=False) == 200


def test_another_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be True, False, or 'auto'"):
        FastMCP("guarded").http_app(host_origin_protection="strict")


@pytest.mark.parametrize("make", [create_streamable_http_app, create_sse_app])
async def test_an_application_that_is_made_by_hand_has_the_routes_and_the_checks_of_the_server(make: Any) -> None:
    server = FastMCP("guarded")

    @server.custom_route("/health", methods=["GET"])
    async def health(request: Request) -> Response:
        return Response(type(request.app.state.fastmcp_server).__name__)

    paths = ["/mcp"] if make is create_streamable_http_app else ["/messages/", "/sse"]
    app = make(server, *paths, host_origin_protection=True)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://0.0.0.0:8000") as client:
        assert (await client.get("/health", headers={"host": "localhost"})).text == "FastMCP"
        assert (await client.get("/health", headers={"host": "public.example"})).status_code == 421
