"""What the streamable transport of 2026-07-28 demands."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from carrel import Context, Server
from carrel.errors import HeaderMismatch
from carrel.protocol.http import verify_parameters
from security.asking import ACCEPT, META, STATELESS, request
from serving import over_http

LEVEL = "io.modelcontextprotocol/logLevel"


@pytest.mark.parametrize("number", [2**53, -(2**53), 10**20])
def test_an_integer_that_javascript_cannot_count_is_refused_in_a_header(number: int) -> None:
    expected = {b"mcp-param-count": ("count",)}
    verify_parameters(expected, {b"mcp-param-count": b"%d" % (2**53 - 1)}, {"count": 2**53 - 1})
    with pytest.raises(HeaderMismatch):
        verify_parameters(expected, {b"mcp-param-count": b"%d" % number}, {"count": number})


@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "1.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": 5},
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled"',
    ],
    ids=["version", "method", "half"],
)
def test_a_notification_that_cannot_be_accepted_is_an_error_of_http(body: Any) -> None:
    with over_http(Server("s")) as origin:
        reply = request(f"{origin}/mcp", body, {"mcp-protocol-version": STATELESS})
    assert reply.status == 400
    assert reply.body.get("id") is None


async def test_a_stream_carries_what_belongs_to_its_request() -> None:
    """Two requests with levels of their own and a listener at once: each hears of itself alone."""
    app = Server("s")
    here, go = asyncio.Barrier(2), asyncio.Event()

    @app.tool()
    async def talk(who: str, context: Context) -> str:
        await here.wait()
        await context.info(who)
        await context.progress(1)
        app.tools.add(lambda: "", name=f"new-{who}")
        return who

    def body(id: str, method: str, meta: dict[str, Any], **params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": {**META, **meta}}}

    def headers(method: str, name: str | None = None) -> dict[str, str]:
        found = {**ACCEPT, "mcp-protocol-version": STATELESS, "mcp-method": method}
        return found if name is None else {**found, "mcp-name": name}

    with over_http(app) as origin:
        async with httpx2.AsyncClient(base_url=origin, timeout=30) as client:

            async def listen() -> list[dict[str, Any]]:
                found = []
                wanted = {"toolsListChanged": True}
                message = body("listener", "subscriptions/listen", {LEVEL: "debug"}, notifications=wanted)
                sent = headers("subscriptions/listen")
                async with client.stream("POST", "/mcp", json=message, headers=sent) as reply:
                    async for line in reply.aiter_lines():
                        if line.startswith("data: {"):
                            found.append(json.loads(line.removeprefix("data: ")))
                            go.set()
                            if len(found) == 2:
                                break
                return found

            async def call(who: str) -> list[dict[str, Any]]:
                message = body(who, "tools/call", {LEVEL: "debug", "progressToken": who}, name="talk")
                message["params"]["arguments"] = {"who": who}
                reply = await client.post("/mcp", json=message, headers=headers("tools/call", "talk"))
                return [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]

            listening = asyncio.create_task(listen())
            await asyncio.wait_for(go.wait(), 10)
            for who, told in zip("ab", await asyncio.gather(call("a"), call("b")), strict=True):
                assert [message.get("method") for message in told] == [
                    "notifications/message",
                    "notifications/progress",
                    None,
                ]
                assert told[0]["params"]["data"] == told[1]["params"]["progressToken"] == told[2]["id"] == who
            heard = await asyncio.wait_for(listening, 10)
    assert [message["method"] for message in heard] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    ]
