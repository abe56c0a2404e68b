"""Index of tools: finds those that a query describes, by BM25 over their names, titles, descriptions and arguments.

Fields count with different weights, and each is normalized by its own length (BM25F): a word in a name says more than
one in a long description. Tools whose name is the query, or begins with it, come before all others.
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

__all__ = ["Found", "ToolIndex"]

#: Weight of each field, and how much its length counts (the b of BM25).
FIELDS: Mapping[str, tuple[float, float]] = {
    "name": (3.0, 0.4),
    "title": (2.0, 0.4),
    "description": (1.0, 0.6),
    "arguments": (0.8, 0.6),
    "about": (0.4, 0.6),
}
#: Saturation of repeated terms (the k1 of BM25).
SATURATION = 1.2
#: What a term counts that only begins with a term of the query, is spelled much like it, or means the same.
BEGINS, ALIKE, SAME = 0.5, 0.6, 0.4
#: Most terms of a query that are looked up, and most terms of the index that begin with one of them.
MAX_TERMS, MAX_BEGINNINGS = 32, 20
#: Fewest letters of a term that others may begin with.
SHORTEST = 3
#: Characters of a description that are indexed.
INDEXED = 4000
#: Words that say nothing about which tool is meant; a query that has only these is taken as it is.
STOP_WORDS = frozenset(
    terms_of(
        "a about all an and any are as at be by can could do does for from get give have how i in into is it its let "
        "like me my need of on or our please show some that the there these this to up us use using want was we what "
        "when where which who will with would you your"
    )
)
#: Words that people and authors of tools use for the same thing.
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


class Document(NamedTuple):
    """Tool with the terms of its fields."""

    tool: Tool
    fields: Mapping[str, Counter[str]]
    key: str
    """Its name without case, underscores and dashes."""


class Found(NamedTuple):
    """Tool that a query describes. ``named``: the name is the query, or begins with it."""

    tool: Tool
    score: float
    named: bool


class ToolIndex:
    """Index of some tools. ``before`` is an index whose work for the same tools is used again."""

    def __init__(self, tools: Iterable[Tool], before: ToolIndex | None = None) -> None:
        known: Mapping[str, Document] = {} if before is None else before._documents
        self._documents: Mapping[str, Document] = {tool.name: _known(known.get(tool.name), tool) for tool in tools}
        self.tools: Sequence[Tool] = [document.tool for document in self._documents.values()]
        """The tools, one of each name, in their order."""
        self._postings = _postings(list(self._documents.values()))
        self._vocabulary = sorted(self._postings)
        self.scored = 0
        """How many postings the queries so far have read."""

    def __len__(self) -> int:
        return len(self.tools)

    def get(self, name: str) -> Tool | None:
        """Return the tool of a name, or None."""
        document = self._documents.get(name)
        return None if document is None else document.tool

    def search(self, query: str) -> list[Found]:
        """Return the tools that a query describes, best first: the one of that name, those whose name begins so."""
        scores: dict[int, float] = {}
        for term, weight in self._expanded(query):
            postings = self._postings[term]
            self.scored += len(postings)
            for at, gain in postings:
                scores[at] = scores.get(at, 0.0) + gain * weight
        named = self._named(query.strip())
        ranked = sorted({*scores, *named}, key=lambda at: (named.get(at, 2), -scores.get(at, 0.0), at))
        return [Found(self.tools[at], scores.get(at, 0.0), at in named) for at in ranked]

    def _named(self, query: str) -> dict[int, int]:
        """Return the places of tools whose name is the query (0) or begins with it (1)."""
        key = _key_of(query)
        if not key:
            return {}
        found = {}
        for at, (name, document) in enumerate(self._documents.items()):
            if document.key.startswith(key):
                found[at] = 0 if name == query or document.key == key else 1
        return found

    def _expanded(self, query: str) -> Iterator[tuple[str, float]]:
        """Yield the terms of the index that a query asks for, each with what it counts."""
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
                from difflib import get_close_matches  # only for a word that is not there

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


def _known(document: Document | None, tool: Tool) -> Document:
    return document if document is not None and document.tool == tool else _document(tool)


def _document(tool: Tool) -> Document:
    title = tool.title or (tool.annotations.title if tool.annotations is not None else None) or ""
    names, about = _arguments(tool.input_schema)
    texts = {
        "name": tool.name,
        "title": title,
        "description": (tool.description or "")[:INDEXED],
        "arguments": " ".join(names),
        "about": " ".join(about)[:INDEXED],
    }
    return Document(
        tool, {field: Counter(map(_stem, terms_of(text))) for field, text in texts.items()}, _key_of(tool.name)
    )


def _arguments(schema: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the arguments, and their descriptions and the values they are chosen from."""
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


def _postings(documents: list[Document]) -> dict[str, list[tuple[int, float]]]:
    """Return for each term the places of the documents that have it, each with what it adds to their score."""
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
    """Return the inverse document frequency of a term that so many documents of all have."""
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


@lru_cache(1)
def _synonyms() -> Mapping[str, Sequence[str]]:
    """Return for each term those that mean the same."""
    groups = [list(map(_stem, line.split())) for line in SYNONYMS.strip().splitlines()]
    return {term: [other for other in group if other != term] for group in groups for term in group}


@lru_cache(4096)
def _stem(term: str) -> str:
    """Return a term without the endings of English: "creates", "created" and "creating" are "creat"."""
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
