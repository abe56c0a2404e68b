"""Reasons in words: which words of a question a text has, and where."""

from __future__ import annotations

import pytest

from carrel.context.reasons import Reasons


@pytest.mark.parametrize(
    ("question", "name", "headings", "lines", "reason"),
    [
        ("green tea", "a", ["# Tea"], ["green", "x", "tea"], "matches 'green', 'tea' in the heading and 2 lines"),
        ("green tea", "tea.md", ["# Tea"], ["tea"], "matches 'tea' in the name, the heading and 1 line"),
        ("green tea", "tea.md", [], ["x"], "matches 'tea' in the name"),
        ("brewing indexes", "a", [], ["an index is brewed"], "matches 'indexes' in 1 line"),
        ("refresh tokens", "a", [], ["def refreshToken(): pass"], "matches 'refresh', 'tokens' in 1 line"),
        ("糖尿病怎么治疗", "a", [], ["治疗糖尿病"], "matches '糖尿病', '治疗' in 1 line"),
        ("a b c d e f", "x", [], ["b c d e f"], "matches 'b', 'c', 'd', 'e' and more in 1 line"),
        ("automobile", "a", [], ["cars"], "found by the search"),
    ],
)
def test_a_reason_names_words_and_places(
    question: str, name: str, headings: list[str], lines: list[str], reason: str
) -> None:
    assert str(Reasons(question).of(name, headings, lines)) == reason
