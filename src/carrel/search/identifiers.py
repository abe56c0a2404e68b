"""Identifiers of a question: options, names in code, paths, codes of errors and quoted phrases.

``what does --require-hashes do in "pip install"`` has the identifiers ``--require-hashes`` and ``pip install``. A
passage that has an identifier exactly is more relevant than a passage that has its words somewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from carrel.search.terms import MAX_QUERY, Word, all_words_of
from carrel.sources.content.words import CJK

__all__ = ["Identifier", "identifiers_of"]

#: Maximum number of identifiers. If a question has more, none is looked for.
MOST = 4
#: Quoted phrases of two words or more.
_QUOTED = re.compile(r"[\"“„«「`]([^\"“”„«»「」`]*\w\s+\w[^\"“”„«»「」`]*)[\"”“»」`]")
_TOKEN = re.compile(rf"[^\s{CJK}\u3000-\u303f\uff00-\uffef\"“”„«»`]+")
#: Options such as ``-k`` and ``--no-wrap``, paths, and words with a mark, a capital or a digit inside.
_IDENTIFIER = re.compile(
    r"--?[A-Za-z][\w-]*(?:=\S+)?"
    r"|[~.]?/[\w.+@/-]*\w"
    r"|(?=.*\w\w)\$?[A-Za-z_][\w-]*(?:(?:[./:@=+]|::|->)[\w-]+)+"
    r"|\$?\w*(?:[A-Za-z0-9]_|_[A-Za-z0-9]|[a-z][A-Z]|[A-Za-z][0-9]|[0-9][A-Za-z]|[A-Z]{2}[a-z]+[A-Z])\w*"
    r"|[A-Za-z]\w*="
)
#: Marks before and after an identifier in a sentence.
_BEFORE, _AFTER = "([{<'’", ".,;:!?()]}>'’"
#: A qualified name, and the keywords before the name of a member in its definition.
_MEMBER, _DEFINED = re.compile(r"\w+(?:(?:\.|::)\w+)*(?:\.|::)([A-Za-z_]\w*)"), "def|class|fn|func|function"
_ESCAPED = re.compile(r"\\(?=[^A-Za-z0-9\s])")


class Identifier(NamedTuple):
    """Identifier: the words that it has in the index, and the pattern that finds exactly the identifier in a text."""

    words: Sequence[Word]
    pattern: re.Pattern[str]

    def is_in(self, text: str) -> bool:
        """Return whether a text has the identifier. Escapes of Markdown do not matter."""
        return self.pattern.search(_ESCAPED.sub("", text)) is not None


def identifiers_of(query: str) -> list[Identifier]:
    """Return the distinct identifiers of a query, or none if there are more than ``MOST``."""
    query = query[:MAX_QUERY]
    found = {" ".join(phrase.split()): re.IGNORECASE for phrase in _QUOTED.findall(query)}
    for token in _TOKEN.findall(_QUOTED.sub(" ", query)):
        token = token.lstrip(_BEFORE).rstrip(_AFTER)
        if _IDENTIFIER.fullmatch(token) is not None:
            found.setdefault(token, re.NOFLAG)
    made = [Identifier(all_words_of(text), _pattern(text, flags)) for text, flags in found.items()]
    return [each for each in made if each.words] if len(made) <= MOST else []


def _pattern(text: str, flags: re.RegexFlag) -> re.Pattern[str]:
    """Return the pattern that matches exactly an identifier, but not a part of a longer one."""
    before = r"(?<![\w-])" if text.startswith("-") else r"(?<!\w)" if text[0].isalnum() else ""
    after = r"(?!\w|[-./:]\w)" if re.match(r"\w", text[-1]) else ""
    exact = before + r"\s+".join(map(re.escape, text.split())) + after
    if (member := _MEMBER.fullmatch(text)) is not None:  # its definition does not name the class
        exact += rf"|\b(?:{_DEFINED})[ \t]+{member[1]}\b"
    return re.compile(exact, flags)
