"""Tools: what they are given, what they give back, and whose fault it was."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import decimal
import json
import logging
import math
import re
import threading
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from carrel import Client, Context, Icon, Server
from carrel.errors import ConfigError, InvalidParams, MethodNotFound, ResourceNotFound, ToolError
from carrel.transports import memory
from carrel.wire.base import Annotations
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.resources import BlobResourceContents, Resource, TextResourceContents
from carrel.wire.tools import CallToolResult, ToolAnnotations
from support.memory_client import ALL, HANDSHAKES, JUNE, LATEST, MARCH, NOVEMBER, OLDEST, call, error, listed


@dataclasses.dataclass
class Weather:
    """What it is like outside."""

    temperature: float
    conditions: str


class Note(msgspec.Struct):
    text: str


class Person(pydantic.BaseModel):
    name: str
    age: int = 0


def texts(found: dict[str, Any]) -> list[str]:
    assert all(block["type"] == "text" for block in found["content"])
    return [block["text"] for block in found["content"]]


# Being listed


@pytest.mark.parametrize("revision", ALL)
async def test_a_tool_is_listed_with_everything_its_revision_has(revision: str) -> None:
    app = Server("s")

    @app.tool(
        title="Look outside",
        annotations={"readOnlyHint": True, "destructive_hint": False, "idempotentHint": True, "openWorldHint": False},
        icons=[Icon("https://example.com/sun.png")],
        meta={"com.example/k": 1},
    )
    def weather(city: Annotated[str, "Where"], days: int = 1, unit: Literal["C", "F"] = "C") -> Weather:
        """Tell the weather."""
        return Weather(21.5, "sunny")

    expected: dict[str, Any] = {
        "name": "weather",
        "title": "Look outside",
        "description": "Tell the weather.",
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
        "icons": [{"src": "https://example.com/sun.png"}],
        "_meta": {"com.example/k": 1},
    }
    if revision in (OLDEST, MARCH, JUNE):
        del expected["icons"]
    if revision in (OLDEST, MARCH):
        del expected["title"], expected["_meta"]
    if revision == OLDEST:
        del expected["annotations"]
    async with memory.connect(app, revision) as peer:
        (tool,) = await listed(peer, "tools")
        schema = tool.pop("inputSchema")
        output = tool.pop("outputSchema", None)
        assert tool == expected
        assert (schema["type"], schema["required"]) == ("object", ["city"])
        assert schema["properties"]["city"] == {"type": "string", "description": "Where"}
        assert schema["properties"]["days"]["default"] == 1
        assert set(schema["properties"]["unit"]["enum"]) == {"C", "F"}
        assert (output is None) is (revision in (OLDEST, MARCH))
        if output is not None:
            assert set(output["properties"]) == {"temperature", "conditions"}


@pytest.mark.parametrize("revision", ALL)
async def test_annotations_that_say_nothing_are_left_out(revision: str) -> None:
    app = Server("s")
    app.tools.add(lambda: "", name="t", annotations={})
    app.tools.add(lambda: "", name="u", annotations=ToolAnnotations())
    app.resources.add("x://1", "", annotations={})
    app.resources.add("x://2", "", annotations={"lastModified": "2024-02-29T00:00:00Z"})
    app.resources.add("x://3", "", annotations={"lastModified": "2024-02-29T00:00:00Z", "priority": 1})
    async with memory.connect(app, revision) as peer:
        assert all("annotations" not in tool for tool in await listed(peer, "tools"))
        nothing, dated, both = await listed(peer, "resources")
    assert "annotations" not in nothing
    assert ("annotations" in dated) is (revision not in (OLDEST, MARCH))
    assert both["annotations"].pop("lastModified", None) == dated.get("annotations", {}).get("lastModified")
    assert both["annotations"] == {"priority": 1}


async def test_a_tool_without_arguments_takes_an_empty_object() -> None:
    app = Server("s")

    @app.tool()
    def ping() -> str:
        return "pong"

    async with memory.connect(app) as peer:
        (tool,) = await listed(peer, "tools")
        assert tool["inputSchema"]["type"] == "object"
        for params in ({}, {"arguments": {}}):
            reply = await peer.request("tools/call", {"name": "ping", **params})
            assert texts(reply["result"]) == ["pong"]


async def test_tools_are_listed_in_the_order_of_their_names() -> None:
    app = Server("s", page_size=2)
    for name in ("zebra", "ant", "mole", "bee", "cat"):
        app.tools.add(lambda: "", name=name)
    async with memory.connect(app) as peer:
        assert [tool["name"] for tool in await listed(peer, "tools")] == ["ant", "bee", "cat", "mole", "zebra"]


async def test_tools_come_and_go_while_the_server_runs() -> None:
    app = Server("s")

    @app.tool()
    def first() -> str:
        return "1"

    async with memory.connect(app) as peer:
        app.tools.add(lambda: "2", name="second")
        app.tools.add(lambda: "one", name="first", title="New", replace=True)
        assert [(tool["name"], tool.get("title")) for tool in await listed(peer, "tools")] == [
            ("first", "New"),
            ("second", None),
        ]
        assert texts(await call(peer, "first")) == ["one"]
        app.tools.remove("first")
        assert (await error(peer, "tools/call", name="first"))["code"] == -32602
        app.tools.remove("second")
        assert await listed(peer, "tools") == []
        with pytest.raises(KeyError):
            app.tools.remove("second")


def test_a_name_is_taken_once() -> None:
    app = Server("s")
    app.tools.add(lambda: "", name="x")
    with pytest.raises(ConfigError, match="already"):
        app.tools.add(lambda: "", name="x")


async def test_the_decorator_needs_no_parentheses() -> None:
    app = Server("s")

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    async with memory.connect(app) as peer:
        assert (await call(peer, "add", a=1, b=2))["content"][0]["text"] == "3"
    assert await add(1, 2) == 3


@pytest.mark.parametrize(
    "details",
    [
        {"annotations": {"readonly": True}},
        {"annotations": {"readOnlyHint": "yes"}},
        {"annotations": ToolAnnotations(title=5)},  # type: ignore[arg-type]
        {"icons": ["javascript:x"]},
        {"input_schema": {"type": "string"}},
        {"input_schema": {}},
        {"input_schema": {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}},
        {"input_schema": {"type": "object", "$ref": "https://example.com/schema.json"}},
        {"output_schema": {"type": "object", "$ref": "https://example.com/schema.json"}},
    ],
)
def test_a_tool_that_makes_no_sense_is_refused_at_once(details: dict[str, Any]) -> None:
    app = Server("s")
    with pytest.raises(ConfigError):
        app.tools.add(lambda: "", name="x", **details)


# What comes back


@pytest.mark.parametrize("way", ["sync", "async", "waiting"])
@pytest.mark.parametrize(
    ("value", "content", "structured"),
    [
        ("text", ["text"], None),
        ("", [""], None),
        (None, [], None),
        (5, ["5"], None),
        (True, ["true"], None),
        (1.5, ["1.5"], None),
        ([], ["[]"], None),
        ([1, "a"], ['[1,"a"]'], None),
        ({}, ["{}"], {}),
        ({"a": [1, None]}, ['{"a":[1,null]}'], {"a": [1, None]}),
        (Weather(1.0, "x"), ['{"temperature":1.0,"conditions":"x"}'], {"temperature": 1.0, "conditions": "x"}),
        (Note("n"), ['{"text":"n"}'], {"text": "n"}),
        (Person(name="Ada"), ['{"name":"Ada","age":0}'], {"name": "Ada", "age": 0}),
        ([Note("n")], ['[{"text":"n"}]'], None),
    ],
    ids=repr,
)
async def test_plain_values_become_text_and_objects_are_structured_too(
    way: str, value: Any, content: list[str], structured: Any
) -> None:
    app = Server("s")

    def sync() -> Any:
        return value

    async def immediate() -> Any:
        return value

    async def waiting() -> Any:
        await asyncio.sleep(0)
        return value

    app.tools.add({"sync": sync, "async": immediate, "waiting": waiting}[way], name="t")
    async with memory.connect(app, NOVEMBER) as peer:
        found = await call(peer, "t")
        assert texts(found) == content
        assert found.get("structuredContent") == structured
        assert not found.get("isError")


BLOCKS: list[tuple[Any, dict[str, Any]]] = [
    (TextContent("t"), {"type": "text", "text": "t"}),
    (ImageContent(b"\x89P", "image/png"), {"type": "image", "data": "iVA=", "mimeType": "image/png"}),
    (AudioContent(b"RIFF", "audio/wav"), {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}),
    (ResourceLink("a:b", "b"), {"type": "resource_link", "uri": "a:b", "name": "b"}),
    (Resource("a:b", "b", size=3), {"type": "resource_link", "uri": "a:b", "name": "b", "size": 3}),
    (
        EmbeddedResource(TextResourceContents("a:b", "t")),
        {"type": "resource", "resource": {"uri": "a:b", "text": "t"}},
    ),
    (TextResourceContents("a:b", "t"), {"type": "resource", "resource": {"uri": "a:b", "text": "t"}}),
    (BlobResourceContents("a:b", b"b"), {"type": "resource", "resource": {"uri": "a:b", "blob": "Yg=="}}),
    (
        TextContent("t", annotations=Annotations(audience=["user"], priority=0.5), meta={"k": 1}),
        {"type": "text", "text": "t", "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"k": 1}},
    ),
]


@pytest.mark.parametrize(("value", "block"), BLOCKS)
async def test_every_type_of_content_travels(value: Any, block: dict[str, Any]) -> None:
    app = Server("s")
    app.tools.add(lambda: value, name="one")
    app.tools.add(lambda: [value, "and text", {"and": "data"}], name="several")
    app.tools.add(lambda: CallToolResult(content=[TextContent("x")], meta={"k": 1}, is_error=True), name="whole")
    async with memory.connect(app) as peer:
        assert (await call(peer, "one"))["content"] == [block]
        several = await call(peer, "several")
        assert several["content"] == [
            block,
            {"type": "text", "text": "and text"},
            {"type": "text", "text": '{"and":"data"}'},
        ]
        assert "structuredContent" not in several
        whole = await call(peer, "whole")
        assert (whole["isError"], whole["_meta"]["k"]) == (True, 1)


async def test_older_clients_get_what_they_know_instead() -> None:
    app = Server("s")
    app.tools.add(lambda: [AudioContent(b"RIFF", "audio/wav"), ResourceLink("a:b", "b.txt")], name="t")
    async with memory.connect(app, OLDEST) as peer:
        audio, link = (await call(peer, "t"))["content"]
        assert audio["type"] == "resource"
        assert base64.b64decode(audio["resource"]["blob"]) == b"RIFF"
        assert link["type"] == "text"
        assert "a:b" in link["text"]
    async with memory.connect(app, MARCH) as peer:
        assert [block["type"] for block in (await call(peer, "t"))["content"]] == ["audio", "text"]
    async with memory.connect(app, JUNE) as peer:
        assert [block["type"] for block in (await call(peer, "t"))["content"]] == ["audio", "resource_link"]


# Structured output


@pytest.mark.parametrize("revision", ALL)
async def test_structured_output_goes_to_those_who_know_it_and_text_to_all(revision: str) -> None:
    app = Server("s")

    @app.tool()
    def weather() -> Weather:
        return Weather(21.5, "sunny")

    async with memory.connect(app, revision) as peer:
        found = await call(peer, "weather")
        assert json.loads(texts(found)[0]) == {"temperature": 21.5, "conditions": "sunny"}
        expected = None if revision in (OLDEST, MARCH) else {"temperature": 21.5, "conditions": "sunny"}
        assert found.get("structuredContent") == expected


async def test_an_output_schema_of_any_kind_is_for_the_newest_revision_only() -> None:
    app = Server("s")
    app.tools.add(lambda: [1, 2], name="numbers", output_schema={"type": "array", "items": {"type": "integer"}})
    async with memory.connect(app, LATEST) as peer:
        assert (await listed(peer, "tools"))[0]["outputSchema"]["type"] == "array"
        assert (await call(peer, "numbers"))["structuredContent"] == [1, 2]
    for revision in HANDSHAKES:
        async with memory.connect(app, revision) as peer:
            assert "outputSchema" not in (await listed(peer, "tools"))[0]
            found = await call(peer, "numbers")
            assert (texts(found), "structuredContent" in found) == (["[1,2]"], False)


async def test_a_result_that_breaks_its_schema_fails_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = Server("s")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    for name, value in {
        "wrong": {"a": "x"},
        "missing": {},
        "text": "text",
        "none": None,
        "whole": CallToolResult(content=[]),
    }.items():
        app.tools.add(lambda value=value: value, name=name, output_schema=schema, input_schema={"type": "object"})
    app.tools.add(lambda: CallToolResult(content=[], is_error=True), name="failed", output_schema=schema)
    app.tools.add(lambda: {"a": 1}, name="right", output_schema=schema)
    async with memory.connect(app) as peer:
        for name in ("wrong", "missing", "text", "none", "whole"):
            found = await call(peer, name)
            assert found["isError"] is True, name
            assert "structuredContent" not in found
        assert (await call(peer, "right"))["structuredContent"] == {"a": 1}
        assert (await call(peer, "failed"))["content"] == []
    assert sum("does not conform" in record.message for record in caplog.records) == 5


class Sized(TypedDict):
    size: int


class Price(pydantic.BaseModel):
    amount: decimal.Decimal
    due: datetime.date | None = None


def break_promises() -> Server:
    """Return a server whose tools give back what does not fit the schema that is listed for them."""
    app = Server("s")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

    @app.tool()
    def field() -> Weather:
        return Weather("warm", "sunny")  # type: ignore[arg-type]

    @app.tool()
    def nothing() -> Sized:
        return None  # type: ignore[return-value]

    @app.tool()
    async def text() -> Note:
        return "text"  # type: ignore[return-value]

    @app.tool()
    async def number() -> dict[str, int]:
        return 5  # type: ignore[return-value]

    @app.tool()
    def other() -> Person:
        return Note("x")  # type: ignore[return-value]

    @app.tool(structured=True)
    def wrapped() -> int:
        return "five"  # type: ignore[return-value]

    @app.tool(structured=True)
    def infinite() -> float:
        return math.inf

    @app.tool()
    def value() -> Annotated[dict[str, Annotated[int, msgspec.Meta(ge=1)]], "sizes"]:
        return {"a": 0}

    app.tools.add(lambda: TextContent("t"), name="block", output_schema=schema)
    app.tools.add(lambda: [TextContent("t"), {"a": 1}], name="blocks", output_schema=schema)
    app.tools.add(lambda: CallToolResult(content=[TextContent("t")]), name="whole", output_schema=schema)
    app.tools.add(lambda: {"a": "no"}, name="given", output_schema=schema)
    return app


@pytest.mark.parametrize("revision", ALL)
async def test_every_schema_that_is_listed_is_enforced(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    app = break_promises()
    reasons = {
        "field": "`temperature`",
        "nothing": "null",
        "text": '"text"',
        "number": "5",
        "other": "`name`",
        "wrapped": '`result`: "five"',
        "infinite": "`result`",
        "value": "`a`: 0 is less",
        "block": "no structured content",
        "blocks": "no structured content",
        "whole": "no structured content",
        "given": "`a`",
    }
    async with memory.connect(app, revision) as peer:
        for tool in await listed(peer, "tools"):
            assert ("outputSchema" in tool) is (revision not in (OLDEST, MARCH)), tool["name"]
            found = await call(peer, tool["name"])
            assert found["isError"] is True, (tool["name"], found)
            assert "structuredContent" not in found
            assert f"{tool['name']}: the result does not conform" in texts(found)[0]
            assert reasons.pop(tool["name"]) in texts(found)[0]
    assert reasons == {}
    assert sum("of tool field does not conform" in record.getMessage() for record in caplog.records) == 1


async def test_results_that_fit_have_structured_content_and_satisfy_a_client() -> None:
    app = Server("s")
    values: dict[str, Any] = {}

    def offer(name: str, kind: Any, value: Any, **details: Any) -> None:
        def give() -> Any:
            return value

        give.__annotations__["return"] = kind
        app.tools.add(give, name=name, **details)

    offer("dataclass", Weather, Weather(1.0, "x"))
    offer("struct", Note, Note("x"))
    offer("dict", dict[str, Any], {"a": [None, {}]})
    offer("typed", Sized, {"size": 1})
    offer("model", Price, Price(amount="12.50", due="2024-02-29"))  # type: ignore[arg-type]
    offer("whole_number", Weather, Weather(3, "x"))
    offer("int", int, 5, structured=True)
    offer("bool", bool, True, structured=True)
    offer("text", str, "x", structured=True)
    offer("float", float, 1.5, structured=True)
    offer("models", list[Price], [Price(amount=1)], structured=True)  # type: ignore[arg-type]
    async with Client(app) as client:
        async for tool in client.list_tools():
            result = await client.call_tool(tool.name, {})
            assert result.is_error is not True, result
            assert result.structured_content is not msgspec.UNSET, tool.name
            values[tool.name] = result.structured_content
    assert values["model"] == {"amount": "12.50", "due": "2024-02-29"}
    assert values["int"] == {"result": 5}


def test_a_schema_for_what_is_left_out_makes_no_sense() -> None:
    with pytest.raises(ConfigError, match=r"structured=False.*output_schema"):
        Server("s").tools.add(lambda: 1, name="t", structured=False, output_schema={"type": "object"})
    with pytest.raises(ConfigError, match="not annotated"):
        Server("s").tools.add(lambda: 1, name="t", structured=True)


async def test_structured_says_whether_there_is_structured_output() -> None:
    app = Server("s")

    @app.tool(structured=False)
    def plain() -> Weather:
        return Weather(1, "x")

    @app.tool(structured=True)
    def number() -> int:
        return 5

    @app.tool(structured=True)
    async def words() -> str:
        return "hello"

    async with memory.connect(app, NOVEMBER) as peer:
        by_name = {tool["name"]: tool for tool in await listed(peer, "tools")}
        assert "outputSchema" not in by_name["plain"]
        assert "structuredContent" not in await call(peer, "plain")
        for name, value in (("number", 5), ("words", "hello")):
            assert by_name[name]["outputSchema"]["required"] == ["result"]
            assert (await call(peer, name))["structuredContent"] == {"result": value}


@pytest.mark.parametrize("revision", [JUNE, NOVEMBER, LATEST])
async def test_results_of_tools_with_an_output_schema_are_always_structured(revision: str) -> None:
    app = Server("s")

    @app.tool()
    def maybe(there: bool) -> Weather | None:
        return Weather(1, "x") if there else None

    @app.tool()
    def table() -> dict[str, int]:
        return {"a": 1}

    @app.tool()
    async def empty() -> dict[str, int]:
        return {}

    async with memory.connect(app, revision) as peer:
        schemas = {tool["name"]: tool.get("outputSchema") for tool in await listed(peer, "tools")}
        for name, arguments in (("maybe", {"there": True}), ("maybe", {"there": False}), ("table", {}), ("empty", {})):
            found = await call(peer, name, **arguments)
            assert ("structuredContent" in found) or schemas[name] is None, (name, found)


# Arguments


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "city"),
        ({"city": 5}, "city"),
        ({"city": None}, "city"),
        ({"city": "x", "days": "two"}, "days"),
        ({"city": "x", "days": 1.5}, "days"),
        ({"city": "x", "unit": "K"}, "unit"),
        ({"city": "x", "town": "y"}, "town"),
        ({"city": "x", "where": {"lat": 1}}, "lon"),
    ],
)
async def test_wrong_arguments_are_for_the_model_to_mend_or_an_error_of_the_protocol(
    revision: str, arguments: dict[str, Any], named: str
) -> None:
    app = Server("s")
    called = []

    class Place(msgspec.Struct):
        lat: float
        lon: float

    def weather(city: str, days: int = 1, unit: Literal["C", "F"] = "C", where: Any = None) -> None:
        called.append(city)

    weather.__annotations__["where"] = Place | None
    app.tools.add(weather)
    app.tools.add(
        lambda **given: called.append(given),
        name="by_schema",
        input_schema={
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "unit": {"enum": ["C", "F"]},
                "where": {"type": "object", "required": ["lat", "lon"]},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    )
    async with memory.connect(app, revision) as peer:
        for name in ("weather", "by_schema"):
            reply = await peer.request("tools/call", {"name": name, "arguments": arguments})
            if revision in (NOVEMBER, LATEST):
                assert reply["result"]["isError"] is True
                told = texts(reply["result"])[0]
            else:
                assert reply["error"]["code"] == -32602
                told = reply["error"]["message"]
            assert named in told
    assert called == []


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("name", ["nothing", "", "Add", "x" * 100_000])
async def test_an_unknown_tool_is_an_error_of_the_protocol(revision: str, name: str) -> None:
    app = Server("s")
    app.tools.add(lambda: "", name="add")
    async with memory.connect(app, revision) as peer:
        found = await error(peer, "tools/call", name=name)
        assert found["code"] == -32602
        assert "unknown tool" in found["message"].lower()
        assert len(found["message"]) < 300


@pytest.mark.parametrize("name", ["by_signature", "by_schema"])
@pytest.mark.parametrize("revision", [JUNE, LATEST])
async def test_arguments_that_are_null_are_none(revision: str, name: str) -> None:
    app = Server("s")
    app.tools.add(lambda: "called", name="by_signature")
    app.tools.add(lambda **given: "called", name="by_schema", input_schema={"type": "object"})
    async with memory.connect(app, revision) as peer:
        reply = await peer.request("tools/call", {"name": name, "arguments": None})
        assert texts(reply["result"]) == ["called"]


@pytest.mark.parametrize("arguments", ["5", "[]", '"x"', "true"])
@pytest.mark.parametrize("name", ["by_signature", "by_schema"])
@pytest.mark.parametrize("revision", [JUNE, LATEST])
async def test_arguments_that_are_no_object_are_refused(revision: str, name: str, arguments: str) -> None:
    app = Server("s")
    app.tools.add(lambda: "called", name="by_signature")
    app.tools.add(lambda **given: "called", name="by_schema", input_schema={"type": "object"})
    async with memory.connect(app, revision) as peer:
        reply = await peer.request("tools/call", {"name": name, "arguments": json.loads(arguments)})
        assert reply.get("result", {}).get("isError") or reply["error"]["code"] == -32602


@pytest.mark.parametrize("depth", [100, 500, 900, 1000, 1100, 2000, 100_000])
@pytest.mark.parametrize("name", ["by_signature", "by_schema", "anything"])
async def test_deep_arguments_are_taken_or_refused_and_the_server_lives(
    name: str, depth: int, caplog: pytest.LogCaptureFixture
) -> None:
    app = Server("s")
    app.tools.add(lambda x: "taken", name="by_signature")
    app.tools.add(lambda **given: "taken", name="by_schema", input_schema={"type": "object"})
    app.tools.add(lambda **given: "taken", name="anything")
    async with memory.connect(app, JUNE) as peer:
        waiting = peer.start("tools/list")
        params = b'{"name":"%b","arguments":{"x":%b}}' % (name.encode(), b"[" * depth + b"]" * depth)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        for id in ("deep", None):  # refused before its id is known, or answered
            peer._waiting[id] = answer
        peer.feed(b'{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":%b}' % params)
        reply = await asyncio.wait_for(answer, 60)
        assert texts(reply["result"]) == ["taken"] if "result" in reply else reply["error"]["code"] in (-32700, -32602)
        assert (await waiting)["result"]
        assert texts(await call(peer, "by_schema")) == ["taken"]
    assert caplog.records == []


async def test_sync_tools_run_in_threads_and_do_not_hold_each_other_up() -> None:
    app = Server("s")
    together = threading.Barrier(3, timeout=60)
    loop = threading.get_ident()

    @app.tool()
    def meet() -> bool:
        together.wait()
        return threading.get_ident() != loop

    async with memory.connect(app) as peer:
        found = await asyncio.gather(*(call(peer, "meet") for _ in range(3)))
        assert [texts(one) for one in found] == [["true"]] * 3


async def test_a_tool_function_stays_what_it_was() -> None:
    app = Server("s")

    @app.tool()
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert add(2) == 3


async def test_methods_are_tools_too() -> None:
    class Counter:
        count = 0

        async def up(self, by: int = 1) -> int:
            self.count += by
            return self.count

    app = Server("s")
    app.tools.add(Counter().up)
    async with memory.connect(app) as peer:
        await call(peer, "up")
        assert texts(await call(peer, "up", by=5)) == ["6"]


# Failing


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("way", ["sync", "async", "waiting"])
@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ValueError("no such city"), "no such city (reference *)"),
        (KeyError("x"), "'x' (reference *)"),
        (RuntimeError(), "RuntimeError (reference *)"),
        (ToolError("no such city"), "no such city"),
        (ToolError(""), "ToolError"),
        (ResourceNotFound("a:b"), "Resource not found: a:b"),
        (ExceptionGroup("several", [ValueError("x")]), "several (1 sub-exception) (reference *)"),
        (TimeoutError(), "TimeoutError (reference *)"),
        (SystemExit(2), "SystemExit: 2 (reference *)"),
        (KeyboardInterrupt(), "KeyboardInterrupt (reference *)"),
        (BaseExceptionGroup("several", [SystemExit()]), "BaseExceptionGroup: several (1 sub-exception) (reference *)"),
    ],
    ids=repr,
)
async def test_a_tool_that_fails_says_so_in_its_result(
    revision: str, way: str, failure: BaseException, told: str
) -> None:
    app = Server("s")

    def sync() -> Any:
        raise failure

    async def immediate() -> Any:
        raise failure

    async def waiting() -> Any:
        await asyncio.sleep(0)
        raise failure

    app.tools.add({"sync": sync, "async": immediate, "waiting": waiting}[way], name="t")
    async with memory.connect(app, revision) as peer:
        found = await call(peer, "t")
        assert found["isError"] is True
        assert [re.sub("[0-9a-f]{8}[)]$", "*)", text) for text in texts(found)] == [told]


async def test_a_message_that_is_no_unicode_is_told_as_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("carrel"), "propagate", False)  # a report with a surrogate cannot be sent
    app = Server("s")

    @app.tool()
    async def t() -> str:
        raise FileNotFoundError("caf\udce9")

    async with memory.connect(app) as peer:
        assert texts(await call(peer, "t"))[0].startswith("caf\\udce9 (reference ")


@pytest.mark.parametrize("failure", [InvalidParams("not like this"), MethodNotFound("not here")])
async def test_a_tool_may_raise_an_error_of_the_protocol(failure: Any) -> None:
    app = Server("s")

    @app.tool()
    async def picky() -> str:
        raise failure

    async with memory.connect(app) as peer:
        assert await error(peer, "tools/call", name="picky") == {"code": failure.code, "message": str(failure)}


async def test_a_tool_result_without_json_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    app = Server("s")
    caplog.set_level(logging.INFO)

    class Odd:
        pass

    app.tools.add(lambda: Odd(), name="odd")
    app.tools.add(lambda: [TextContent("x"), Odd()], name="mixed")
    app.tools.add(lambda: {"a": Odd()}, name="inside")

    @app.tool()
    async def surrogate() -> str:
        return "\ud800"

    async with memory.connect(app) as peer:
        for name in ("odd", "mixed", "inside"):
            assert (await call(peer, name))["isError"] is True
        reply = await peer.request("tools/call", {"name": "surrogate"})
        assert "error" in reply or reply["result"]["isError"]


async def test_one_failing_tool_does_not_disturb_the_others() -> None:
    app = Server("s")
    begun = asyncio.Event()
    go = asyncio.Event()

    @app.tool()
    async def slow() -> str:
        begun.set()
        await go.wait()
        return "slow"

    @app.tool()
    async def bad() -> str:
        raise ValueError

    async with memory.connect(app) as peer:
        slowly = peer.start("tools/call", {"name": "slow"})
        await asyncio.wait_for(begun.wait(), 60)
        assert (await call(peer, "bad"))["isError"] is True
        go.set()
        assert texts((await slowly)["result"]) == ["slow"]


async def test_the_context_is_no_argument_of_the_caller() -> None:
    app = Server("s")

    @app.tool()
    async def who(name: str, context: Context) -> str:
        return f"{name} {context.request_id}"

    async with memory.connect(app, NOVEMBER) as peer:
        (tool,) = await listed(peer, "tools")
        assert list(tool["inputSchema"]["properties"]) == ["name"]
        assert (await call(peer, "who", name="x", context="mine"))["isError"] is True
        reply = await peer.start("tools/call", {"name": "who", "arguments": {"name": "x"}}, id="id-7")
        assert texts(reply["result"]) == ["x id-7"]
