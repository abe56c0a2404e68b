"""Models of OpenAI: reasoning that goes back encrypted, stop sequences, images, failures of the Responses API."""

from __future__ import annotations

import pytest

from carrel.errors import ConfigError, HTTPStatusError
from carrel.wire.content import ImageContent
from chat.endpoints import Answer, CallTool, Draw, FailInStream, Failure, Say, Think, openai_endpoint
from chat.exchange import NOW, ask, opened, png, results, user

pytestmark = pytest.mark.slow


async def test_reasoning_goes_back_encrypted_and_nothing_is_stored() -> None:
    script = [Answer(Think("Hm."), Say("Wait."), CallTool("now")), Answer(Say("Noon."))]
    with openai_endpoint(script) as endpoint:
        async with opened(endpoint) as model:
            first = await ask(model, "When?", tools=[NOW])
            await ask(model, [user("When?"), first.message, results(first, "noon")], tools=[NOW])
        one, two = endpoint.bodies
    assert one["store"] is False
    assert one["include"] == ["reasoning.encrypted_content"]
    kinds = [item.get("type", item.get("role")) for item in two["input"]]
    assert kinds == ["user", "reasoning", "assistant", "function_call", "function_call_output"]
    assert endpoint.refusals == []


async def test_summaries_are_left_out_for_organizations_that_may_not_have_them() -> None:
    def answer(body: dict[str, object]) -> Answer | Failure:
        if "reasoning" in body:
            return Failure(400, "Your organization must be verified to generate reasoning summaries.")
        return Answer(Say("Hi"))

    with openai_endpoint(answer) as endpoint:
        async with opened(endpoint) as model:
            assert (await ask(model, "Hi")).text == "Hi"
            assert (await ask(model, "Hi")).text == "Hi"
        assert ["reasoning" in body for body in endpoint.bodies] == [True, False, False]


async def test_stop_sequences_are_cut_and_end_the_request() -> None:
    with openai_endpoint([Answer(Say("1, 2, END 3, 4"), Say("never"))]) as endpoint:
        async with opened(endpoint) as model:
            exchange = await ask(model, "Count", stop_sequences=["END"])
    assert exchange.text == "1, 2, "
    assert exchange.completion.stop_reason == "stopSequence"


async def test_the_beginning_of_a_stop_sequence_that_does_not_come_is_text() -> None:
    with openai_endpoint([Answer(Say("The EN"))]) as endpoint:
        async with opened(endpoint) as model:
            exchange = await ask(model, "Say", stop_sequences=["END"])
    assert exchange.text == "The EN"
    assert exchange.completion.stop_reason == "endTurn"


async def test_images_come_out() -> None:
    with openai_endpoint([Answer(Draw(png()), Say("A red square."))]) as endpoint:
        async with opened(endpoint) as model:
            exchange = await ask(model, "Draw")
    image, _ = exchange.completion.content
    assert isinstance(image, ImageContent)
    assert (image.data, image.mime_type) == (png(), "image/png")


@pytest.mark.parametrize(
    ("code", "status"), [("rate_limit_exceeded", 429), ("server_error", 500), ("invalid_image", 400)]
)
async def test_a_response_that_fails_is_an_error_with_its_status(code: str, status: int) -> None:
    with openai_endpoint([Answer(FailInStream(code, "It failed"))]) as endpoint:
        async with opened(endpoint) as model:
            with pytest.raises(HTTPStatusError, match="It failed") as caught:
                await ask(model, "Hi")
    assert caught.value.status == status


async def test_an_account_without_credit_is_not_asked_to_wait() -> None:
    with openai_endpoint([Failure(429, "You exceeded your current quota", "insufficient_quota")]) as endpoint:
        async with opened(endpoint) as model:
            with pytest.raises(ConfigError, match="OpenAI: You exceeded your current quota"):
                await ask(model, "Hi")


async def test_a_filter_that_stops_an_answer_says_so() -> None:
    with openai_endpoint([Answer(Say("Well"), stop="content_filter")]) as endpoint:
        async with opened(endpoint) as model:
            exchange = await ask(model, "Hi")
    assert exchange.completion.stop_reason == "refusal"
    assert exchange.text == "Well[OpenAI's content filter stopped the answer.]"


async def test_the_limit_of_tokens_is_at_least_what_openai_takes() -> None:
    with openai_endpoint([Answer(Say("Hi"))]) as endpoint:
        async with opened(endpoint) as model:
            await ask(model, "Hi", max_tokens=1, temperature=0.2)
        assert endpoint.bodies[0]["max_output_tokens"] == 16
        assert "temperature" not in endpoint.bodies[0]
