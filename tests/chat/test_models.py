"""What models of all vendors do alike, through the vendors' SDKs against endpoints that speak their wire formats."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import pytest

from carrel.chat.arguments import argument_error
from carrel.chat.model import ModelRequest, TextDelta, Usage
from carrel.errors import ConfigError, HTTPStatusError, TransportError
from carrel.wire.client_features import ToolChoice, ToolResultContent
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, TextContent
from carrel.wire.resources import BlobResourceContents, TextResourceContents
from chat.endpoints import (
    Answer,
    Break,
    CallTool,
    Decline,
    Endpoint,
    FailInStream,
    Failure,
    Hold,
    Say,
    Script,
    Think,
    Tokens,
    anthropic_endpoint,
    gemini_endpoint,
    openai_endpoint,
)
from chat.exchange import ADD, NOW, PDF, ask, left, opened, png, results, user

pytestmark = pytest.mark.slow


class Party(NamedTuple):
    """Vendor: its endpoint, and a model there."""

    endpoint: Callable[[Script], AbstractContextManager[Endpoint]]
    model: str
    overload: Failure


PARTIES = {
    "anthropic": Party(anthropic_endpoint, "anthropic:claude-sonnet-5-5", Failure(529, "Overloaded", retry_after=7)),
    "responses": Party(openai_endpoint, "openai:gpt-6.2-sol", Failure(429, "Rate limit reached", retry_after=7)),
    "compatible": Party(openai_endpoint, "{url}#qwen3:8b", Failure(503, "Loading model", retry_after=7)),
    "gemini": Party(gemini_endpoint, "gemini:gemini-3.8-flash", Failure(503, "Model is overloaded", retry_after=7)),
}


@pytest.fixture(params=list(PARTIES))
def party(request: pytest.FixtureRequest) -> Party:
    return PARTIES[request.param]


def name_of(party: Party, endpoint: Endpoint) -> str:
    return party.model.format(url=endpoint.url)


async def test_text_and_thinking_arrive_in_pieces(party: Party) -> None:
    answer = Answer(Think("First I look."), Say("Hello, how are you?"), tokens=Tokens(100, 20, cached=80))
    with party.endpoint([answer]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            pieces = [
                event.text
                async for event in model.stream(ModelRequest(messages=[user("Hi")], system_prompt="Be kind."))
                if isinstance(event, TextDelta)
            ]
            assert len(pieces) > 1
        assert "Be kind." in str(endpoint.bodies[0])
    with party.endpoint([answer]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            exchange = await ask(model, "Hi")
    assert exchange.text == "Hello, how are you?"
    assert exchange.thinking == "First I look."
    assert exchange.completion.stop_reason == "endTurn"
    assert exchange.completion.usage == Usage(input_tokens=100, output_tokens=20, cached_tokens=80)


async def test_tools_are_used_in_parallel_and_their_results_go_back(party: Party) -> None:
    script = [
        Answer(Think("Both."), Say("Let me see."), CallTool("add", {"a": 1, "b": 2}), CallTool("now")),
        Answer(CallTool("add", {"a": 3, "b": 4})),
        Answer(Say("7, at noon.")),
    ]
    with party.endpoint(script) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            messages = [user("Add, and tell the time")]
            first = await ask(model, messages, tools=[ADD, NOW])
            assert first.completion.stop_reason == "toolUse"
            assert [(use.name, use.input) for use in first.uses] == [("add", {"a": 1, "b": 2}), ("now", {})]
            messages += [first.message, results(first, "3", "noon")]
            second = await ask(model, messages, tools=[ADD, NOW])
            messages += [second.message, results(second, "7")]
            third = await ask(model, messages, tools=[ADD, NOW])
        assert third.text == "7, at noon."
        assert endpoint.refusals == []


async def test_a_conversation_goes_on_with_the_model_of_another_vendor() -> None:
    script = [Answer(Think("Hm."), Say("Wait."), CallTool("now"), CallTool("add", {"a": 1, "b": 1}))]
    conversations = []
    for party in PARTIES.values():
        with party.endpoint(script) as endpoint:
            async with opened(endpoint, name_of(party, endpoint)) as model:
                first = await ask(model, "When?", tools=[NOW, ADD])
        conversations.append([user("When?"), first.message, results(first, "noon", "2")])
    for party in PARTIES.values():
        with party.endpoint([Answer(Say("Noon."))] * len(conversations)) as endpoint:
            async with opened(endpoint, name_of(party, endpoint)) as model:
                for messages in conversations:
                    assert (await ask(model, messages, tools=[NOW, ADD])).text == "Noon."
            assert endpoint.refusals == []


@pytest.mark.parametrize("party", ["anthropic", "responses", "compatible"], indirect=True)  # Gemini: test_gemini.py
async def test_broken_arguments_become_a_tool_error_that_the_model_reads(party: Party) -> None:
    script = [Answer(CallTool("add", '{"a": 1, "b'), CallTool("add", "[1, 2]")), Answer(Say("Sorry."))]
    with party.endpoint(script) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            first = await ask(model, "Add", tools=[ADD])
            errors = [argument_error(use) for use in first.uses]
            assert all(error is not None and error.is_error for error in errors)
            answer = user(*(error for error in errors if error is not None))
            second = await ask(model, [user("Add"), first.message, answer], tools=[ADD])
        assert second.text == "Sorry."
        assert "not valid JSON" in str(endpoint.bodies[1])
        assert "not an object" in str(endpoint.bodies[1])


async def test_fine_arguments_are_not_refused(party: Party) -> None:
    with party.endpoint([Answer(CallTool("now"))]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            exchange = await ask(model, "When?", tools=[NOW])
    assert argument_error(exchange.uses[0]) is None


async def test_results_of_tools_have_images_documents_and_errors(party: Party) -> None:
    script = [Answer(CallTool("now"), CallTool("now"), CallTool("now")), Answer(Say("A red square."))]
    rich = [
        TextContent(text="See:"),
        ImageContent(data=png(), mime_type="image/png"),
        EmbeddedResource(resource=BlobResourceContents(uri="file:///a.pdf", blob=PDF, mime_type="application/pdf")),
        EmbeddedResource(resource=TextResourceContents(uri="file:///a.txt", text="A text.", mime_type="text/plain")),
        ImageContent(data=b"II*\0", mime_type="image/tiff"),
    ]
    with party.endpoint(script) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            first = await ask(model, "Show", tools=[NOW])
            one, two, three = first.uses
            answer = user(
                ToolResultContent(tool_use_id=one.id, content=list(rich)),
                ToolResultContent(tool_use_id=two.id, content=[TextContent(text="no such file")], is_error=True),
                ToolResultContent(tool_use_id=three.id, content=[]),
            )
            second = await ask(model, [user("Show"), first.message, answer], tools=[NOW])
        assert second.text == "A red square."
        sent = str(endpoint.bodies[1])
    assert endpoint.refusals == []
    for expected in ("A text.", "no such file", "image/png", "application/pdf", "image/tiff"):
        assert expected in sent


async def test_images_audio_and_documents_go_in(party: Party) -> None:
    with party.endpoint([Answer(Say("Red."))]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            message = user(
                "What is this?",
                ImageContent(data=png(), mime_type="image/png"),
                AudioContent(data=b"RIFF0000WAVE", mime_type="audio/wav"),
            )
            assert (await ask(model, [message])).text == "Red."
        assert "audio/wav" in str(endpoint.bodies[0]) or "input_audio" in str(endpoint.bodies[0])
    assert endpoint.refusals == []


@pytest.mark.parametrize("mode", ["auto", "required", "none"])
async def test_the_choice_of_tools_is_passed_on(party: Party, mode: str) -> None:
    with party.endpoint([Answer(Say("Well."))]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            await ask(model, "Add", tools=[ADD], tool_choice=ToolChoice(mode=mode), temperature=0.5)  # type: ignore[arg-type]
        sent = str(endpoint.bodies[0])
    wanted = {"required": ("required", "any", "ANY"), "none": ("none", "NONE"), "auto": ("add",)}[mode]
    assert any(f"'{word}'" in sent for word in wanted)


async def test_a_refusal_is_a_message(party: Party) -> None:
    with party.endpoint([Answer(Decline("That is not allowed"))]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            exchange = await ask(model, "Do it")
    assert exchange.completion.stop_reason == "refusal"
    assert "That is not allowed" in exchange.text


async def test_an_answer_that_is_cut_off_says_so(party: Party) -> None:
    stops = {
        "anthropic": "max_tokens",
        "responses": "max_output_tokens",
        "compatible": "length",
        "gemini": "MAX_TOKENS",
    }
    stop = next(stops[name] for name, each in PARTIES.items() if each is party)
    with party.endpoint([Answer(Say("Once upon"), stop=stop)]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            exchange = await ask(model, "Tell", max_tokens=20)
        assert "20" in str(endpoint.bodies[0])
    assert exchange.completion.stop_reason == "maxTokens"
    assert exchange.text == "Once upon"


async def test_overload_is_a_transport_error_with_the_time_to_wait(party: Party) -> None:
    with party.endpoint([party.overload]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            with pytest.raises(HTTPStatusError, match="try again in 7 s") as caught:
                await ask(model, "Hi")
    assert caught.value.status == party.overload.status
    assert caught.value.retry_after == 7
    assert party.overload.message in str(caught.value)


async def test_an_error_within_the_stream_is_a_transport_error(party: Party) -> None:
    with party.endpoint([Answer(Say("Well, "), FailInStream())]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            with pytest.raises(HTTPStatusError, match="overloaded"):
                await ask(model, "Hi")


async def test_a_broken_connection_is_a_transport_error(party: Party) -> None:
    with party.endpoint([Answer(Say("Well, "), Break())]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            with pytest.raises(TransportError, match="broke during the answer"):
                await ask(model, "Hi")


async def test_an_address_without_a_server_is_a_transport_error(party: Party) -> None:
    with party.endpoint([]) as endpoint:
        pass
    async with opened(endpoint, name_of(party, endpoint)) as model:
        with pytest.raises(TransportError, match="cannot be reached at http://127") as caught:
            await ask(model, "Hi")
    assert not caught.value.delivered


async def test_a_refused_key_is_named(party: Party) -> None:
    with party.endpoint([]) as endpoint:
        for variable in endpoint.environment:
            if variable.endswith("_KEY"):
                endpoint.environment[variable] = "sk-wrong"
        endpoint.environment["CARREL_MODEL_KEY"] = "sk-wrong"
        async with opened(endpoint, name_of(party, endpoint)) as model:
            with pytest.raises(ConfigError, match=r"refuses the key of \w+_KEY"):
                await ask(model, "Hi")


async def test_an_unknown_model_comes_with_near_names(party: Party) -> None:
    with party.endpoint([]) as endpoint:
        name = name_of(party, endpoint)
        async with opened(endpoint, name[:-1]) as model:
            with pytest.raises(ConfigError, match="has no model") as caught:
                await ask(model, "Hi")
    model_name = name.partition("#" if "#" in name else ":")[2]
    assert f"has no model {model_name[:-1]!r}; the nearest are {model_name}" in str(caught.value)


async def test_cancelling_closes_the_connection_at_once(party: Party) -> None:
    with party.endpoint([Answer(Say("Wait"), Hold())]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            task = asyncio.create_task(ask(model, "Hi"))
            assert await asyncio.to_thread(endpoint.holding.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await left(endpoint)


async def test_closing_the_iterator_closes_the_connection_at_once(party: Party) -> None:
    with party.endpoint([Answer(Say("Wait"), Hold())]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            async with contextlib.aclosing(model.stream(ModelRequest(messages=[user("Hi")]))) as events:  # type: ignore[type-var]
                async for _ in events:
                    break
            assert await left(endpoint)


async def test_the_sdk_tries_again_on_its_own(party: Party) -> None:
    failure = Failure(503, retry_after=0.01)
    with party.endpoint([failure, Answer(Say("Hello."))]) as endpoint:
        async with opened(endpoint, name_of(party, endpoint), retries=1) as model:
            assert (await ask(model, "Hi")).text == "Hello."
        assert len(endpoint.requests) == 2


async def test_many_answers_at_once_do_not_mix(party: Party) -> None:
    def answer(body: dict[str, object]) -> Answer:
        text = str(body)
        number = next(word for word in ("one", "two", "three") if word in text)
        return Answer(Say(f"You said {number}."))

    with party.endpoint(answer) as endpoint:
        async with opened(endpoint, name_of(party, endpoint)) as model:
            found = await asyncio.gather(*(ask(model, word) for word in ("one", "two", "three")))
    assert [exchange.text for exchange in found] == ["You said one.", "You said two.", "You said three."]
