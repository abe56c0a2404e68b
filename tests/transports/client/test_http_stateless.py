"""What a client sends over Streamable HTTP without sessions, and what it takes."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from typing import Any

import pytest

from carrel.errors import ConfigError
from client.test_messages import everything, slowly
from support.scripted_server import Exchange, Partner, Reply, as_json, connected, in_turn, silence
from support.server_connection import LATEST

pytestmark = pytest.mark.requirement


SPECIAL = "memo://caf\u00e9/ 1"


def decoded(value: str) -> str:
    """Decode a header value as the specification has it."""
    if value.startswith("=?base64?") and value.endswith("?="):
        return base64.b64decode(value[9:-2], validate=True).decode()
    return value


def tool(name: str = "t", **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


async def called(arguments: dict[str, Any] | None, *tools: dict[str, Any], name: str = "t") -> Exchange:
    """Call a tool over HTTP; return the request."""
    partner = Partner(answers={"tools/list": {"tools": list(tools)}})
    async with connected(partner, "http") as client:
        await client.call_tool(name, arguments)
    return next(each for each in partner.exchanges if each.message["method"] == "tools/call")


async def test_each_message_is_a_post_of_its_own_that_takes_both_kinds_of_answers() -> None:
    partner = Partner(answers={"tools/call": slowly})
    async with connected(partner, "http") as client:
        await everything(client, partner)
        await asyncio.gather(*(client.read_resource("a:b") for _ in range(20)))
    assert {exchange.method for exchange in partner.exchanges} == {"POST"}
    assert {exchange.path for exchange in partner.exchanges} == {"/mcp"}
    for exchange in partner.exchanges:
        message = exchange.message
        assert isinstance(message, dict)
        assert "method" in message, "no responses"
        accepted = [kind.strip() for kind in exchange.headers["accept"].split(",")]
        assert {"application/json", "text/event-stream"} <= set(accepted)
        assert exchange.headers["content-type"] == "application/json"


async def test_headers_repeat_what_the_body_says() -> None:
    partner = Partner(answers={"tools/call": slowly})
    async with connected(partner, "http") as client:
        await everything(client, partner)
        await client.read_resource(SPECIAL)
    named = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    seen = set()
    for exchange in partner.exchanges:
        message = exchange.message
        seen.add(message["method"])
        meta = message["params"]["_meta"]
        version = exchange.headers["mcp-protocol-version"]
        assert version == meta["io.modelcontextprotocol/protocolVersion"] == LATEST
        assert exchange.headers["mcp-method"] == message["method"]
        field = named.get(message["method"])
        if field is None:
            assert "mcp-name" not in exchange.headers
        else:
            assert decoded(exchange.headers["mcp-name"]) == message["params"][field]
        assert not {"mcp-session-id", "last-event-id"} & set(exchange.headers)
    assert set(named) < seen


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("Hello, \u4e16\u754c", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="),
        ("\x7f", "=?base64?fw==?="),
        ("", ""),
        ("=?base64?half", "=?base64?half"),
        ("tab\tinside", "tab\tinside"),
    ],
)
async def test_names_and_values_are_encoded_as_the_specification_has_it(value: str, header: str) -> None:
    annotated = tool(value, region={"type": "string", "x-mcp-header": "Region"})
    exchange = await called({"region": value}, annotated, name=value)
    assert exchange.headers["mcp-param-region"] == header
    assert exchange.headers["mcp-name"] == header
    assert "x-evil" not in exchange.headers
    assert exchange.message["params"]["arguments"] == {"region": value}


@pytest.mark.parametrize(
    ("kind", "value", "header"),
    [
        ("integer", 42, "42"),
        ("integer", -7, "-7"),
        ("integer", 0, "0"),
        ("integer", 2**53 - 1, "9007199254740991"),
        ("boolean", True, "true"),
        ("boolean", False, "false"),
        ("string", "42", "42"),
    ],
)
async def test_values_that_are_no_text_are_written_as_text(kind: str, value: Any, header: str) -> None:
    exchange = await called({"x": value}, tool(x={"type": kind, "x-mcp-header": "X"}))
    assert exchange.headers["mcp-param-x"] == header


@pytest.mark.parametrize("value", [2**53, -(2**53), 10**30])
async def test_integers_that_not_everybody_can_read_are_not_repeated(value: int) -> None:
    with pytest.raises(ConfigError, match="x is repeated in a header"):
        await called({"x": value}, tool(x={"type": "integer", "x-mcp-header": "X"}))


async def test_annotated_parameters_at_any_depth_are_repeated_and_others_are_not() -> None:
    deep = {"type": "object", "properties": {"inner": {"type": "string", "x-mcp-header": "Inner-Value"}}}
    exchange = await called(
        {"plain": "secret", "deep": {"inner": "i", "other": "o"}, "top": True, "inner": "not this one"},
        tool(plain={"type": "string"}, deep=deep, top={"type": "boolean", "x-mcp-header": "Top"}),
    )
    found = {name: value for name, value in exchange.headers.items() if name.startswith("mcp-param-")}
    assert found == {"mcp-param-inner-value": "i", "mcp-param-top": "true"}


@pytest.mark.parametrize("arguments", [None, {}, {"x": None}, {"y": 1}, {"deep": None}, {"deep": 5}, {"deep": {}}])
async def test_a_parameter_without_a_value_has_no_header(arguments: Any) -> None:
    deep = {"type": "object", "properties": {"z": {"type": "string", "x-mcp-header": "Z"}}}
    exchange = await called(arguments, tool(x={"type": "string", "x-mcp-header": "X"}, deep=deep))
    assert not [name for name in exchange.headers if name.startswith("mcp-param-")]


WRONG: list[dict[str, Any]] = [
    {"x": {"type": "string", "x-mcp-header": ""}},
    {"x": {"type": "string", "x-mcp-header": "a b"}},
    {"x": {"type": "string", "x-mcp-header": "a:b"}},
    {"x": {"type": "string", "x-mcp-header": "a\r\nb"}},
    {"x": {"type": "string", "x-mcp-header": "caf\u00e9"}},
    {"x": {"type": "string", "x-mcp-header": 5}},
    {"x": {"type": "string", "x-mcp-header": "A"}, "y": {"type": "string", "x-mcp-header": "a"}},
    {"x": {"type": "number", "x-mcp-header": "A"}},
    {"x": {"type": "object", "x-mcp-header": "A"}},
    {"x": {"type": ["string", "null"], "x-mcp-header": "A"}},
    {"x": {"x-mcp-header": "A"}},
    {"x": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
    {"x": {"oneOf": [{"type": "string", "x-mcp-header": "A"}]}},
    {"x": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}},
    {"x": {"if": {"type": "string", "x-mcp-header": "A"}}},
    {"x": {"$defs": {"d": {"type": "string", "x-mcp-header": "A"}}}},
]


@pytest.mark.parametrize("properties", WRONG)
async def test_a_tool_with_an_annotation_that_is_wrong_is_left_out_and_the_others_are_not(
    properties: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    partner = Partner(answers={"tools/list": {"tools": [tool("good"), tool("bad", **properties), tool("fine")]}})
    with caplog.at_level(logging.WARNING, "carrel.client"):
        async with connected(partner, "http") as client:
            assert [each.name async for each in client.list_tools()] == ["good", "fine"]
    assert any("bad" in record.getMessage() for record in caplog.records)
    async with connected(partner, "stdio") as client:
        assert [each.name async for each in client.list_tools()] == ["good", "bad", "fine"]


async def test_a_mismatch_of_headers_has_the_tools_listed_and_the_call_made_again() -> None:
    mismatch = {"error": {"code": -32020, "message": "Header mismatch"}}
    lists = in_turn(
        {"tools": [tool(x={"type": "string"})]}, {"tools": [tool(x={"type": "string", "x-mcp-header": "X"})]}
    )
    partner = Partner(answers={"tools/list": lists, "tools/call": in_turn(mismatch, {"content": []})})
    async with connected(partner, "http") as client:
        await client.call_tool("t", {"x": "1"})
    calls = [each for each in partner.exchanges if each.message["method"] == "tools/call"]
    assert ["mcp-param-x" in each.headers for each in calls] == [False, True]


@pytest.mark.parametrize("stream", [False, True])
async def test_answers_are_taken_as_json_and_as_a_stream(stream: bool) -> None:
    partner = Partner(stream=stream)
    async with connected(partner, "http") as client:
        assert (await client.call_tool("t")).content
        assert (await client.read_resource("a:b")).contents[0].uri == "a:b"


async def test_names_of_headers_are_compared_without_their_case() -> None:
    partner = Partner()

    def respond(exchange: Exchange) -> Reply | None:
        if exchange.message["method"] != "resources/read":
            return None
        result = {"contents": [{"uri": "a:b", "text": "loud"}]}
        reply = as_json({"jsonrpc": "2.0", "id": exchange.message["id"], "result": result})
        return Reply(200, {"CONTENT-TYPE": "Application/JSON; charset=utf-8", "cOnNeCtIoN": "close"}, reply.body)

    partner.respond = respond
    async with connected(partner, "http") as client:
        assert [contents.text for contents in (await client.read_resource("a:b")).contents] == ["loud"]  # type: ignore[union-attr]


@pytest.mark.parametrize("stream", [False, True])
async def test_giving_up_on_a_request_closes_its_stream_and_sends_nothing(stream: bool) -> None:
    partner = Partner(answers={"tools/call": silence}, stream=stream)
    async with connected(partner, "http") as client:
        call = asyncio.create_task(client.call_tool("t"))
        await partner.until("tools/call")
        call.cancel()
        exchange = next(each for each in partner.exchanges if each.message["method"] == "tools/call")
        await asyncio.wait_for(exchange.closed.wait(), 60)
        await client.read_resource("a:b")
    assert partner.sent_of("notifications/cancelled") == []


async def test_there_is_no_session_even_if_the_server_gives_one_out() -> None:
    partner = Partner()

    def respond(exchange: Exchange) -> Reply | None:
        answer = partner.usual(exchange.message["method"], exchange.message)
        assert isinstance(answer, dict)
        return as_json({"jsonrpc": "2.0", "id": exchange.message["id"], "result": answer}, **{"Mcp-Session-Id": "s"})

    partner.respond = respond
    async with connected(partner, "http") as client:
        await client.read_resource("a:b")
        await client.read_resource("a:b")
    assert not any("mcp-session-id" in exchange.headers for exchange in partner.exchanges)
    assert {exchange.method for exchange in partner.exchanges} == {"POST"}


async def test_notifications_on_the_stream_of_a_request_belong_to_it() -> None:
    told: list[float] = []
    partner = Partner(stream=True)

    def work(message: dict[str, Any]) -> dict[str, Any]:
        token = message["params"]["_meta"]["progressToken"]
        partner.notify("notifications/progress", {"progressToken": token, "progress": 1}, message["id"])
        return {"content": []}

    partner.answers["tools/call"] = work
    async with connected(partner, "http") as client:
        await client.call_tool("t", progress=lambda progress, *_: told.append(progress))
    assert told == [1]


async def test_a_message_is_utf_8_and_arrives_as_it_was_sent() -> None:
    odd = 'caf\u00e9 \U0001f370 \u2028 \x00 \\ "'
    for transport in ("stdio", "http"):
        partner = Partner(
            answers={"tools/call": lambda message: {"content": [], "structuredContent": message["params"]["arguments"]}}
        )
        async with connected(partner, transport) as client:
            result = await client.call_tool("t", {"text": odd})
        assert result.structured_content == {"text": odd}
        body = partner.written.splitlines()[-1] if transport == "stdio" else partner.exchanges[-1].body
        assert json.loads(body.decode("utf-8"))["params"]["arguments"] == {"text": odd}
