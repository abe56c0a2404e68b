"""The stateless rules of 2026-07-28.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import httpx2
import pytest

from carrel import Context, Server
from support import http_requests
from support.http_requests import ACCEPT, META
from support.http_server import over_http
from support.raw_http import modern, modern_headers
from support.stdio_process import STATELESS, note, text_of

LEVEL = "io.modelcontextprotocol/logLevel"

VERSIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


def sentinel(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


async def refusal(reply, status, code):
    assert reply.status == status, await reply.body()
    answer = await reply.json()
    assert answer["error"]["code"] == code
    return answer


async def test_every_request_stands_alone(site):
    for headers in ({}, {"Mcp-Session-Id": "whatever"}, {"Last-Event-ID": "1-1"}):
        reply = await site.ask("server/discover", headers)
        assert reply.status == 200
        assert "mcp-session-id" not in reply.headers
        assert (await reply.json())["result"]["supportedVersions"] == VERSIONS


# Headers and body agree


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP-Protocol-Version": None},
        {"MCP-Protocol-Version": "2025-11-25"},
        {"MCP-Protocol-Version": "2026-07-28x"},
        {"Mcp-Method": None},
        {"Mcp-Method": ""},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": "TOOLS/CALL"},
        {"Mcp-Method": sentinel("tools/call")},
        {"Mcp-Method": "tools/call\xa0"},
        {"Mcp-Name": None},
        {"Mcp-Name": ""},
        {"Mcp-Name": "wait"},
        {"Mcp-Name": "Echo"},
        {"Mcp-Name": "ech\xf6"},
        {"Mcp-Name": sentinel("wait")},
        {"Mcp-Name": "=?base64?ZWNobw?="},
        {"Mcp-Name": "=?base64?ZWNo\tbw==?="},
        {"Mcp-Name": "=?base64?ZWNobw==ZWNobw==?="},
        {"Mcp-Name": "=?base64?!!!!?="},
        {"Mcp-Name": "=?base64?/w==?="},
        {"Mcp-Name": "=?base64??="},
        {"Mcp-Name": "=?BASE64?ZWNobw==?="},
        {"Mcp-Name": "=?base64?ZWNobw=="},
    ],
    ids=str,
)
async def test_headers_that_do_not_say_what_the_body_says_are_refused(site, headers):
    answer = await refusal(await site.call("echo", headers, id=7, text="x"), 400, -32020)
    assert answer["id"] == 7
    assert answer["error"]["message"].startswith("Header mismatch: ")
    assert next(iter(headers)).lower() in answer["error"]["message"].lower()


@pytest.mark.parametrize("name", ["echo", " echo ", "echo\t", sentinel("echo")])
async def test_a_name_may_have_white_space_around_it_or_its_base64_form(site, name):
    assert text_of(await (await site.call("echo", {"Mcp-Name": name}, text="x")).json()) == "x"


@pytest.mark.parametrize("name", ["日本", " padded ", "=?base64?literal?=", "é"])
async def test_names_that_no_header_can_hold_come_in_base64(site, shop, name):
    uri = f"memo://{len(name)}"

    @shop.app.prompt(name)
    async def prompt() -> str:
        return uri

    reply = await site.ask("prompts/get", {"Mcp-Name": sentinel(name)}, name=name)
    assert (await reply.json())["result"]["messages"][0]["content"]["text"] == uri
    plain = name.encode().decode("latin-1")
    await refusal(await site.ask("prompts/get", {"Mcp-Name": plain}, name=name), 400, -32020)


async def test_the_name_of_a_read_is_its_uri(site):
    reply = await site.ask("resources/read", uri="memo://text")
    assert (await reply.json())["result"]["contents"][0]["text"] == "text"
    await refusal(await site.ask("resources/read", {"Mcp-Name": "memo://other"}, uri="memo://text"), 400, -32020)
    await refusal(await site.ask("resources/read", {"Mcp-Name": None}, uri="memo://text"), 400, -32020)


async def test_requests_without_a_name_need_no_name(site):
    for method in ("tools/list", "resources/list", "server/discover"):
        assert (await site.ask(method)).status == 200


async def test_parameters_that_a_tool_wants_in_headers_have_to_be_there_and_agree(site, shop):
    @shop.app.tool(
        input_schema={
            "type": "object",
            "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "count": {"type": "integer", "x-mcp-header": "Count"},
                "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            },
        }
    )
    async def deploy(region: str | None = None, count: int | None = None, dry: bool | None = None) -> str:
        return f"{region} {count} {dry}"

    good = [
        ({"region": "us-west1"}, {"Mcp-Param-Region": "us-west1"}),
        ({"region": "us-west1"}, {"mcp-param-REGION": sentinel("us-west1")}),
        ({"region": "Hello, 世界"}, {"Mcp-Param-Region": sentinel("Hello, 世界")}),
        ({"count": 42}, {"Mcp-Param-Count": "42"}),
        ({"count": 42}, {"Mcp-Param-Count": "42.0"}),
        ({"dry": True}, {"Mcp-Param-Dry": "true"}),
        ({}, {}),
        ({}, {"Mcp-Param-Other": "x"}),
    ]
    bad = [
        ({"region": "us-west1"}, {}),
        ({"region": "us-west1"}, {"Mcp-Param-Region": "us-east1"}),
        ({"region": "us-west1"}, {"Mcp-Param-Region": "US-WEST1"}),
        ({"region": "us-west1"}, {"Mcp-Param-Region": "=?base64?%%%?="}),
        ({"count": 42}, {"Mcp-Param-Count": "43"}),
        ({"count": 42}, {"Mcp-Param-Count": "forty-two"}),
        ({"dry": True}, {"Mcp-Param-Dry": "True"}),
        ({}, {"Mcp-Param-Region": "us-west1"}),
    ]
    for arguments, headers in good:
        assert (await site.call("deploy", headers, **arguments)).status == 200, (arguments, headers)
    for arguments, headers in bad:
        await refusal(await site.call("deploy", headers, **arguments), 400, -32020)


# What is refused, and how


async def test_a_version_that_is_not_spoken_is_answered_with_those_that_are(site):
    version = "2099-01-01"
    message = modern("tools/list", 3, _meta={**STATELESS, "io.modelcontextprotocol/protocolVersion": version})
    reply = await site.post(message, {**modern_headers("tools/list"), "MCP-Protocol-Version": version})
    answer = await refusal(reply, 400, -32022)
    assert answer["id"] == 3
    assert answer["error"]["data"] == {"supported": VERSIONS, "requested": version}


@pytest.mark.parametrize("method", ["nonsense", "ping", "logging/setLevel", "resources/subscribe", "initialize"])
async def test_a_method_that_the_revision_does_not_have_is_a_404_with_the_reason(site, method):
    answer = await refusal(await site.ask(method), 404, -32601)
    assert answer["id"] == 1


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
async def test_metadata_that_is_missing_is_a_400(site, missing):
    message = modern("tools/list")
    del message["params"]["_meta"][f"io.modelcontextprotocol/{missing}"]
    answer = await (reply := await site.post(message, modern_headers("tools/list"))).json()
    assert reply.status == 400
    assert "error" in answer


async def test_wrong_parameters_and_unknown_things_are_errors_of_the_request_not_of_http(site):
    answer = await refusal(await site.ask("resources/read", uri="memo://none"), 200, -32602)
    assert answer["error"]["data"] == {"uri": "memo://none"}
    await refusal(await site.call("nonesuch"), 200, -32602)


async def test_a_notification_needs_no_headers_and_cancels_nothing(site, shop):
    reply = await site.ask("tools/call", name="steps", arguments={"n": 1}, _meta={"progressToken": 1})
    await reply.message()
    assert (
        await site.post(note("notifications/cancelled", requestId=1), {"MCP-Protocol-Version": "2026-07-28"})
    ).status == 202
    shop.go.set()
    assert text_of((await reply.messages())[-1]) == "done"


# Streams


async def test_streams_are_not_buffered_on_the_way_and_have_neither_ids_nor_a_time_to_come_back(site, shop):
    shop.go.set()
    reply = await site.ask("tools/call", name="steps", arguments={"n": 3}, _meta={"progressToken": 1})
    assert reply.headers["x-accel-buffering"] == "no"
    for event in await reply.events():
        assert (event.id, event.retry) == (None, None)
        assert event.data


async def test_a_stream_cannot_be_resumed(site):
    stream = await site.listen("memo://text")
    stream.client.close()
    for headers in ({"Last-Event-ID": "1-0"}, {"MCP-Protocol-Version": "2026-07-28"}):
        reply = await site.request("GET", {"Accept": "text/event-stream", **headers})
        assert reply.status in (400, 405)


async def test_both_eras_are_served_at_the_same_place_at_the_same_time(site):
    session = await site.open("2024-11-05")
    listening, standing = await site.listen("memo://text"), await session.get()
    await session.subscribe("memo://text")
    assert (await site.ask("tools/list")).status == 200
    listening.client.close()
    standing.client.close()


@pytest.mark.requirement
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
        reply = http_requests.request(f"{origin}/mcp", body, {"mcp-protocol-version": http_requests.STATELESS})
    assert reply.status == 400
    assert reply.body.get("id") is None


@pytest.mark.requirement
async def test_a_stream_carries_what_belongs_to_its_request() -> None:
    """Two requests with levels of their own and a listener at once: each hears of itself alone."""
    app = Server("s")
    here, go = asyncio.Barrier(2), asyncio.Event()

    @app.tool()
    async def talk(who: str, context: Context) -> str:
        await here.wait()
        await context.info(who)
        await context.report_progress(1)
        app.tools.add(lambda: "", name=f"new-{who}")
        return who

    def body(id: str, method: str, meta: dict[str, Any], **params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": {**META, **meta}}}

    def headers(method: str, name: str | None = None) -> dict[str, str]:
        found = {**ACCEPT, "mcp-protocol-version": http_requests.STATELESS, "mcp-method": method}
        return found if name is None else {**found, "mcp-name": name}

    with over_http(app) as origin:
        async with httpx2.AsyncClient(base_url=origin, timeout=60) as client:

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
            await asyncio.wait_for(go.wait(), 60)
            for who, told in zip("ab", await asyncio.gather(call("a"), call("b")), strict=True):
                assert [message.get("method") for message in told] == [
                    "notifications/message",
                    "notifications/progress",
                    None,
                ]
                assert told[0]["params"]["data"] == told[1]["params"]["progressToken"] == told[2]["id"] == who
            heard = await asyncio.wait_for(listening, 60)
    assert [message["method"] for message in heard] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    ]
