"""Models behind Chat Completions, and what servers that are compatible with them do in their own way."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from carrel.chat.model import Usage
from carrel.wire.client_features import SamplingMessage
from carrel.wire.content import AudioContent
from chat.endpoints import KEY, Answer, Endpoint, Say, Speak, openai_endpoint
from chat.endpoints.party import Vendor, serving
from chat.exchange import ADD, NOW, ask, opened, user

pytestmark = pytest.mark.slow


@contextmanager
def writing(*chunks: Any) -> Iterator[Endpoint]:
    """Serve Chat Completions whose stream is exactly these chunks."""

    def stream(_answer: Any, _received: Any) -> Iterator[bytes]:
        for chunk in chunks:
            yield f"data: {json.dumps(chunk)}\n\n".encode()
        yield b"data: [DONE]\n\n"

    def error(_failure: Any) -> tuple[Any, dict[str, str]]:
        return {}, {}

    vendor = Vendor({"/v1/chat/completions": (lambda _received: None, stream)}, error, {})
    with serving(vendor, [Answer()], "/v1", {}) as endpoint:
        yield endpoint


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


async def test_whole_calls_without_numbers_and_ids_are_told_apart() -> None:
    one = {"function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}, "id": ""}
    two = {"function": {"name": "now", "arguments": ""}, "id": ""}
    with writing(chunk(tool_calls=[{"index": 0, **one}, {"index": 1, **two}]), chunk("stop")) as endpoint:
        async with opened(endpoint, f"{endpoint.url}#m") as model:
            exchange = await ask(model, "Add", tools=[ADD, NOW])
    assert [(use.name, use.input) for use in exchange.uses] == [("add", {"a": 1, "b": 2}), ("now", {})]
    assert len({use.id for use in exchange.uses}) == 2
    assert all(use.id for use in exchange.uses)
    assert exchange.completion.stop_reason == "toolUse"  # Ollama says "stop"


async def test_whole_calls_that_all_have_the_number_zero_are_told_apart() -> None:
    calls = [{"index": 0, "id": f"call_{number}", "function": {"name": "now", "arguments": "{}"}} for number in (1, 2)]
    with writing(chunk(tool_calls=calls[:1]), chunk(tool_calls=calls[1:]), chunk("tool_calls")) as endpoint:
        async with opened(endpoint, f"{endpoint.url}#m") as model:
            exchange = await ask(model, "When?", tools=[NOW])
    assert [use.id for use in exchange.uses] == ["call_1", "call_2"]


@pytest.mark.parametrize("member", ["reasoning_content", "reasoning"])
async def test_reasoning_is_found_under_both_of_its_names(member: str) -> None:
    with writing(chunk(**{member: "Hm."}), chunk(content="Hi"), chunk("stop")) as endpoint:
        async with opened(endpoint, f"{endpoint.url}#m") as model:
            exchange = await ask(model, "Hi")
    assert (exchange.thinking, exchange.text) == ("Hm.", "Hi")


async def test_a_server_that_counts_nothing_has_no_usage() -> None:
    with writing(chunk(content="Hi"), chunk("stop"), {"choices": [], "model": "m"}) as endpoint:
        async with opened(endpoint, f"{endpoint.url}#m") as model:
            assert (await ask(model, "Hi")).completion.usage == Usage()


async def test_a_plain_question_is_sent_as_a_plain_text() -> None:
    with openai_endpoint([Answer(Say("Hi"))]) as endpoint:
        async with opened(endpoint, f"{endpoint.url}#qwen3:8b") as model:
            assert model.name == f"{endpoint.url}#qwen3:8b"
            await ask(model, "Hi", stop_sequences=["a", "b", "c", "d", "e"], temperature=0.1)
        body = endpoint.bodies[0]
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert body["stop"] == ["a", "b", "c", "d"]
    assert body["temperature"] == 0.1


async def test_no_key_of_openai_is_sent_to_a_url() -> None:
    with openai_endpoint([Answer(Say("Hi"))]) as endpoint:
        endpoint.environment["OPENAI_API_KEY"] = "sk-of-openai"
        async with opened(endpoint, f"{endpoint.url}#qwen3:8b") as model:
            await ask(model, "Hi")
        assert endpoint.requests[0].headers["authorization"] == "Bearer not-needed"


async def test_the_key_for_a_url_has_a_variable_of_its_own() -> None:
    with openai_endpoint([Answer(Say("Hi"))]) as endpoint:
        endpoint.environment["CARREL_MODEL_KEY"] = KEY
        async with opened(endpoint, f"{endpoint.url}#qwen3:8b") as model:
            await ask(model, "Hi")
        assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_audio_comes_out_as_a_wav_file_with_its_text() -> None:
    samples = bytes(range(250)) * 8
    with openai_endpoint([Answer(Say("Hello"), Speak(samples)), Answer(Say("Yes"))]) as endpoint:
        async with opened(endpoint, "openai:gpt-audio") as model:
            assert model.name == "openai:gpt-audio"
            exchange = await ask(model, "Speak")
            audio = exchange.completion.content[-1]
            assert isinstance(audio, AudioContent)
            await ask(model, [user("Speak"), exchange.message, user("Again", audio)])
        assert endpoint.bodies[0]["modalities"] == ["text", "audio"]
        assert endpoint.bodies[1]["messages"][2]["content"][1]["type"] == "input_audio"
    assert exchange.text == "Hello"
    with wave.open(io.BytesIO(audio.data)) as file:
        assert (file.getframerate(), file.getnchannels(), file.readframes(10_000)) == (24_000, 1, samples)


async def test_an_answer_of_nothing_is_left_out_of_the_conversation() -> None:
    with openai_endpoint([Answer(Say("Hi"))]) as endpoint:
        async with opened(endpoint, f"{endpoint.url}#qwen3:8b") as model:
            await ask(model, [user("Hi"), SamplingMessage(role="assistant", content=[]), user("Hello?")])
    assert endpoint.refusals == []
