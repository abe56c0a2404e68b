"""Marks: the words of a query in the text of a hit, to show them in bold."""

from __future__ import annotations

import re

from carrel.search.terms import words_of
from carrel.sources.content.words import CAPITAL

__all__ = ["marks_of"]

_WORD = re.compile(r"[^\W_]+")
#: Characters that are compared of a long word, and endings that may differ: forms of one word are marked alike.
BEGINNING, ENDING = 4, 2


def marks_of(text: str, query: str) -> list[tuple[int, int]]:
    """Return the ranges of characters in which words of a query occur in a text, in order and without overlap."""
    words = words_of(query)
    pairs = [term.casefold() for word in words if word.cjk for term in word.terms]
    others = {word.text for word in words if not word.cjk}
    found = [found.span() for pair in pairs for found in re.finditer(re.escape(pair), text, re.IGNORECASE)]
    for run in _WORD.finditer(text):
        at = run.start()
        for part in CAPITAL.split(run.group()):
            if any(_alike(part.casefold(), word) for word in others):
                found.append((at, at + len(part)))
            at += len(part)
    return _merged(found)


def _alike(word: str, wanted: str) -> bool:
    beginning = wanted[: max(BEGINNING, len(wanted) - ENDING)]
    return word.startswith(beginning) and len(word) <= len(wanted) + ENDING


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged
