"""Programs for FastMCP 4 use the types, errors and forms of ``mcp`` 2 with the client and the context of FastMCP."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from carrel.compat import generation
from carrel.compat.fastmcp import Client, Context, FastMCP
from carrel.compat.fastmcp.exceptions import McpError
from carrel.compat.fastmcp.server.elicitation import (
    ElicitConfig,
    get_elicitation_schema,
    handle_elicit_accept,
    parse_elicit_response_type,
    validate_elicitation_json_schema,
)
from carrel.compat.mcp import types as v1
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.types.jsonrpc import REQUEST_TIMEOUT


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "_running", 2)


def test_a_model_of_mcp_1_is_an_instance_of_the_type_of_mcp_2_and_equal_to_its_models() -> None:
    text, newer = v1.TextContent(type="text", text="a"), types.TextContent(text="a")
    assert isinstance(text, types.TextContent)
    assert isinstance(newer, types.TextContent)
    assert not isinstance(text, types.ImageContent)
    assert not isinstance(text, type("TextContent", (types.TextContent,), {}))
    assert text == newer
    assert newer != v1.TextContent(type="text", text="b")
    assert text != v1.ImageContent(type="image", data="", mimeType="a/b")


def test_a_model_of_mcp_2_converts_models_of_mcp_1_in_its_fields() -> None:
    image = v1.ImageContent(type="image", data="", mimeType="image/png", _meta={"a": 1})
    result = types.CallToolResult(content=[image])
    assert type(result.content[0]) is types.ImageContent
    assert result.content == [types.ImageContent(data="", mime_type="image/png", _meta={"a": 1})]
    assert '"mimeType":"image/png"' in result.model_dump_json(by_alias=True)


async def test_the_client_raises_errors_of_mcp_2_and_servers_answer_with_them(four: None) -> None:
    mcp = FastMCP("errors")

    @mcp.tool
    async def waits() -> None:
        await asyncio.Event().wait()

    @mcp.resource("a://b")
    def fails() -> str:
        raise MCPError(-32005, "closed on Sundays", {"until": "Monday"})

    async with Client(mcp) as client:
        with pytest.raises(MCPError, match="'tools/call' timed out") as caught:
            await client.call_tool("waits", timeout=0.01)
        assert caught.value.code == REQUEST_TIMEOUT
        with pytest.raises(MCPError, match="closed on Sundays") as caught:
            await client.read_resource("a://b")
        assert (caught.value.code, caught.value.data) == (-32005, {"until": "Monday"})
        assert isinstance(caught.value, McpError)


async def test_a_server_has_icons_of_mcp_2(four: None) -> None:
    mcp = FastMCP("pictures", icons=[types.Icon(src="https://example.com/i.png", mime_type="image/png")])
    async with Client(mcp) as client:
        [icon] = client.initialize_result.server_info.icons
    assert (icon.src, icon.mime_type) == ("https://example.com/i.png", "image/png")
    assert [each.src for each in mcp.icons] == ["https://example.com/i.png"]


async def test_handlers_may_return_results_of_mcp_2(four: None) -> None:
    mcp = FastMCP("asks")

    @mcp.tool
    async def asks(ctx: Context) -> list[str]:
        form = await ctx.elicit("Which?", ["red", "blue"], response_title="Color")
        said = await ctx.sample("Hello")
        return [form.data, said.text, *(str(root.uri) for root in await ctx.list_roots())]

    async def fill_in(message: str, kind: Any, params: Any, context: Any) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        assert params.requested_schema["properties"]["value"]["title"] == "Color"
        return types.ElicitResult(action="accept", content={"value": "blue"})

    async def write(messages: list[Any], params: Any, context: Any) -> types.CreateMessageResult:
        assert isinstance(messages[0].content, types.TextContent)
        return types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text="Good day"))

    options: dict[str, Any] = {"elicitation_handler": fill_in, "sampling_handler": write}
    async with Client(mcp, roots=[types.Root(uri="file:///a")], **options) as client:
        assert (await client.call_tool("asks")).data == ["blue", "Good day", "file:///a"]


def test_forms_have_their_choices_where_they_are_used_and_defaults() -> None:
    class Color(Enum):
        RED = "red"
        BLUE = "blue"

    class Paint(BaseModel):
        first: Color
        second: Color = Field(default=Color.BLUE, description="Other")
        all: list[Color] = []

    schema = get_elicitation_schema(Paint)
    assert "$ref" not in str(schema)
    assert schema["properties"]["second"] == {
        "enum": ["red", "blue"],
        "title": "Color",
        "type": "string",
        "default": "blue",
        "description": "Other",
    }
    assert schema["properties"]["all"]["items"]["enum"] == ["red", "blue"]


def test_only_offered_choices_are_accepted() -> None:
    config = parse_elicit_response_type([{"a": {"title": "A"}, "b": {}}])
    assert isinstance(config, ElicitConfig)
    assert handle_elicit_accept(config, {"value": ["b"]}).data == ["b"]
    with pytest.raises(ValidationError):
        handle_elicit_accept(config, {"value": ["c"]})
    titled = parse_elicit_response_type(Literal["a"], "Letter", "Of the alphabet").schema
    assert titled["properties"]["value"] | {"const": "a"} == titled["properties"]["value"]
    assert titled["properties"]["value"]["description"] == "Of the alphabet"


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"type": "array", "items": {"type": "object"}}, "is an array of objects"),
        ({"type": "array", "items": {"type": "string"}}, "arrays are only allowed for choices"),
        ({"type": "object"}, "is neither a primitive type"),
    ],
)
def test_forms_are_flat(field: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        validate_elicitation_json_schema({"type": "object", "properties": {"a": field}})


def test_a_form_needs_a_type_in_4_and_titles_only_for_a_single_value(four: None) -> None:
    class Paint(BaseModel):
        color: str

    with pytest.raises(TypeError, match="requires a response_type"):
        parse_elicit_response_type(None)
    with pytest.raises(TypeError, match="for a single value"):
        parse_elicit_response_type(Paint, response_title="Paint")
