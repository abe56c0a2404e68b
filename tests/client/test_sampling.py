"""Models that servers ask: what is declared, what reaches the model, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.client.handlers import Handlers, Sampling
from carrel.errors import PeerError
from carrel.wire.client_features import CreateMessageParams, CreateMessageResult, ToolUseContent
from carrel.wire.content import TextContent
from support.asked_client import capabilities, response_to
from support.scripted_server import Partner, connected
from support.server_connection import ALL, HANDSHAKES, LATEST, NOVEMBER

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


TEXT = {"type": "text", "text": "?"}
PARAMS: dict[str, Any] = {"messages": [{"role": "user", "content": TEXT}], "maxTokens": 7}
TOOLS = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}], "toolChoice": {"mode": "required"}}
USE = {"type": "tool_use", "id": "1", "name": "t", "input": {}}
RESULT = {"type": "tool_result", "toolUseId": "1", "content": [TEXT]}


async def say(params: Sampling) -> str:
    return "Paris"


async def sampled(revision: str, params: dict[str, Any], **options: Any) -> Any:
    """Ask a client's model; return the result or error with which the client responds."""
    return await response_to("sampling/createMessage", revision, params, **options)


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    ("options", "declared"),
    [({}, None), ({"sample": say}, {}), ({"sample": say, "sample_tools": True}, {"tools": {}})],
)
async def test_a_model_and_its_use_of_tools_are_declared(revision: str, options: Any, declared: Any) -> None:
    partner = Partner(revision)
    async with connected(partner, revision=revision, handlers=Handlers(**options)) as client:
        await client.call_tool("t")
    if declared and revision < NOVEMBER:
        declared = {}
    assert capabilities(partner).get("sampling") == declared


@pytest.mark.parametrize("revision", ALL)
async def test_the_model_is_given_all_that_was_asked_with_its_token_limit(revision: str) -> None:
    seen: list[Sampling] = []

    async def look(params: Sampling) -> CreateMessageResult:
        seen.append(params)
        return CreateMessageResult(role="assistant", model="m-1", content=TextContent("Par"), stop_reason="maxTokens")

    hints = {"hints": [{"name": name} for name in ("small", "any", "large")], "costPriority": 1}
    wanted = {**PARAMS, "systemPrompt": "Be brief.", "modelPreferences": hints, "temperature": 0.5}
    result = await sampled(revision, wanted, handlers=Handlers(sample=look))
    assert result == {
        "role": "assistant",
        "content": {"type": "text", "text": "Par"},
        "model": "m-1",
        "stopReason": "maxTokens",
    }
    (params,) = seen
    assert (params.max_tokens, params.system_prompt, params.temperature) == (7, "Be brief.", 0.5)
    assert params.messages[0].content == TextContent("?")
    assert [hint.name for hint in params.model_preferences.hints] == ["small", "any", "large"]  # type: ignore[union-attr]


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_model_that_may_use_tools_is_given_them(revision: str) -> None:
    async def use(params: Sampling) -> CreateMessageResult:
        assert params.tools
        return CreateMessageResult(
            role="assistant", model="m", content=[ToolUseContent("1", "t", {})], stop_reason="toolUse"
        )

    result = await sampled(revision, {**PARAMS, **TOOLS}, handlers=Handlers(sample=use, sample_tools=True))
    assert result["content"] == [USE]
    balanced = [
        *PARAMS["messages"],
        {"role": "assistant", "content": [USE]},
        {"role": "user", "content": [RESULT]},
    ]
    assert (await sampled(revision, {**PARAMS, "messages": balanced}, handlers=Handlers(sample=say)))[
        "model"
    ] == "unknown"


@pytest.mark.parametrize("tools", [TOOLS, {"tools": []}, {"toolChoice": {}}])
async def test_tools_for_a_model_that_has_none_are_an_error(tools: dict[str, Any]) -> None:
    assert (await sampled(NOVEMBER, {**PARAMS, **tools}, handlers=Handlers(sample=say)))["code"] == -32602


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": [RESULT, TEXT]}],
        [{"role": "user", "content": RESULT}],
        [{"role": "assistant", "content": USE}],
        [{"role": "assistant", "content": USE}, {"role": "user", "content": TEXT}],
        [{"role": "assistant", "content": [USE, {**USE, "id": "2"}]}, {"role": "user", "content": [RESULT]}],
        [{"role": "assistant", "content": [USE]}, {"role": "user", "content": [{**RESULT, "toolUseId": "3"}]}],
    ],
)
async def test_uses_of_tools_without_their_results_are_refused(messages: list[Any]) -> None:
    params = {**PARAMS, "messages": messages}
    assert (await sampled(NOVEMBER, params, handlers=Handlers(sample=say, sample_tools=True)))["code"] == -32602


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_without_a_model_there_is_no_sampling(revision: str) -> None:
    assert (await sampled(revision, PARAMS))["code"] == -32601


async def test_the_words_of_a_refusal_are_those_of_the_user_and_a_failure_says_nothing() -> None:
    async def refuse(_: CreateMessageParams) -> str:
        raise PeerError(-1, "User rejected sampling request")

    async def fail(_: CreateMessageParams) -> str:
        raise RuntimeError("the key sk-123 is wrong")

    assert await sampled(NOVEMBER, PARAMS, handlers=Handlers(sample=refuse)) == {
        "code": -1,
        "message": "User rejected sampling request",
    }
    assert await sampled(NOVEMBER, PARAMS, handlers=Handlers(sample=fail)) == {
        "code": -32603,
        "message": "Internal error",
    }
