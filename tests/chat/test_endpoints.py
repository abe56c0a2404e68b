"""Endpoints of the tests: their streams are of the SDKs' own types, and they refuse what vendors refuse.

The tests import the SDKs, because that takes seconds, which every process that collects them would spend.
"""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from pydantic import TypeAdapter

from chat.endpoints import (
    KEY,
    Answer,
    CallTool,
    Decline,
    Endpoint,
    Received,
    Say,
    Think,
    anthropic_endpoint,
    gemini_endpoint,
    openai_chat,
    openai_endpoint,
    openai_responses,
)
from chat.endpoints import anthropic as anthropic_format

pytestmark = pytest.mark.slow

ANSWERS = [
    Answer(Think("Let me see."), Say("It is"), CallTool("add", {"a": 1, "b": "x"}), CallTool("now")),
    Answer(Decline("No.")),
    Answer(Say("Hello there, friend")),
]
TOOL = {"name": "add", "input_schema": {"type": "object", "properties": {}}}


def events(stream: Any, answer: Answer, model: str) -> list[Any]:
    found = []
    for event in stream(answer, Received("", {}, {"model": model, "stream_options": {"include_usage": True}})):
        text = event.decode().partition("data: ")[2].strip()
        if text != "[DONE]":
            found.append(json.loads(text))
    return found


@pytest.mark.parametrize("answer", ANSWERS)
def test_events_are_those_of_the_sdks(answer: Answer) -> None:
    from anthropic.types import RawMessageStreamEvent
    from openai.types.chat import ChatCompletionChunk
    from openai.types.responses import ResponseStreamEvent

    for stream, model, kind in (
        (anthropic_format.stream, "claude-sonnet-5-5", RawMessageStreamEvent),
        (openai_responses.stream, "gpt-6.2-sol", ResponseStreamEvent),
        (openai_chat.stream, "qwen3:8b", ChatCompletionChunk),
    ):
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        for event in events(stream, answer, model):
            if event["type" if "type" in event else "object"] != "ping":  # the SDK drops it before its types
                adapter.validate_python(event)


async def ask_anthropic(endpoint: Endpoint, messages: list[Any], **options: Any) -> Any:
    from anthropic import AsyncAnthropic

    async with AsyncAnthropic(base_url=endpoint.url, api_key=KEY, max_retries=0) as client:
        model = options.pop("model", "claude-sonnet-5-5")
        async with client.messages.stream(model=model, max_tokens=100, messages=messages, **options) as stream:
            return await stream.get_final_message()


async def test_anthropic_answers_from_the_script() -> None:
    with anthropic_endpoint(ANSWERS) as endpoint:
        message = await ask_anthropic(endpoint, [{"role": "user", "content": "Hi"}])
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert message.content[2].input == {"a": 1, "b": "x"}
    assert message.content[3].input == {}
    assert endpoint.bodies[0]["model"] == "claude-sonnet-5-5"


USER = {"role": "user", "content": "Hi"}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "2"}]}
STRANGE = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_2", "content": "2"}]}


@pytest.mark.parametrize(
    ("messages", "options", "reason"),
    [
        ([], {}, "first message"),
        ([USE, RESULT], {}, "first message"),
        ([USER, USE], {}, "prefill"),
        ([USER, USE, USER], {}, "without `tool_result`"),
        ([USER, USE, STRANGE], {}, "without `tool_result`"),
        ([USER, STRANGE], {}, "unexpected `tool_use_id`"),
        ([USER], {"tools": [{**TOOL, "name": "a.b"}]}, "should match"),
        ([USER], {"tools": [TOOL, TOOL]}, "unique"),
        ([USER], {"tools": [{**TOOL, "input_schema": {"type": "string"}}]}, "type"),
        ([USER], {"tools": [{**TOOL, "other": 1}]}, "Extra inputs"),
        ([{"role": "user", "content": [{"type": "text", "text": " "}]}], {}, "non-whitespace"),
        ([USER], {"tools": [TOOL], "tool_choice": {"type": "any"}}, "forces tool use"),
        ([USER], {"extra_body": {"temperature": 0.5}}, "temperature"),
    ],
)
async def test_anthropic_refuses_what_the_api_refuses(
    messages: list[Any], options: dict[str, Any], reason: str
) -> None:
    from anthropic import BadRequestError

    with anthropic_endpoint([Answer(Say("Hi"))]) as endpoint:
        with pytest.raises(BadRequestError, match=reason):
            await ask_anthropic(endpoint, messages, **options)
        assert reason in endpoint.refusals[0]


