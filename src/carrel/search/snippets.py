"""Snippets: the lines of a passage that match a query best."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from carrel.search.terms import Word

__all__ = ["Snippet", "snippet_of"]

LINES = 3
#: Letters that a word has in common with its term, which may have another ending.
BEGINNING = 3
#: Longest word that the index has, and where a word of ASCII ends.
MAX_WORD, _ENDS = 48, re.compile("[^A-Za-z0-9]")
#: Characters of a line that are shown, lines that are looked at, and characters of each.
MAX_LINE, MAX_LINES, MAX_LOOKED_AT = 240, 400, 10_000


class Snippet(NamedTuple):
    """Lines of a passage, and the number of the best line."""

    text: str
    line: int


def snippet_of(text: str, first: int, words: Sequence[Word], terms: Callable[[str], set[str]]) -> Snippet | None:
    """Return the best lines of a passage that begins with line ``first``; None if it has only white space.

    ``terms`` returns the terms of a text, as they are in the index.
    """
    lines = text.split("\n")[:MAX_LINES]  # as lines are counted; there are other ends of lines
    wanted = set[str]().union(*(terms(word.text) for word in words)) if words else set()
    singles = {word.text for word in words if word.cjk and len(word.text) == 1}
    alike = re.compile("|".join({re.escape(term[:BEGINNING]) for term in wanted if term.isascii()}) or "(?!)")
    whole = "\n".join(line[:MAX_LOOKED_AT] for line in lines).lower()
    matched = {whole.count("\n", 0, found.start()) for found in alike.finditer(whole)}
    gains = [
        _gain(line, wanted, alike, singles, terms) if at in matched or not line.isascii() else set[str]()
        for at, line in enumerate(lines)
    ]
    best, chosen = -1.0, -1
    for at, line in enumerate(lines):
        if line.strip():
            beside = gains[max(0, at - 1) : at + LINES - 1]
            gain = len(gains[at]) * 2 + (len(set[str]().union(*beside)) if any(beside) else 0)
            if gain > best:
                best, chosen = gain, at
    if chosen < 0:
        return None
    begin = max(0, chosen - 1) if chosen and lines[chosen - 1].strip() else chosen
    shown = [_truncate(line, words) for line in lines[begin : begin + LINES]]
    while shown and not shown[-1]:
        shown.pop()
    return Snippet("\n".join(shown), first + chosen)


def _gain(
    line: str, wanted: set[str], alike: re.Pattern[str], singles: set[str], terms: Callable[[str], set[str]]
) -> set[str]:
    """Return the terms that are wanted and in a line. ``alike`` finds how words with such a term can begin."""
    line = line[:MAX_LOOKED_AT]
    if line.isascii():  # tokenizing a line is slow, and most of its words are not wanted
        starts = [found.start() for found in alike.finditer(line.lower())]
        line = " ".join(_ENDS.split(line[at : at + MAX_WORD], 1)[0] for at in starts if _begins_word(line, at))
    if not line or line.isspace():
        return set()
    found = terms(line) & wanted
    return found | {single for single in singles if single in line}


def _begins_word(line: str, at: int) -> bool:
    """Return whether a word begins at a position in a line, as ``Server`` in ``createHTTPServer``."""
    before = line[at - 1 : at]
    return not before.isalnum() or (line[at].isupper() and (not before.isupper() or line[at + 1 : at + 2].islower()))


def _truncate(line: str, words: Sequence[Word]) -> str:
    """Return a line, cut around the first word of the query that is in it, if it is too long."""
    line = line.rstrip()
    if len(line) <= MAX_LINE:
        return line
    folded = line.casefold()
    offsets = [at for word in words if (at := folded.find(word.text)) >= 0]
    begin = max(0, min(offsets, default=0) - MAX_LINE // 3)
    end = begin + MAX_LINE
    return ("…" if begin else "") + line[begin:end].strip() + ("…" if end < len(line) else "")
