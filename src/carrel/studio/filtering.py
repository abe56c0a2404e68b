"""Filter of the picker, as the host understands it."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from carrel.host.selection import uri_of

__all__ = ["ParsedFilter", "parse_filter"]


class Term(Protocol):
    """Term of a filter."""

    text: str
    field: str | None
    value: str
    negated: bool
    start: int
    end: int
    problem: str | None


class ParsedFilter(Protocol):
    """Filter of entries."""

    @property
    def words(self) -> str:
        """The words for a content search."""

    @property
    def terms(self) -> Any:
        """All terms."""

    def matches(self, server: str, item: Any) -> bool:
        """Return whether an entry matches."""


class Word(msgspec.Struct, frozen=True):
    """Word of a filter."""

    text: str
    value: str
    start: int
    end: int
    field: str | None = None
    negated: bool = False
    problem: str | None = None


class Words:
    """Filter of words only."""

    def __init__(self, text: str) -> None:
        self.terms: list[Word] = []
        at = 0
        for word in text.split():
            at = text.index(word, at)
            self.terms.append(Word(word, word.lower(), at, at + len(word)))
            at += len(word)
        self.words = " ".join(term.text for term in self.terms)

    def matches(self, server: str, item: Any) -> bool:
        """Return whether all words are in the names of an entry."""
        texts = (item.name, item.title, item.description, uri_of(item))
        every = " ".join(text for text in texts if text).lower()
        return all(term.value in every for term in self.terms)


def parse_filter(text: str) -> ParsedFilter:
    """Return the filter that a text describes."""
    return Words(text)
