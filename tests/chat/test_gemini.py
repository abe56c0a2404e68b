"""Models of Google: signatures of thoughts, function calls that cannot be read, media both ways, blocked requests."""

from __future__ import annotations

import pytest

from carrel.errors import TransportError
from carrel.wire.client_features import SamplingMessage, ToolResultContent, ToolUseContent
from carrel.wire.content import AudioContent, ImageContent
from chat.endpoints import Answer, CallTool, Decline, Draw, Say, Speak, Think, gemini_endpoint
from chat.exchange import ADD, NOW, ask, opened, png, results, user

pytestmark = pytest.mark.slow


async def test_signatures_go_back_with_their_parts() -> None:
    script = [Answer(Think("Hm."), CallTool("now"), CallTool("now")), Answer(Say("Noon."))]
    with gemini_endpoint(script) as endpoint:
        async with opened(endpoint) as model:
            first = await ask(model, "When?", tools=[NOW])
            await ask(model, [user("When?"), first.message, results(first, "noon", "noon")], tools=[NOW])
        parts = endpoint.bodies[1]["contents"][1]["parts"]
    assert ["thoughtSignature" in part for part in parts] == [True, False]
    assert endpoint.refusals == []


async def test_calls_without_an_id_get_one_that_is_not_sent_back() -> None:
    use = ToolUseContent(id="#1", name="now", input={})
    message = SamplingMessage(role="assistant", content=use)
    with gemini_endpoint([Answer(Say("Noon."))]) as endpoint:
        async with opened(endpoint) as model:
            await ask(model, [user("When?"), message, user(ToolResultContent(tool_use_id="#1", content=[]))])
        parts = [part for content in endpoint.bodies[0]["contents"] for part in content["parts"]]
    assert "id" not in parts[1]["functionCall"]
    assert "id" not in parts[2]["functionResponse"]


async def test_a_function_call_that_gemini_could_not_write_is_asked_for_again() -> None:
    broken = Answer(stop="MALFORMED_FUNCTION_CALL")
    with gemini_endpoint([broken, broken, Answer(CallTool("add", {"a": 1, "b": 2}))]) as endpoint:
        async with opened(endpoint) as model:
            exchange = await ask(model, "Add", tools=[ADD])
    assert exchange.uses[0].input == {"a": 1, "b": 2}


async def test_function_calls_that_gemini_never_can_write_are_an_error() -> None:
    with gemini_endpoint([Answer(stop="MALFORMED_FUNCTION_CALL")] * 3) as endpoint:
        async with opened(endpoint) as model:
            with pytest.raises(TransportError, match="malformed function call"):
                await ask(model, "Add", tools=[ADD])


async def test_images_and_audio_come_out_and_go_back() -> None:
    spoken = Speak(b"\1\0" * 50, "audio/L16;codec=pcm;rate=16000")
    with gemini_endpoint([Answer(Say("Here:"), Draw(png()), spoken), Answer(Say("Yes"))]) as endpoint:
        async with opened(endpoint) as model:
            exchange = await ask(model, "Draw and speak")
            await ask(model, [user("Draw and speak"), exchange.message, user("Nice?")])
        sent = endpoint.bodies[1]["contents"][1]["parts"]
    _, image, audio = exchange.completion.content
    assert isinstance(image, ImageContent)
    assert image.data == png()
    assert isinstance(audio, AudioContent)
    assert (audio.mime_type, audio.data[:4]) == ("audio/wav", b"RIFF")
    assert int.from_bytes(audio.data[24:28], "little") == 16_000
    assert [part["inlineData"]["mime_type"] for part in sent[1:]] == ["image/png", "audio/wav"]  # the SDK's spelling
    assert endpoint.refusals == []


async def test_an_answer_that_a_filter_stops_keeps_its_text() -> None:
    with gemini_endpoint([Answer(Say("Well. "), Decline("It is dangerous"))]) as endpoint:
        async with opened(endpoint) as model:
            exchange = await ask(model, "Hi")
    assert exchange.completion.stop_reason == "refusal"
    assert exchange.text == "Well. [Gemini stopped the answer (safety).]"  # the SDK drops the message


@pytest.mark.parametrize(("reason", "words"), [("SPII", "spii"), ("PROHIBITED_CONTENT", "prohibited content")])
async def test_each_reason_to_stop_is_named(reason: str, words: str) -> None:
    with gemini_endpoint([Answer(Say("So: "), stop=reason)]) as endpoint:
        async with opened(endpoint) as model:
            assert f"({words})" in (await ask(model, "Hi")).text
