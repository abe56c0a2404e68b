"""ToolIndex: full-text search for tools, with BM25 over names, titles, descriptions and arguments.

Each field has a weight and is normalized by its length (BM25F): a word in a name counts more than a word in a long
description. Tools whose name equals the query, or begins with it, are ranked first.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from carrel.sources.content.words import is_cjk, terms_of
from carrel.wire.tools import Tool

__all__ = ["ToolIndex", "ToolMatch"]

#: Weight of each field, and its length normalization (b in BM25).
FIELDS: Mapping[str, tuple[float, float]] = {
    "name": (3.0, 0.4),
    "title": (2.0, 0.4),
    "description": (1.0, 0.6),
    "arguments": (0.8, 0.6),
    "about": (0.4, 0.6),
}
#: Saturation of repeated terms (k1 in BM25).
SATURATION = 1.2
#: Weights of inexact matches: an indexed term that begins with a query term, has a similar spelling, or is a synonym.
BEGINS, ALIKE, SAME = 0.5, 0.6, 0.4
#: Maximum number of query terms to look up, and of indexed terms that begin with a query term.
MAX_TERMS, MAX_BEGINNINGS = 32, 20
#: Minimum length of a query term for prefix matches.
SHORTEST = 3
#: Maximum number of indexed characters of a description.
INDEXED = 4000
#: Stop words, which are ignored in a query unless it has no other words.
STOP_WORDS = frozenset(
    terms_of(
        "a about all an and any are as at be by can could do does for from get give have how i in into is it its let "
        "like me my need of on or our please show some that the there these this to up us use using want was we what "
        "when where which who will with would you your"
    )
)
#: Synonyms that users and authors of tools use, one group per line.
SYNONYMS = """
create make add new insert
delete remove erase forget cancel
update edit change modify set
search find look query lookup
show display view list print
send post write
fetch download load retrieve
run execute start invoke
folder directory
picture image photo
mail email message
song track music
bug issue error exception
size big large bytes
person user people
meeting appointment event
computer machine host
"""


class IndexedTool(NamedTuple):
    """Tool with the terms of its fields."""

    tool: Tool
    fields: Mapping[str, Counter[str]]
    key: str
    """Name of the tool in lower case, with letters and digits only."""


class ToolMatch(NamedTuple):
    """Search result. ``named``: the tool's name equals the query, or begins with it."""

    tool: Tool
    score: float
    named: bool


class ToolIndex:
    """Full-text index of tools. Unchanged tools are reused from the index ``before``."""

    def __init__(self, tools: Iterable[Tool], before: ToolIndex | None = None) -> None:
        known: Mapping[str, IndexedTool] = {} if before is None else before._documents
        self._documents: Mapping[str, IndexedTool] = {tool.name: _known(known.get(tool.name), tool) for tool in tools}
        self.tools: Sequence[Tool] = [document.tool for document in self._documents.values()]
        """The tools in their order, without duplicate names."""
        self._postings = _postings(list(self._documents.values()))
        self._vocabulary = sorted(self._postings)
        self.scored = 0
        """Number of postings that all queries so far have read."""

    def __len__(self) -> int:
        return len(self.tools)

    def get(self, name: str) -> Tool | None:
        """Return a tool by name, or None."""
        document = self._documents.get(name)
        return None if document is None else document.tool

    def search(self, query: str) -> list[ToolMatch]:
        """Return the tools that match a query, best first. Tools whose name begins with the query come first."""
        scores: dict[int, float] = {}
        for term, weight in self._expanded(query):
            postings = self._postings[term]
            self.scored += len(postings)
            for at, gain in postings:
                scores[at] = scores.get(at, 0.0) + gain * weight
        named = self._named(query.strip())
        ranked = sorted({*scores, *named}, key=lambda at: (named.get(at, 2), -scores.get(at, 0.0), at))
        return [ToolMatch(self.tools[at], scores.get(at, 0.0), at in named) for at in ranked]

    def _named(self, query: str) -> dict[int, int]:
        """Return the indexes of tools whose name equals the query (0) or begins with it (1)."""
        key = _key_of(query)
        if not key:
            return {}
        found = {}
        for at, (name, document) in enumerate(self._documents.items()):
            if document.key.startswith(key):
                found[at] = 0 if name == query or document.key == key else 1
        return found

    def _expanded(self, query: str) -> Iterator[tuple[str, float]]:
        """Yield the indexed terms that match a query, each with its weight."""
        every = list(dict.fromkeys(terms_of(query)))
        asked = dict.fromkeys(map(_stem, [term for term in every if term not in STOP_WORDS] or every))
        for term in list(asked)[:MAX_TERMS]:
            exact = term in self._postings
            if exact:
                yield term, 1.0
            beginnings = list(self._beginning_with(term))
            yield from ((other, BEGINS) for other in beginnings)
            others = [other for other in _synonyms().get(term, ()) if other in self._postings]
            yield from ((other, SAME) for other in others)
            if not (exact or beginnings or others) and len(asked) <= MAX_TERMS and len(term) > SHORTEST:
                from difflib import get_close_matches  # import only if a word is not indexed

                yield from ((other, ALIKE) for other in get_close_matches(term, self._vocabulary, n=2, cutoff=0.8))

    def _beginning_with(self, term: str) -> Iterator[str]:
        if len(term) < SHORTEST and not is_cjk(term[0]):
            return
        at = bisect_left(self._vocabulary, term)
        for other in self._vocabulary[at : at + MAX_BEGINNINGS + 1]:
            if not other.startswith(term):
                return
            if other != term:
                yield other


