"""Responses as objects of the vendors' SDKs: their calls are made, and the results fit the next request."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from carrel import Client
from carrel.agents import tools_of
from support.servers.agent_tools import PNG, make

pytestmark = pytest.mark.slow  # the SDKs take seconds to load


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client(make("desk")) as client:
        yield client


async def test_anthropic(client: Client) -> None:
    from anthropic.types import Message, TextBlock, ToolUseBlock, Usage

    tools = await tools_of(client, "anthropic")
    response = Message(
        id="m",
        type="message",
        role="assistant",
        model="claude",
        stop_reason="tool_use",
        content=[
            TextBlock(type="text", text="One moment."),
            ToolUseBlock(type="tool_use", id="t1", name="add", input={"a": 1, "b": 2}),
            ToolUseBlock(type="tool_use", id="t2", name="picture", input={}),
        ],
        usage=Usage(input_tokens=1, output_tokens=1),
    )
    (message,) = await tools.run(response)
    assert [block["tool_use_id"] for block in message["content"]] == ["t1", "t2"]
    assert message["content"][0]["content"] == [{"type": "text", "text": "3"}]


async def test_openai(client: Client) -> None:
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response, ResponseFunctionToolCall

    call = ResponseFunctionToolCall(type="function_call", call_id="c1", name="add", arguments='{"a": 1, "b": 2}')
    tools = await tools_of(client, "openai")
    assert await tools.run(Response.model_construct(output=[call])) == [
        {"type": "function_call_output", "call_id": "c1", "output": "3"}
    ]
    function = {"name": "refuse", "arguments": '{"config": "chair"}'}
    message = {"role": "assistant", "tool_calls": [{"id": "c2", "type": "function", "function": function}]}
    completion = ChatCompletion.model_validate(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "gpt",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        }
    )
    assert await (await tools_of(client, "openai-chat")).run(completion) == [
        {"role": "tool", "tool_call_id": "c2", "content": "Error: No chair here; try a lamp."}
    ]


async def test_gemini(client: Client) -> None:
    from google.genai.types import Content, GenerateContentConfig, GenerateContentResponse

    tools = await tools_of(client, "gemini")
    config = GenerateContentConfig.model_validate({"tools": tools})
    assert config.tools
    response = GenerateContentResponse.model_validate(
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [
                            {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": "c2ln"},
                            {"functionCall": {"id": "f2", "name": "picture", "args": {}}},
                        ],
                    }
                }
            ]
        }
    )
    (sent,) = [Content.model_validate(message) for message in await tools.run(response)]
    assert sent.parts is not None
    responses = [part.function_response for part in sent.parts if part.function_response]
    assert [(response.id, response.name, response.response) for response in responses] == [
        (None, "add", {"output": "3"}),
        ("f2", "picture", {"output": "a lamp"}),
    ]
    assert [part.inline_data.data for part in sent.parts if part.inline_data] == [PNG]
