"""Near-duplicates of texts: most of the runs of five words of one text are also in the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from carrel.sources.content.words import CJK

__all__ = ["Seen"]

Key: TypeAlias = tuple[str, str]
"""Server and URI of a resource."""

_WORD = re.compile(rf"[{CJK}]|(?:(?![{CJK}])\w)+")
#: Words of a shingle, and the share of shingles that near-duplicates have in common.
SIZE, SHARE = 5, 0.8


class Seen:
    """Shingles of texts, each with the resource that had it first."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, ...], Key] = {}

    def add(self, text: str, key: Key) -> None:
        """Add the text of a resource."""
        for shingle in shingles(text):
            self._owners.setdefault(shingle, key)

    def owner_of(self, text: str) -> Key | None:
        """Return the resource that has most of a text already, or None."""
        found = list(shingles(text))
        counts: dict[Key, int] = {}
        for shingle in found:
            owner = self._owners.get(shingle)
            if owner is not None:
                counts[owner] = counts.get(owner, 0) + 1
        if not counts:
            return None
        most = max(counts, key=lambda key: (counts[key], key))
        return most if counts[most] >= SHARE * len(found) else None


def shingles(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the runs of words of a text, without case and punctuation; a short text is one run."""
    words = _WORD.findall(text.casefold()) or text.split()
    if not words:
        return
    for at in range(max(1, len(words) - SIZE + 1)):
        yield tuple(words[at : at + SIZE])
