"""Tokenization for the index: separated words, bigrams for Chinese, Japanese and Korean, and the words of a query.

The engine splits its input at every character that is not a letter or digit. Before that,

- ``createHTTPServer`` becomes ``create HTTP Server``;
- ``上下文协议`` becomes ``上下 下文 文协 协议 议``: each pair of characters, and the last character of a run, so that
  every single character begins a term.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

from carrel.search.stop_words import stop_words_of, without_question_words
from carrel.sources.content.words import CAPITAL, CJK, is_cjk

__all__ = ["MAX_QUERY", "Word", "all_parted", "all_words_of", "parted", "prepared", "words_of"]

#: Characters of a query that are looked at, and words of it.
MAX_QUERY, MAX_WORDS = 1000, 32
#: Kinds of characters of ASCII: ``A`` a capital, ``a`` a small letter, ``0`` a digit.
_KINDS = bytes(
    ord("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else " ") for c in map(chr, range(128))
)
_KINDS += b" " * 128
#: The same places as CAPITAL, in the kinds of the characters: one letter to look for, which takes half of the time.
_CAPITAL = re.compile(rb"A(?:(?<=[a0]A)|(?<=AA)(?=a))")
#: One character range that begins at the first of these characters: four times as fast to search.
_BEYOND_LATIN = re.compile("[\u3040-\U0010ffff]")
#: Marks between words that NFKC replaces by others: in most texts with these characters, it changes nothing else.
_MARKS = "，：；！？（）～…\u3000"
_RUNS = re.compile(f"([{CJK}]+)")
#: White space between Chinese characters or kana, such as the end of a line, which separates no words.
_GAP = re.compile("(?<=[\u3040-\u30ff\u3400-\u9fff])(?:[ \t]+\n?|\n)[ \t]*(?=[\u3040-\u30ff\u3400-\u9fff])")
#: Pair of hiragana, which is mostly grammar.
_HIRAGANA = re.compile("[\u3040-\u309f]{2}")
_WORD = re.compile(rf"[{CJK}]+|(?:(?![{CJK}])[^\W_])+")


class Word(NamedTuple):
    """Word of a query: its terms, which for Chinese, Japanese and Korean are its bigrams."""

    text: str
    terms: tuple[str, ...]
    cjk: bool = False


def prepared(text: str) -> str:
    """Return a text in the form for the index."""
    return " ".join(filter(None, parted(text)))


def all_parted(texts: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Return what ``parted`` returns for each of some texts, which is faster together."""
    whole = "\0".join(texts)
    if not whole.isascii() or whole.count("\0") != len(texts) - 1:
        return map(parted, texts)
    return zip(_split_at_capitals(whole).split("\0"), repeat(""))


def parted(text: str) -> tuple[str, str]:
    """Return a text in the form for the index, and separately its Chinese, Japanese and Korean parts."""
    if not text.isascii():
        text = _GAP.sub("", text)
        for mark in _MARKS:
            text = text.replace(mark, " ")
        if not unicodedata.is_normalized("NFKC", text):
            text = unicodedata.normalize("NFKC", text)
        if _BEYOND_LATIN.search(text) is not None:
            pieces = _RUNS.split(text)
            if len(pieces) > 1:
                return _split_at_capitals(" ".join(pieces[::2])), _bigrams(pieces[1::2])
    return _split_at_capitals(text), ""


def _split_at_capitals(text: str) -> str:
    kinds = text.encode("ascii", "replace").translate(_KINDS)  # one byte for each character
    offsets = [found.start() for found in _CAPITAL.finditer(kinds)]
    if not offsets:
        return text
    return " ".join([text[begin:end] for begin, end in zip([0, *offsets], [*offsets, None], strict=True)])


def _bigrams(runs: Sequence[str]) -> str:
    """Return the bigrams of runs of characters of two bytes each, and the last characters.

    Two texts are laid one over the other: of ``ab`` and ``cde``, they are ``ab cde `` and ``b  de  ``.
    """
    first = " ".join(runs) + " "
    second = "  ".join([run[1:] for run in runs]) + "  "
    pairs = array("H", b" \0") * (3 * len(first))
    pairs[::3] = array("H", first.encode("utf-16-le"))
    pairs[1::3] = array("H", second.encode("utf-16-le"))
    return pairs.tobytes().decode("utf-16-le")


def words_of(query: str) -> list[Word]:
    """Return the distinct words of a query, without stop words and question words if the query has other words."""
    text = unicodedata.normalize("NFKC", query[:MAX_QUERY])
    return (_words(without_question_words(text), stop=True) or _words(text, stop=False))[:MAX_WORDS]


def all_words_of(text: str) -> list[Word]:
    """Return the distinct words of a text, with stop words."""
    return _words(unicodedata.normalize("NFKC", text), stop=False)[:MAX_WORDS]


def _words(text: str, *, stop: bool) -> list[Word]:
    words: dict[str, Word] = {}
    seen: set[str] = set()
    for run in _WORD.findall(text):
        if is_cjk(run[0]):
            pairs = dict.fromkeys(run[at : at + 2] for at in range(max(1, len(run) - 1)))
            terms = [each for each in pairs if each not in seen and not (stop and _HIRAGANA.fullmatch(each))]
            seen.update(terms)
            if terms:
                words[run] = Word(run, tuple(terms), cjk=True)
        else:
            for part in CAPITAL.split(run):
                word = part.casefold()
                words.setdefault(word, Word(word, (word,)))
    dropped = stop_words_of(words) if stop else set[str]()
    return [word for word in words.values() if word.text not in dropped]
