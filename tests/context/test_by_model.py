"""Contexts that a model helps to choose."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel import Server
from carrel.context.by_model import ModelChoice
from carrel.errors import TransportError
from carrel.search.results import SearchPassage
from carrel.vendors.token_estimate import estimate_tokens
from carrel.wire.resources import Resource
from search.indexed import searching


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
