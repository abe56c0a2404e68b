"""What is made for vendors is valid for the types of their SDKs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pydantic import TypeAdapter

from carrel.vendors import anthropic, gemini, openai_chat, openai_responses
from carrel.wire.client_features import ToolResultContent
from carrel.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.resources import BlobResourceContents, TextResourceContents
from carrel.wire.tools import Tool

pytestmark = pytest.mark.slow  # the SDKs take seconds to load

BLOCKS: list[ContentBlock] = [
    TextContent("hello"),
    ImageContent(b"\xff\xfe png", "image/png"),
    ImageContent(b"svg", "image/svg+xml"),
    AudioContent(b"wav", "audio/wav"),
    ResourceLink(uri="note://1", name="one"),
    EmbeddedResource(TextResourceContents("note://1", "text")),
    EmbeddedResource(BlobResourceContents("note://2", b"%PDF", "application/pdf")),
    EmbeddedResource(BlobResourceContents("note://3", b"\0\1", None)),
]
RESULTS = [
    ToolResultContent(tool_use_id="c1", content=BLOCKS),
    ToolResultContent(tool_use_id="c2", content=BLOCKS, is_error=True),
    ToolResultContent(tool_use_id="c3", content=[], structured_content={"n": [1]}),
]
TOOL = Tool(
    name="shop__find",
    description="Find things",
    input_schema={
        "type": "object",
        "properties": {
            "$filter": {"type": ["string", "null"], "format": "uri"},
            "kind": {"enum": [1, "a", None]},
            "where": {"$ref": "#/$defs/Where"},
            "any": True,
            "tags": {"type": "array", "items": [{"type": "string"}, {"const": 5}]},
            "map": {"type": "object", "additionalProperties": {"type": "number", "exclusiveMinimum": 0}},
        },
        "required": ["$filter", "gone"],
        "$defs": {"Where": {"oneOf": [{"type": "object", "properties": {"in": {"$ref": "#/$defs/Where"}}}, {}]}},
        "additionalProperties": False,
    },
)


def check(kind: Any, value: Any) -> None:
    """Validate a value against a type of an SDK, which leaves out the keys that it does not know."""
    assert exhausted(TypeAdapter(kind).validate_python(value)) == value


def exhausted(value: Any) -> Any:
    """Return a validated value with its iterables, which are validated when they are iterated over, as lists."""
    if isinstance(value, dict):
        return {key: exhausted(item) for key, item in value.items()}
    return value if isinstance(value, str | bytes) or not isinstance(value, Iterable) else list(map(exhausted, value))


def test_anthropic() -> None:
    from anthropic.types import MessageParam, ToolParam

    check(ToolParam, anthropic.declare(TOOL).tool)
    check(list[MessageParam], anthropic.tool_results(RESULTS))
    check(list[MessageParam], [{"role": "user", "content": anthropic.content(BLOCKS)}])


def test_openai() -> None:
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
    from openai.types.responses import FunctionToolParam
    from openai.types.responses.response_input_item_param import FunctionCallOutput, Message

    check(FunctionToolParam, openai_responses.declare(TOOL).tool)
    check(list[FunctionCallOutput], openai_responses.tool_results(RESULTS))
    check(Message, {"type": "message", "role": "user", "content": openai_responses.content(BLOCKS)})
    check(ChatCompletionToolParam, openai_chat.declare(TOOL).tool)
    check(list[ChatCompletionMessageParam], openai_chat.tool_results(RESULTS))
    check(list[ChatCompletionMessageParam], [{"role": "user", "content": openai_chat.content(BLOCKS)}])


def test_gemini() -> None:
    from google.genai.types import Content, FunctionDeclaration

    declaration = gemini.declare(TOOL)
    FunctionDeclaration.model_validate(declaration.tool)  # refuses unknown keywords
    assert declaration.arguments({"filter": "x"}) == {"$filter": "x"}
    (content,) = gemini.tool_results(RESULTS, {"c1": "a", "c2": "b", "c3": "c"})
    sent = Content.model_validate(content)
    assert sent.parts is not None
    assert next(part.inline_data.data for part in sent.parts if part.inline_data) == b"\xff\xfe png"
    Content.model_validate({"role": "user", "parts": gemini.content(BLOCKS)})