def _known(document: IndexedTool | None, tool: Tool) -> IndexedTool:
    return document if document is not None and document.tool == tool else _document(tool)


def _document(tool: Tool) -> IndexedTool:
    title = tool.title or (tool.annotations.title if tool.annotations is not None else None) or ""
    names, about = _arguments(tool.input_schema)
    texts = {
        "name": tool.name,
        "title": title,
        "description": (tool.description or "")[:INDEXED],
        "arguments": " ".join(names),
        "about": " ".join(about)[:INDEXED],
    }
    return IndexedTool(
        tool, {field: Counter(map(_stem, terms_of(text))) for field, text in texts.items()}, _key_of(tool.name)
    )


def _arguments(schema: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the arguments, and a list of their descriptions and enum values."""
    properties = schema.get("properties")
    fields = properties if isinstance(properties, dict) else {}
    about: list[str] = []
    for field in fields.values():
        if isinstance(field, dict):
            choices = field.get("enum")
            about += [field["description"]] if isinstance(field.get("description"), str) else []
            about += [text for text in choices if isinstance(text, str)] if isinstance(choices, list) else []
    return [str(name) for name in fields], about


def _key_of(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def _postings(documents: list[IndexedTool]) -> dict[str, list[tuple[int, float]]]:
    """Return the postings of each term: the index of each document with it, and its contribution to the score."""
    total = len(documents)
    lengths = {
        field: max(1.0, sum(sum(document.fields[field].values()) for document in documents) / max(1, total))
        for field in FIELDS
    }
    weighed: dict[str, list[tuple[int, float]]] = {}
    for at, document in enumerate(documents):
        frequencies: dict[str, float] = {}
        for field, (weight, b) in FIELDS.items():
            counts = document.fields[field]
            share = weight / (1 - b + b * sum(counts.values()) / lengths[field])
            for term, count in counts.items():
                frequencies[term] = frequencies.get(term, 0.0) + count * share
        for term, frequency in frequencies.items():
            weighed.setdefault(term, []).append((at, frequency))
    postings = {}
    for term, found in weighed.items():
        gain = _rarity(len(found), total) * (SATURATION + 1)
        postings[term] = [(at, gain * frequency / (frequency + SATURATION)) for at, frequency in found]
    return postings


def _rarity(having: int, total: int) -> float:
    """Return the inverse document frequency of a term that ``having`` of ``total`` documents contain."""
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


@lru_cache(1)
def _synonyms() -> Mapping[str, Sequence[str]]:
    """Return the synonyms of each term."""
    groups = [list(map(_stem, line.split())) for line in SYNONYMS.strip().splitlines()]
    return {term: [other for other in group if other != term] for group in groups for term in group}


@lru_cache(4096)
def _stem(term: str) -> str:
    """Return the stem of an English word: "creates", "created" and "creating" become "creat"."""
    if len(term) <= SHORTEST or not term.isascii():
        return term
    if term.endswith("ies") and len(term) > 4:
        return term[:-3] + "y"
    if term.endswith(("ses", "xes", "zes", "ches", "shes")):
        term = term[:-2]
    elif term.endswith("s") and not term.endswith(("ss", "us", "is")):
        term = term[:-1]
    for ending in ("ing", "ed"):
        if term.endswith(ending) and len(term) - len(ending) >= SHORTEST:
            term = term.removesuffix(ending)
            if len(term) > SHORTEST and term[-1] == term[-2] and term[-1] not in "lsz":
                term = term[:-1]
            break
    return term.removesuffix("e") if len(term) > SHORTEST else term
