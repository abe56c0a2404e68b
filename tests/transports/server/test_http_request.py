"""What a client accepts, and what it says about its revision: the right error for each contradiction."""

from __future__ import annotations

import json

import httpx2
import pytest

from carrel import Server
from carrel.transports.server.http_request import accepts
from support.http_server import over_http
from support.raw_http import modern, modern_headers
from support.stdio_process import initialize, request

JSON_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    ("accept", "json", "events"),
    [
        ("application/json, text/event-stream", True, True),
        ("*/*", True, True),
        ("application/*, text/*;q=0.1", True, True),
        ("application/json;q=0, text/event-stream", False, True),
        ("application/json; q=0.000 , */*", False, True),
        ("*/*;q=0, application/json", True, False),
        ("text/*;Q=0, */*", True, False),
        ("text/event-stream;q=0.001", False, True),
        ("text/event-stream;charset=utf-8;q=0", False, False),
        ("text/html", False, False),
        ("*/*;q=0", False, False),
    ],
)
def test_the_most_specific_range_decides_and_a_weight_of_zero_forbids(accept, json, events):
    assert accepts(accept.encode()) == (json, events)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream;q=0, */*"])
async def test_listening_without_accepting_a_stream_is_refused_at_once(accept):
    with over_http(Server("listened")) as origin:
        async with httpx2.AsyncClient() as client:
            headers = {**JSON_HEADERS, **modern_headers("subscriptions/listen"), "Accept": accept}
            body = modern("subscriptions/listen", 7, notifications={"toolsListChanged": True})
            answer = await client.post(f"{origin}/mcp", json=body, headers=headers, timeout=60)
            error = answer.json()
            assert (answer.status_code, error["id"]) == (406, 7)
            assert "text/event-stream" in error["error"]["message"]


async def test_a_media_type_that_is_not_accepted_is_not_sent():
    with over_http(Server("refusing")) as origin:
        async with httpx2.AsyncClient() as client:
            headers = {**JSON_HEADERS, **modern_headers("server/discover")}
            only_events = {**headers, "Accept": "application/json;q=0, text/event-stream"}
            answer = await client.post(f"{origin}/mcp", json=modern("server/discover"), headers=only_events)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
            nothing = {**headers, "Accept": "application/json;q=0"}
            answer = await client.post(f"{origin}/mcp", json=modern("server/discover"), headers=nothing)
            assert answer.status_code == 406


@pytest.mark.parametrize("method", ["ping", "tools/list"])
async def test_a_session_request_that_names_a_stateless_revision_is_told_so(method):
    with over_http(Server("confused")) as origin:
        async with httpx2.AsyncClient() as client:
            url = f"{origin}/mcp"
            opened = await client.post(url, json=initialize("2025-11-25"), headers=JSON_HEADERS)
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2026-07-28"}
            answer = await client.post(url, json=request(3, method), headers={**JSON_HEADERS, **session})
            error = json.loads(answer.text)
            assert (answer.status_code, error["id"], error["error"]["code"]) == (400, 3, -32602)
            assert "_meta lacks io.modelcontextprotocol/protocolVersion" in error["error"]["message"]
            for verb in ("GET", "DELETE"):
                answer = await client.request(verb, url, headers={"Accept": "text/event-stream", **session})
                assert answer.status_code == 405
                assert "2026-07-28 does not have" in answer.json()["error"]["message"]
            right = {**session, "MCP-Protocol-Version": "2025-11-25"}
            assert (await client.delete(url, headers=right)).status_code == 204