CALL = {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "2"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([USER, CALL], "No tool output found"),
        ([USER, OUTPUT], "No tool call found"),
        ([USER, REASONING, CALL, OUTPUT], "not persisted"),
        ([{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}], "image"),
        ([{**USER, "extra": 1}], "Extra inputs"),
    ],
)
async def test_the_responses_api_refuses_what_openai_refuses(items: list[Any], reason: str) -> None:
    from openai import AsyncOpenAI, BadRequestError

    with openai_endpoint([Answer(Say("Hi"))]) as endpoint:
        async with AsyncOpenAI(base_url=endpoint.url, api_key=KEY, max_retries=0) as client:
            with pytest.raises(BadRequestError, match=reason):
                await client.responses.create(model="gpt-6.2-sol", input=items, stream=True)
            stream = await client.responses.create(model="gpt-6.2-sol", input="Hi", stream=True)
            kinds = [event.type async for event in stream]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([{"role": "tool", "tool_call_id": "1", "content": "2"}], "must be a response"),
        (
            [
                USER,
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
                },
            ],
            "must be followed",
        ),
        ([USER, {"role": "system", "content": "x"}], "beginning"),
    ],
)
async def test_chat_completions_refuse_what_openai_refuses(messages: list[Any], reason: str) -> None:
    from openai import AsyncOpenAI, BadRequestError

    with openai_endpoint([Answer(Say("Hi"))]) as endpoint:
        async with AsyncOpenAI(base_url=endpoint.url, api_key=KEY, max_retries=0) as client:
            with pytest.raises(BadRequestError, match=reason):
                await client.chat.completions.create(model="qwen3:8b", messages=messages, stream=True)


ASK = {"role": "user", "parts": [{"text": "Hi"}]}
UNSIGNED = {"role": "model", "parts": [{"functionCall": {"id": "1", "name": "add", "args": {}}}]}
SIGNED = {"role": "model", "parts": [{**UNSIGNED["parts"][0], "thoughtSignature": "c2lnbmVk"}]}  # type: ignore[dict-item]
RESPONSE = {"role": "user", "parts": [{"functionResponse": {"id": "1", "name": "add", "response": {"output": 2}}}]}


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ([ASK, SIGNED, ASK], "number of function response parts"),
        ([ASK, RESPONSE], "end with a user|do not match|number"),
        ([ASK, UNSIGNED, RESPONSE], "thought_signature"),
        ([ASK, SIGNED], "end with a user role"),
        ([{"role": "user", "parts": [{"text": ""}]}], "not empty"),
    ],
)
async def test_gemini_refuses_what_the_api_refuses(contents: list[Any], reason: str) -> None:
    from google import genai
    from google.genai import errors, types

    with gemini_endpoint([Answer(Say("Hello there"))]) as endpoint:
        session = aiohttp.ClientSession()
        options = types.HttpOptions(base_url=endpoint.url, aiohttp_client=session)
        client = genai.Client(api_key=KEY, http_options=options).aio
        with pytest.raises(errors.ClientError, match=reason):
            async for _ in await client.models.generate_content_stream(model="gemini-3.8-flash", contents=contents):
                pass
        text = ""
        stream = await client.models.generate_content_stream(model="gemini-3.8-flash", contents=[ASK, SIGNED, RESPONSE])
        async for chunk in stream:
            text += chunk.text or ""
        await client.aclose()
        await session.close()
    assert text == "Hello there"
