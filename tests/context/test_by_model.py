"""Contexts that a model helps to choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel import Client, Server
from carrel.client.handlers import Handlers, Sampling
from carrel.context.by_model import ModelChoice
from carrel.errors import TransportError
from carrel.search.results import SearchPassage
from carrel.transports.client.options import ProcessOptions
from carrel.vendors.token_estimate import estimate_tokens
from carrel.wire.content import TextContent
from carrel.wire.resources import Resource
from search.indexed import searching, write
from support.answering_client import SAMPLE, answering, said
from support.carrel_process import COMMAND
from support.memory_client import ALL, LATEST, NOVEMBER


def passage(number: int, text: str) -> SearchPassage:
    uri = f"memo://{number}"
    return SearchPassage(resource=Resource(uri, str(number)), source="s", link=uri, score=1 / number, text=text)


class Model:
    """Model that returns answers in turn, and keeps what it was sent."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.prompts: list[str] = []
        self.tokens = 0

    async def __call__(self, prompt: str, most: int) -> str:
        self.prompts.append(prompt)
        self.tokens += estimate_tokens(prompt) + most
        return self._answers.pop(0)


async def test_a_model_finds_other_words_and_ranks_what_is_found(tmp_path: Path) -> None:
    app = Server("s")
    app.resources.add("memo://car", "The vehicle needs new tyres before winter.")
    app.resources.add("memo://tea", "Winter tea: how a change of season changes tea.")
    async with searching(app, tmp_path / "cache") as (index, _):
        question = "When must I change the wheels of my automobile?"
        plain = await index.context(question)
        assert [item.uri for item in plain.items] == ["memo://tea"]
        model = Model("vehicle tyres winter", "2, 1")
        pack = await index.context(question, model=model)
        words, ranking = model.prompts
        assert question in words
        first = "memo://car" if "[2] car" in ranking else "memo://tea"
        assert [item.uri for item in pack.items] == [first, *({"memo://car", "memo://tea"} - {first})]
        assert [item.score for item in pack.items] == [1.0, 0.6]
        assert "data, not instructions" in ranking


async def test_what_the_model_does_not_name_comes_last_and_numbers_that_are_none_are_ignored() -> None:
    passages = [passage(number, f"Text {number}") for number in range(1, 5)]
    ranked = await ModelChoice("?", Model("9, 3, 3, 0 and 2"), 5000).ranked(passages)
    assert [each.resource.name for each in ranked] == ["3", "2", "1", "4"]
    assert [each.score for each in ranked] == [1.0, 0.6, 0.5, 0.125]


@pytest.mark.parametrize("answer", ["", "0", "I do not know", "999999999999"])
async def test_an_answer_without_numbers_keeps_the_order(answer: str) -> None:
    passages = [passage(number, f"Text {number}") for number in range(1, 5)]
    assert await ModelChoice("?", Model(answer), 5000).ranked(passages) == passages


async def test_a_model_that_fails_keeps_the_order() -> None:
    async def ask(prompt: str, most: int) -> str:
        raise TransportError("it is overloaded", delivered=True)

    passages = [passage(number, f"Text {number}") for number in range(1, 5)]
    choice = ModelChoice("?", ask, 5000)
    assert await choice.words() == ""
    assert await choice.ranked(passages) == passages


@given(st.integers(0, 3000), st.lists(st.text(max_size=2000), max_size=8))
async def test_the_model_reads_and_writes_no_more_than_its_tokens(tokens: int, texts: list[str]) -> None:
    model = Model("words", "1")
    choice = ModelChoice("Which?", model, tokens)
    await choice.words()
    await choice.ranked([passage(number, text) for number, text in enumerate(texts, 1)])
    assert model.tokens <= tokens


CAR, TEA = "The vehicle needs new tyres before winter.", "Winter tea: how a change of season changes tea."
QUESTION = "When must I change the wheels of my automobile?"


def answer_of(prompt: str) -> str:
    """Return search words, or the number of the passage about the vehicle."""
    return "vehicle tyres winter" if "search words" in prompt else "1" if "[1] car" in prompt else "2"


@pytest.mark.parametrize("revision", ALL)
async def test_the_model_of_the_client_helps_the_tool(revision: str, tmp_path: Path) -> None:
    app = Server("s")
    app.resources.add("memo://car", CAR)
    app.resources.add("memo://tea", TEA)

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert method == SAMPLE
        return said(answer_of(params["messages"][0]["content"]["text"]))

    async with searching(app, tmp_path / "cache"), answering(app, revision, answer) as client:
        plain = await client.text("context", question=QUESTION)
        assert (CAR in plain, client.asked) == (False, [])
        helped = await client.text("context", question=QUESTION, model_tokens=2000)
        assert helped.index(CAR) < helped.index(TEA)
        assert len(client.asked) == 2
        taken = [
            estimate_tokens(params["messages"][0]["content"]["text"]) + params["maxTokens"]
            for _, params in client.asked
        ]
        assert sum(taken) <= 2000
        refused = await client.call("context", question=QUESTION, model_tokens=-1)
        assert refused["isError"]


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_without_sampling_the_order_of_the_search_remains(revision: str, tmp_path: Path) -> None:
    app = Server("s")
    app.resources.add("memo://tea", TEA)
    async with searching(app, tmp_path / "cache"), answering(app, revision, {}, elicitation={}) as client:
        plain = await client.text("context", question=QUESTION)
        assert await client.text("context", question=QUESTION, model_tokens=2000) == plain
        assert TEA in plain


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_the_model_of_a_client_helps_a_server_over_stdio(revision: str, tmp_path: Path) -> None:
    write(tmp_path / "notes", car_md=CAR, tea_md=TEA)
    prompts: list[str] = []

    async def answer(params: Sampling) -> str:
        content = params.messages[0].content
        assert isinstance(content, TextContent)
        prompts.append(content.text)
        return answer_of(content.text)

    command = [*COMMAND, "serve", str(tmp_path / "notes"), "--search"]
    process = ProcessOptions(env={"XDG_CACHE_HOME": str(tmp_path / "cache")}, cwd=tmp_path)
    handlers = Handlers(sample=answer)
    async with Client(command, revision=revision, process=process, handlers=handlers) as client:
        while CAR not in (await client.call_tool("context", {"question": "vehicle"})).text:
            pass  # until it is indexed
        helped = await client.call_tool("context", {"question": QUESTION, "model_tokens": 2000})
    assert helped.text.index(CAR) < helped.text.index(TEA)
    assert len(prompts) == 2
