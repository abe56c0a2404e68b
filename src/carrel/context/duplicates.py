"""Near-duplicates of texts: most of the runs of five words of one text are also in the other.

Markup does not count, so that Markdown, HTML and reStructuredText of one page are near-duplicates: link targets, tags,
roles, directives and languages of code blocks are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from carrel.sources.content.words import CJK

__all__ = ["Seen"]

Key: TypeAlias = tuple[str, str]
"""Server and URI of a resource."""

_WORD = re.compile(rf"[{CJK}]|(?:(?![{CJK}])[^\W_])+")
_MARKUP = re.compile(
    r"\]\([^\s()]*(?:\([^\s()]*\)[^\s()]*)*(?:\s{1,20}\"[^\"\n]{0,300}\")?\)"  # [text](target "title")
    r"|\]\[[^\]\n]{0,200}\]|^[ \t]*\[[^\]\n]{1,200}\]:[^\n]*"  # [text][reference], and its definition
    r"|\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`)\]]*"
    r"|</?[a-z][^<>]{0,500}>|<!--|&(?:[a-z]{2,20}|#[0-9]{1,7});"
    r"|\s<[^<>\n]{1,300}>(?=`)|:[a-z][\w:+.-]{0,40}:(?=`)|^[ \t]*\.\.[ \t]+[\w:+.-]{1,60}::"  # reStructuredText
    r"|^[ \t]*(?:`{3}|~{3})[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
#: Words of a shingle, and the share of the shingles of one text that near-duplicates have in common.
SIZE, SHARE = 5, 0.8
#: Smallest length of an earlier text, as a share of a later text that contains it, for near-duplicates.
ALIKE = 0.6


class Seen:
    """Shingles of texts, each with the text that had it first, and the resources of the texts."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, ...], int] = {}
        self._keys: list[Key] = []
        self._sizes: list[int] = []

    def add(self, text: str, key: Key) -> None:
        """Add a text of a resource."""
        before, number = len(self._owners), len(self._keys)
        for shingle in shingles(text):
            self._owners.setdefault(shingle, number)
        self._keys.append(key)
        self._sizes.append(len(self._owners) - before)

    def owner_of(self, text: str) -> Key | None:
        """Return the resource whose texts contain most of a text, or None.

        If there is no such resource, return a resource with a text that is mostly contained in ``text``, if that text
        is not much shorter.
        """
        found = set(shingles(text))
        counts = Counter(owner for owner in map(self._owners.get, found) if owner is not None)
        if not counts:
            return None
        of_keys = Counter[Key]()
        for number, count in counts.items():
            of_keys[self._keys[number]] += count
        most = max(of_keys, key=lambda key: (of_keys[key], key))
        if of_keys[most] >= SHARE * len(found):
            return most
        number = max(counts, key=lambda each: (counts[each], -each))
        size = self._sizes[number]
        return self._keys[number] if counts[number] >= SHARE * size and size >= ALIKE * len(found) else None


def shingles(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the runs of words of a text, without case, punctuation and markup; a short text is one run."""
    words = _WORD.findall(_MARKUP.sub(" ", text).casefold()) or text.split()
    if not words:
        return
    for at in range(max(1, len(words) - SIZE + 1)):
        yield tuple(words[at : at + SIZE])
