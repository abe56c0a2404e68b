"""Sampling requests of a real server, answered by models behind the vendors' SDKs."""

from __future__ import annotations

import pytest

from carrel import Client, Context, Server
from carrel.chat.model import Model
from carrel.chat.sampling import answer_sampling, choose
from carrel.errors import TransportError
from carrel.wire.client_features import (
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from carrel.wire.content import TextContent
from carrel.wire.tools import Tool
from chat.endpoints import Answer, CallTool, Say, Think, anthropic_endpoint, gemini_endpoint, openai_endpoint
from chat.exchange import opened

pytestmark = pytest.mark.slow

LOOK_UP = Tool(
    name="library.look up", description="Looks up a word.", input_schema={"type": "object", "properties": {}}
)


def library() -> Server:
    app = Server("library")

    @app.tool
    async def summarize(text: str, context: Context) -> str:
        """Summarize a text with the client's model."""
        answer = await context.sample(
            text,
            max_tokens=50_000,
            system_prompt="Be short.",
            temperature=0.2,
            stop_sequences=["END"],
            model_preferences=ModelPreferences(hints=[ModelHint(name="opus")]),
        )
        return f"{answer.text} ({answer.stop_reason}, {answer.model})"

    @app.tool
    async def research(word: str, context: Context) -> str:
        """Let the client's model use a tool of the server."""
        messages = [SamplingMessage(role="user", content=TextContent(text=word))]
        first = await context.sample(messages, max_tokens=100, tools=[LOOK_UP], tool_choice=ToolChoice(mode="auto"))
        uses = first.content if isinstance(first.content, list) else [first.content]
        assert all(block.meta is None for block in uses), "reasoning is the vendor's"
        results = [
            ToolResultContent(tool_use_id=use.id, content=[TextContent(text=f"found by {use.name}")])
            for use in uses
            if isinstance(use, ToolUseContent)
        ]
        messages += [
            SamplingMessage(role="assistant", content=list(uses)),
            SamplingMessage(role="user", content=list(results)),
        ]
        second = await context.sample(messages, max_tokens=100, tools=[LOOK_UP])
        return second.text

    return app


ENDPOINTS = {"anthropic": anthropic_endpoint, "openai": openai_endpoint, "gemini": gemini_endpoint}


@pytest.mark.parametrize("vendor", ENDPOINTS)
async def test_a_model_answers_a_server(vendor: str) -> None:
    with ENDPOINTS[vendor]([Answer(Think("Hm."), Say("Short."))]) as endpoint:
        async with (
            opened(endpoint, vendor) as model,
            Client(library(), handlers=answer_sampling(model, most_tokens=999)) as client,
        ):
            found = await client.call_tool("summarize", {"text": "A long text."})
        sent = str(endpoint.bodies[0])
    assert found.text.startswith("Short. (endTurn, ")
    for word in ("Be short.", "A long text.", "999"):
        assert word in sent


@pytest.mark.parametrize("vendor", ENDPOINTS)
async def test_a_server_lets_a_model_use_its_tools(vendor: str) -> None:
    asked = Answer(Think("Hm."), CallTool("library_look_up"), CallTool("library_look_up"))
    with ENDPOINTS[vendor]([asked, Answer(Say("Done."))]) as endpoint:
        async with opened(endpoint, vendor) as model, Client(library(), handlers=answer_sampling(model)) as client:
            found = await client.call_tool("research", {"word": "carrel"})
        assert endpoint.refusals == []
        assert "found by library.look up" in str(endpoint.bodies[1])
        expected = {"anthropic": "'signature'", "openai": "encrypted_content", "gemini": "thoughtSignature"}
        assert expected[vendor] in str(endpoint.bodies[1])
    assert found.text == "Done."


async def test_a_model_that_writes_broken_arguments_is_asked_again() -> None:
    script = [
        Answer(CallTool("library_look_up", "{broken"), CallTool("library_look_up")),
        Answer(CallTool("library_look_up", {"word": "carrel"})),
        Answer(Say("Done.")),
    ]
    with openai_endpoint(script) as endpoint:
        async with opened(endpoint) as model, Client(library(), handlers=answer_sampling(model)) as client:
            found = await client.call_tool("research", {"word": "carrel"})
        assert len(endpoint.requests) == 3
        assert "not valid JSON" in str(endpoint.bodies[1])
    assert found.text == "Done."


async def test_a_model_that_only_writes_broken_arguments_is_an_error() -> None:
    with openai_endpoint([Answer(CallTool("library_look_up", "{broken")) for _ in range(3)]) as endpoint:
        async with opened(endpoint) as model, Client(library(), handlers=answer_sampling(model)) as client:
            with pytest.raises(TransportError, match="malformed tool arguments, 3 times"):
                await client.call_tool("research", {"word": "carrel"})
            assert len(await client.list_tools()) == 2


async def test_another_model_can_be_chosen_by_the_preferences() -> None:
    names = ["anthropic:claude-haiku-5-5", "anthropic:claude-opus-5-5"]
    with anthropic_endpoint([Answer(Say("Short."))]) as endpoint:
        async with opened(endpoint, names[0]) as default, opened(endpoint, names[1]) as other:

            async def choice(preferences: ModelPreferences | None, model: Model) -> Model:
                return other if choose(preferences, names) == other.name else model

            async with Client(library(), handlers=answer_sampling(default, choice=choice)) as client:
                found = await client.call_tool("summarize", {"text": "A long text."})
    assert found.text == "Short. (endTurn, claude-opus-5-5)"


@pytest.mark.parametrize(
    ("hints", "chosen"),
    [(["Sonnet"], "anthropic:claude-sonnet-5-5"), (["gpt", "claude"], "anthropic:claude-sonnet-5-5"), (["o3"], None)],
)
def test_hints_are_parts_of_names_in_their_order(hints: list[str], chosen: str | None) -> None:
    names = ["gemini:gemini-3.8-flash", "anthropic:claude-sonnet-5-5"]
    preferences = ModelPreferences(hints=[ModelHint(name=hint) for hint in hints])
    assert choose(preferences, names) == chosen
    assert choose(None, names) is None
