"""Requests with the tools of difficult servers and all kinds of results, checked as strictly as the vendors check."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from carrel import Client, Server
from carrel.agents import tools_of
from carrel.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.resources import BlobResourceContents, TextResourceContents
from carrel.wire.tools import CallToolResult
from chat.endpoints import KEY, Received, anthropic, gemini, openai_chat, openai_responses

pytestmark = pytest.mark.slow

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BLOCKS: list[ContentBlock] = [
    TextContent("a lamp"),
    ImageContent(PNG, "image/png"),
    ImageContent(b"<svg/>", "image/svg+xml"),
    AudioContent(b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
    ResourceLink(uri="note://1", name="one"),
    EmbeddedResource(TextResourceContents("note://1", "text")),
    EmbeddedResource(BlobResourceContents("note://2.pdf", b"%PDF-1.4", "application/pdf")),
    EmbeddedResource(BlobResourceContents("note://3", b"\0\1", None)),
]
#: Schemas that servers have and vendors refuse as they are.
SCHEMAS: dict[str, dict[str, Any]] = {
    "empty": {"type": "object"},
    "a.dotted/name": {"type": "object", "properties": {"$filter": {"type": ["string", "null"], "format": "uri"}}},
    "x" * 70: {"type": "object", "properties": {"n": {"type": "integer", "exclusiveMinimum": 0, "enum": [1, 2]}}},
    "choice": {
        "type": "object",
        "anyOf": [
            {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
            {"properties": {"name": {"const": "all"}}, "required": ["name"]},
        ],
    },
    "tree": {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}, "any": {}},
        "required": ["root"],
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
                "additionalProperties": False,
            }
        },
    },
    "list": {
        "type": "object",
        "properties": {
            "tags": {"type": "array"},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": False},
            "map": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    },
}


def server() -> Server:
    app = Server("difficult")
    for name, schema in SCHEMAS.items():

        def tool(**arguments: Any) -> CallToolResult:
            return CallToolResult(content=BLOCKS, is_error=arguments.get("$filter") == "wrong")

        app.tool(name=name, input_schema=schema)(tool)
    return app


def as_json(value: Any) -> Any:
    """Return a request as its receiver sees it."""
    return msgspec.json.decode(msgspec.json.encode(value))


async def test_anthropic() -> None:
    async with Client(server()) as client:
        tools = await tools_of(client, "anthropic")
        assert len(tools) == len(SCHEMAS)
        uses = [
            {"type": "tool_use", "id": "toolu_1", "name": "empty", "input": {}},
            {"type": "tool_use", "id": "toolu_2", "name": "a_dotted_name", "input": {"filter": "wrong"}},
        ]
        response = {"role": "assistant", "content": uses}
        results = await tools.run(response)
    assert [block.get("is_error", False) for block in results[0]["content"]] == [False, True]
    body = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 100,
        "stream": True,
        "tools": tools,
        "messages": [{"role": "user", "content": "go"}, response, *results],
    }
    anthropic.check(Received("/v1/messages", {"x-api-key": KEY, "anthropic-version": "2023-06-01"}, as_json(body)))


async def test_openai() -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    async with Client(server()) as client:
        tools = await tools_of(client, "openai")
        calls = [
            {"type": "function_call", "call_id": "c1", "name": "empty", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "a_dotted_name", "arguments": '{"filter": "wrong"}'},
        ]
        results = await tools.run({"output": calls})
        chat_tools = await tools_of(client, "openai-chat")
        functions = [{"name": call["name"], "arguments": call["arguments"]} for call in calls]
        tool_calls = [
            {"id": f"c{number}", "type": "function", "function": function} for number, function in enumerate(functions)
        ]
        message = {"role": "assistant", "tool_calls": tool_calls}
        chat_results = await chat_tools.run(message)
    body = {"model": "gpt-6.2-sol", "stream": True, "tools": tools, "input": [*calls, *results]}
    body["input"] = [{"role": "user", "content": "go"}, *calls, *results]
    openai_responses.check(Received("/v1/responses", headers, as_json(body)))
    chat = {"model": "gpt-6.2-sol", "stream": True, "tools": chat_tools}
    chat["messages"] = [{"role": "user", "content": "go"}, message, *chat_results]
    openai_chat.check(Received("/v1/chat/completions", headers, as_json(chat)))


async def test_gemini() -> None:
    async with Client(server()) as client:
        tools = await tools_of(client, "gemini")
        calls = [
            {"functionCall": {"name": "empty", "args": {}}, "thoughtSignature": "c2lnbmVk"},
            {"functionCall": {"name": "a_dotted_name", "args": {"filter": "wrong"}}},
        ]
        content = {"role": "model", "parts": calls}
        results = await tools.run(content)
    body = {"tools": tools, "contents": [{"role": "user", "parts": [{"text": "go"}]}, content, *results]}
    path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
    gemini.check(Received(path, {"x-goog-api-key": KEY}, as_json(body)))
