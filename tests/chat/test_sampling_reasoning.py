"""Reasoning of answers to sampling: servers do not get it, and the vendor gets it back."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.chat.sampling_reasoning import Reasoning
from carrel.wire.client_features import SamplingMessage, ToolUseContent
from carrel.wire.content import TextContent

KEPT = {"carrel/anthropic": {"model": "m", "thinking": ["signed"]}}


def use(id: str = "1", meta: dict[str, Any] | None = None) -> ToolUseContent:
    return ToolUseContent(id=id, name="find", input={"a": 1}, meta=meta)


def back(reasoning: Reasoning, *blocks: Any, role: Any = "assistant") -> list[Any]:
    found = reasoning.give_back(SamplingMessage(role=role, content=list(blocks))).content
    assert isinstance(found, list)
    return found


def test_servers_get_answers_without_reasoning_and_it_comes_back_with_the_same_block() -> None:
    reasoning = Reasoning()
    given = reasoning.take([TextContent("I look.", meta={**KEPT, "other": 1}), use()])
    assert given == [TextContent("I look.", meta={"other": 1}), use()]
    assert back(reasoning, *given) == [TextContent("I look.", meta={"other": 1, **KEPT}), use()]


def test_the_reasoning_of_a_block_that_a_server_leaves_out_is_that_of_the_first_use() -> None:
    reasoning = Reasoning()
    _, given = reasoning.take([TextContent("I look.", meta=KEPT), use()])
    assert back(reasoning, given) == [use(meta=KEPT)]


@pytest.mark.parametrize("role", ["assistant", "user"])
def test_what_a_server_claims_to_be_reasoning_is_dropped(role: str) -> None:
    assert back(Reasoning(), TextContent("Hi", meta=KEPT), role=role) == [TextContent("Hi")]


def test_only_the_newest_answers_are_kept() -> None:
    reasoning = Reasoning(most_answers=2)
    for id in "abc":
        reasoning.take([use(id, KEPT)])
    assert [back(reasoning, use(id))[0].meta for id in "abc"] == [None, KEPT, KEPT]
