"""Snippets: the lines of a passage that say most about a query."""

from __future__ import annotations

import pytest

from carrel.search.snippets import snippet_of
from carrel.search.terms import words_of


def terms(text: str) -> set[str]:
    """Return words without their endings, and the letters without their accents, as the engine does."""
    return {term.removesuffix("ing").replace("ü", "u") for word in words_of(text) for term in word.terms}


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("server", "    start(createHTTPServer())"),
        ("http", "    start(createHTTPServer())"),
        ("serv", "serv of the house"),
        ("observing", "the observer observes observing"),
        ("ubung", "Eine Übung am Morgen"),
        ("协议", "上下文协议"),
        ("茶", "喝茶"),
    ],
)
def test_the_line_with_the_word_is_shown_and_not_one_that_only_has_its_letters(query: str, line: str) -> None:
    lines = ["an observers conservatory, dishttpd", "nothing", "other", "lines", line, "last"]
    found = snippet_of("\n".join(lines), 11, words_of(query), terms)
    assert found is not None
    assert found.line == 15
    assert line in found.text.splitlines()
