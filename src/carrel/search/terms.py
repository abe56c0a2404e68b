"""Text as the index takes it: words apart, Chinese, Japanese and Korean as bigrams; and the words of a query.

The engine splits what it gets at everything that is no letter and no digit. So before that,

- ``createHTTPServer`` becomes ``create HTTP Server``;
- ``上下文协议`` becomes ``上下 下文 文协 协议 议``: each pair of characters, and the last one of a run by itself, so
  that every single character begins a term.
"""

from __future__ import annotations

import re
import unicodedata
from operator import add
from typing import NamedTuple

from carrel.sources.content.words import CAPITAL, CJK, is_cjk, terms_of

__all__ = ["MAX_QUERY", "Word", "prepared", "words_of"]

#: Characters of a query that are looked at, and words of it.
MAX_QUERY, MAX_WORDS = 1000, 32
#: Words that say nothing about what is looked for; a query that has only these is taken as it is.
STOP_WORDS = frozenset(
    terms_of(
        "a about all an and any are as at be by can could do does for from get has have how i if in into is it its me "
        "my of on or our should that the their there these this to was we what when where which who why will with "
        "would you your"
    )
)
#: The same places as CAPITAL, but found by the capitals, of which there are few: twice as fast.
_CAPITAL = re.compile(r"[A-Z](?:(?<=[a-z0-9].)|(?<=[A-Z].)(?=[a-z]))")
#: First of these characters and what comes after them: one range, which is four times as fast to look for.
_BEYOND_LATIN = re.compile("[\u3040-\U0010ffff]")
_RUN = re.compile(f"[{CJK}]+")
_WORD = re.compile(rf"[{CJK}]+|(?:(?![{CJK}])[^\W_])+")


class Word(NamedTuple):
    """Word of a query: its terms, which for Chinese, Japanese and Korean are its bigrams."""

    text: str
    terms: tuple[str, ...]
    cjk: bool = False


def prepared(text: str) -> str:
    """Return a text as the index takes it."""
    if not text.isascii():
        if not unicodedata.is_normalized("NFKC", text):
            text = unicodedata.normalize("NFKC", text)
        if _BEYOND_LATIN.search(text) is not None:
            text = _RUN.sub(_bigrams, text)
    return _CAPITAL.sub(_apart, text)  # a function, as Python 3.11 expands templates slowly


def _apart(found: re.Match[str]) -> str:
    return " " + found[0]


def _bigrams(found: re.Match[str]) -> str:
    run = found.group()
    return f" {' '.join(map(add, run, run[1:]))} {run[-1]} "


def words_of(query: str) -> list[Word]:
    """Return the distinct words of a query, without those that say nothing, where there are others."""
    words: dict[str, Word] = {}
    for run in _WORD.findall(unicodedata.normalize("NFKC", query[:MAX_QUERY])):
        if is_cjk(run[0]):
            terms = tuple(dict.fromkeys(run[at : at + 2] for at in range(max(1, len(run) - 1))))
            words.setdefault(run, Word(run, terms, cjk=True))
        else:
            for part in CAPITAL.split(run):
                text = part.casefold()
                words.setdefault(text, Word(text, (text,)))
    telling = [word for word in words.values() if word.text not in STOP_WORDS]
    return (telling or list(words.values()))[:MAX_WORDS]
