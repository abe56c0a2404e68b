"""Reasons: which words of a question a text has, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence

from carrel.context.results import Reason
from carrel.search.terms import Word, words_of
from carrel.sources.content.words import CAPITAL, CJK

__all__ = ["Reasons"]

_TOKEN = re.compile(rf"[{CJK}]+|(?:(?![{CJK}])[^\W_])+")
#: Words that a reason names, and letters by which an inflected word may be longer or shorter.
MAX_NAMED, ENDING, SHORTEST = 4, 3, 4


class Reasons:
    """Words of a question, compared with lines."""

    def __init__(self, question: str) -> None:
        self._words = words_of(question)
        starts = {start for word in self._words for start in (word.terms if word.cjk else [word.text[:SHORTEST]])}
        self._start = re.compile("|".join(map(re.escape, sorted(starts))) or "(?!)")
        self._known: dict[str, frozenset[str]] = {}

    def of(self, name: str, headings: Sequence[str], lines: Sequence[str]) -> Reason:
        """Return why a text is relevant: its name, the headings above it, and its lines."""
        in_name, in_heading = self._found(name), self._found(" ".join(headings))
        found = [self._found(line) for line in lines]
        every = in_name.union(in_heading, *found)
        words = [word.text for word in self._words if word.text in every]
        return Reason(
            words=tuple(words[:MAX_NAMED]),
            more=len(words) > MAX_NAMED,
            in_name=bool(in_name),
            in_heading=bool(in_heading),
            lines=sum(map(bool, found)),
        )

    def _found(self, text: str) -> set[str]:
        if self._start.search(text.casefold()) is None:
            return set()  # without splitting it, which takes long
        tokens = {part for token in _TOKEN.findall(text) for part in CAPITAL.split(token)}
        return set[str]().union(*map(self._words_in, tokens))

    def _words_in(self, token: str) -> frozenset[str]:
        """Return the words of the question that a token is a form of."""
        found = self._known.get(token)
        if found is None:
            folded = token.casefold()
            found = self._known[token] = frozenset(word.text for word in self._words if _has(folded, word))
        return found


def _has(token: str, word: Word) -> bool:
    return any(term in token for term in word.terms) if word.cjk else _alike(word.text, token)


def _alike(word: str, token: str) -> bool:
    """Return whether two words are equal, or may be forms of one word."""
    if word == token:
        return True
    short, long = sorted((word, token), key=len)
    same = min(len(short), max(SHORTEST, len(short) - 1))
    return len(short) >= SHORTEST and len(long) - len(short) <= ENDING and short[:same] == long[:same]
