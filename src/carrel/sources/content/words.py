"""Words of a search query, and terms of a text for an index."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["CAPITAL", "CJK", "is_cjk", "terms_of", "words_of"]

MAX_QUERY = 1000  # characters

#: Chinese, Japanese and Korean characters, which are written without spaces between words.
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
#: A run of these characters, or of other letters and digits: a capital begins a word, as in ``createHTTPServer``.
_TERM = re.compile(rf"[{CJK}]+|(?:(?![{CJK}])[^\W_])+")
_ASCII = re.compile("[A-Za-z0-9]+")
#: Place in a name where a capital begins a word.
CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words_of(query: str) -> list[str]:
    """Return the distinct words of a query, case-folded; none if the query is too long."""
    return list(dict.fromkeys(query.casefold().split())) if len(query) <= MAX_QUERY else []


def is_cjk(character: str) -> bool:
    """Return whether a character is Chinese, Japanese or Korean."""
    return re.fullmatch(f"[{CJK}]", character) is not None


def terms_of(text: str) -> list[str]:
    """Return the terms of a text or a name, case-folded, in their order.

    Names are split at capitals, underscores and dashes. Chinese, Japanese and Korean text becomes its bigrams:
    ``"createIssue 課題作成"`` has the terms create, issue, 課題, 題作 and 作成.
    """
    if text.isascii():  # much faster, and what most names and descriptions are
        return [
            part.lower() for run in _ASCII.findall(text) for part in ((run,) if run.islower() else CAPITAL.split(run))
        ]
    terms: list[str] = []
    for run in _TERM.findall(unicodedata.normalize("NFKC", text)):
        if is_cjk(run[0]):
            terms += [run[at : at + 2] for at in range(max(1, len(run) - 1))]
        else:
            terms += [part.casefold() for part in CAPITAL.split(run)]
    return terms
