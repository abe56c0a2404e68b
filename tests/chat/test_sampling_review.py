"""Sampling requests of servers, reviewed by the user before the model of the chat answers, and after."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from carrel.chat.sampling_review import reviewed_sampling
from carrel.client.handlers import Handlers, Sampling
from carrel.wire.client_features import CreateMessageResult, SamplingMessage
from carrel.wire.content import TextContent
from chat.chat_parts import Chatting, chatting
from chat.scripted_model import ScriptedModel, use


class Reviewer:
    """Reviewer that edits, refuses or lets pass, and keeps what it was shown."""

    def __init__(self, request: str | None = "as it is", answer: str | None = "as it is") -> None:
        self.request, self.answer = request, answer
        self.requests: list[Sampling] = []
        self.answers: list[str] = []

    async def review_request(self, sampling: Sampling) -> Sampling | None:
        self.requests.append(sampling)
        if self.request in (None, "as it is"):
            return sampling if self.request else None
        message = SamplingMessage(role="user", content=TextContent(self.request or ""))
        return msgspec.structs.replace(sampling, messages=[message])

    async def review_answer(self, sampling: Sampling, answer: CreateMessageResult) -> CreateMessageResult | None:
        self.answers.append(answer.text)
        if self.answer in (None, "as it is"):
            return answer if self.answer else None
        return msgspec.structs.replace(answer, content=TextContent(self.answer or ""))


async def ask(reviewer: Reviewer, *answers: str) -> tuple[Chatting, str, ScriptedModel]:
    """Let the model call a tool that asks a model; return the result that it gets, and the model that was asked."""
    asked = ScriptedModel(*answers)
    counted: list[Sequence[object]] = []
    sample = reviewed_sampling(lambda: asked, reviewer, lambda name, usage: counted.append((name, usage.input_tokens)))
    script = [[use("shop__ask_model", question="Which lamp?")], "Done."]
    async with chatting(*script, handlers=Handlers(sample=sample, sample_tools=True)) as parts:
        await parts.session.say("Go")
        text = parts.model.requests[1].messages[-1].content[0].content[0].text  # type: ignore[index, union-attr]
        assert counted == [("model", 100)] * len(answers)
        return parts, text, asked


async def test_a_request_is_shown_answered_and_the_answer_is_shown_before_it_is_sent() -> None:
    reviewer = Reviewer()
    _, text, asked = await ask(reviewer, "The red one.")
    assert text == "the model said The red one."
    assert reviewer.requests[0].messages[0].content == TextContent("Which lamp?")
    assert reviewer.answers == ["The red one."]
    assert asked.requests[0].max_tokens == 100


async def test_a_refused_request_reaches_no_model_and_a_refused_answer_no_server() -> None:
    _, text, asked = await ask(Reviewer(request=None))
    assert "User rejected sampling request" in text
    assert asked.requests == []
    _, text, _ = await ask(Reviewer(answer=None), "A secret.")
    assert "User rejected sampling request" in text
    assert "secret" not in text


async def test_request_and_answer_may_be_edited() -> None:
    _, text, asked = await ask(Reviewer(request="Which chair?", answer="No chair."), "The blue one.")
    assert text == "the model said No chair."
    assert asked.requests[0].messages[0].content[0].text == "Which chair?"  # type: ignore[index, union-attr]
