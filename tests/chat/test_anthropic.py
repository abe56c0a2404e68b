"""Models of Anthropic: caching, thinking of older and newer models, documents, ids of other vendors."""

from __future__ import annotations

import pytest

from carrel.chat.model import Usage
from carrel.errors import HTTPStatusError
from carrel.wire.client_features import SamplingMessage, ToolChoice, ToolResultContent, ToolUseContent
from carrel.wire.content import AudioContent, ImageContent, TextContent
from carrel.wire.tools import Tool
from chat.endpoints import Answer, CallTool, Decline, Failure, Say, Think, Tokens, anthropic_endpoint
from chat.exchange import ADD, NOW, ask, opened, png, results, user

pytestmark = pytest.mark.slow


async def test_prefixes_that_are_worth_caching_are_marked() -> None:
    with anthropic_endpoint([Answer(Say("Hi")), Answer(Say("Hi"))]) as endpoint:
        async with opened(endpoint) as model:
            await ask(model, "Hi", system_prompt="Be kind.", tools=[ADD, NOW])
            await ask(model, "Hi", tools=[ADD, NOW])
        first, second = endpoint.bodies
    marked = {"type": "ephemeral"}
    assert first["system"][-1]["cache_control"] == marked
    assert first["messages"][-1]["content"][-1]["cache_control"] == marked
    assert "cache_control" not in first["tools"][-1]
    assert second["tools"][-1]["cache_control"] == marked


async def test_thinking_goes_back_with_its_signature_to_the_same_model_only() -> None:
    script = [Answer(Think("Hm."), Say("Wait."), CallTool("now")), Answer(Say("Noon.")), Answer(Say("Noon."))]
    with anthropic_endpoint(script) as endpoint:
        async with opened(endpoint) as model:
            first = await ask(model, "When?", tools=[NOW])
            messages = [user("When?"), first.message, results(first, "noon")]
            await ask(model, messages, tools=[NOW])
        sent = endpoint.bodies[1]["messages"][1]["content"]
        assert [block["type"] for block in sent] == ["thinking", "text", "tool_use"]
        async with opened(endpoint, "anthropic:claude-opus-5-5") as other:
            messages = [
                SamplingMessage(role=each.role, content=list(each.content)) if isinstance(each.content, list) else each
                for each in messages
            ]
            with pytest.raises(HTTPStatusError, match="Expected `thinking`"):
                await ask(other, messages, tools=[NOW])  # the endpoint knows that there was thinking
    assert all(block["type"] != "thinking" for block in endpoint.bodies[2]["messages"][1]["content"])


@pytest.mark.parametrize(
    ("name", "thinking"),
    [
        ("claude-sonnet-5-5", {"type": "disabled"}),
        ("claude-opus-5-5", {"type": "adaptive", "display": "summarized"}),
        ("claude-haiku-4-5", None),
    ],
)
async def test_a_tool_is_forced_as_far_as_the_thinking_of_the_model_allows(
    name: str, thinking: dict[str, str] | None
) -> None:
    with anthropic_endpoint([Answer(CallTool("now"))]) as endpoint:
        async with opened(endpoint, f"anthropic:{name}") as model:
            await ask(model, "When?", tools=[NOW], tool_choice=ToolChoice(mode="required"), temperature=0.3)
        body = endpoint.bodies[0]
    assert body.get("thinking") == thinking
    if name == "claude-opus-5-5":
        assert "tool_choice" not in body
        assert "use of one of the tools" in body["system"][0]["text"]
    else:
        assert body["tool_choice"] == {"type": "any"}
    assert body.get("temperature") == (0.3 if name == "claude-haiku-4-5" else None)


async def test_ids_of_other_vendors_are_made_valid() -> None:
    use = ToolUseContent(id="#a b/c" * 20, name="now", input={})
    result = ToolResultContent(tool_use_id=use.id, content=[TextContent(text="noon")])
    with anthropic_endpoint([Answer(Say("Noon."))]) as endpoint:
        async with opened(endpoint) as model:
            await ask(model, [user("When?"), SamplingMessage(role="assistant", content=use), user(result)])
    assert endpoint.refusals == []


async def test_what_a_model_drew_is_described_to_claude() -> None:
    drawn = SamplingMessage(
        role="assistant",
        content=[
            ImageContent(data=png(), mime_type="image/png"),
            AudioContent(data=b"RIFF", mime_type="audio/wav"),
        ],
    )
    with anthropic_endpoint([Answer(Say("I see."))]) as endpoint:
        async with opened(endpoint) as model:
            await ask(model, [user("Draw"), drawn, user("And now?")])
    assert endpoint.refusals == []
    assert "image/png" in str(endpoint.bodies[0]["messages"][1])


async def test_empty_messages_do_not_break_a_conversation() -> None:
    empty = SamplingMessage(role="assistant", content=[])
    with anthropic_endpoint([Answer(Say("Yes?"))]) as endpoint:
        async with opened(endpoint) as model:
            await ask(model, [user(""), empty, user("  ")])
    assert endpoint.refusals == []


async def test_names_of_properties_that_claude_refuses_come_back_as_the_server_has_them() -> None:
    tool = Tool(name="find", input_schema={"type": "object", "properties": {"$filter": {"type": "string"}}})

    def answer(body: dict[str, object]) -> Answer:
        (name,) = body["tools"][0]["input_schema"]["properties"]  # type: ignore[index]
        return Answer(CallTool("find", {name: "x"}))

    with anthropic_endpoint(answer) as endpoint:
        async with opened(endpoint) as model:
            exchange = await ask(model, "Find", tools=[tool])
    assert exchange.uses[0].input == {"$filter": "x"}


async def test_a_refusal_drops_tool_uses_and_keeps_the_text_before_it() -> None:
    with anthropic_endpoint([Answer(Say("Well, "), CallTool("now"), Decline("Too risky."))]) as endpoint:
        async with opened(endpoint) as model:
            exchange = await ask(model, "Do it", tools=[NOW])
    assert exchange.completion.stop_reason == "refusal"
    assert exchange.uses == []
    assert exchange.text == "Well, [Claude declined to answer: Too risky.]"


async def test_a_stop_sequence_is_named_as_the_reason() -> None:
    with anthropic_endpoint([Answer(Say("1, 2"), stop="stop_sequence", tokens=Tokens(5, 3))]) as endpoint:
        async with opened(endpoint) as model:
            exchange = await ask(model, "Count", stop_sequences=["3", " "])
        assert endpoint.bodies[0]["stop_sequences"] == ["3"]
    assert exchange.completion.stop_reason == "stopSequence"
    assert exchange.completion.usage == Usage(input_tokens=5, output_tokens=3)
    assert exchange.completion.model == "claude-sonnet-5-5"


async def test_a_request_that_is_refused_says_why() -> None:
    with anthropic_endpoint([Failure(413, "Request exceeds the maximum size")]) as endpoint:
        async with opened(endpoint) as model:
            with pytest.raises(HTTPStatusError, match=r"Anthropic answers with an error \(413\): Request exceeds"):
                await ask(model, "Hi")
