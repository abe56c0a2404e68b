"""Ranking: passages, whole resources and names, fused by their ranks (RRF), with priority and recency.

Only resources that the caller may see get a rank, so neither order nor score depends on the number of other resources.
A resource that is first in all lists has a score near 1.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from carrel.search.engine import Match
from carrel.search.manifest import IndexedResource, importance_of
from carrel.search.terms import Word
from carrel.sources.content.words import terms_of

__all__ = ["Matches", "Ranked", "fuse"]

#: Constant of reciprocal rank fusion: the higher, the less the first ranks stand out.
SMOOTHING = 20
#: Weights of the lists: the best passage, the whole resource, its names, and its names with typing mistakes.
PASSAGE, WHOLE, NAMES, MISSPELLED = 1.0, 1.0, 1.0, 0.35
#: Weight of passages that match by embedding: as much as both lists of words in the text together.
EMBEDDINGS = 2.0
#: Weight of the next passage of a resource, relative to the previous passage.
FADING = 0.5
#: How much priority and recency can change a score, and the days after which recency has halved.
BY_PRIORITY, BY_RECENCY, HALF_LIFE = 0.2, 0.05, 90.0
#: Bonus of a resource whose name without the extension equals the query.
NAMED = 1.0

#: Resources that names, priority and recency can move.
LOOKED_AT = 300
#: Resources, the first by their names, whose name is compared with the query.
NAMED_FIRST = 30


class Ranked(NamedTuple):
    """Resource with its score, and the best of its passages; None if only its name matches."""

    entry: IndexedResource
    score: float
    passage: Match | None


class Matches(NamedTuple):
    """Matches of a query of each kind, best first. ``meant`` are passages that match by their embeddings."""

    passages: Iterable[Match]
    names: Iterable[Match]
    misspelled: Iterable[Match]
    meant: Iterable[Match] = ()


def fuse(
    entries: Mapping[int, IndexedResource],
    matches: Matches,
    words: list[Word],
    now: datetime | None = None,
) -> list[Ranked]:
    """Return the resources of ``entries`` that match, best first."""
    best: dict[int, Match] = {}
    sums: dict[int, float] = {}
    counts: dict[int, int] = {}
    for match in matches.passages:
        number = match.number
        if number in entries:
            best.setdefault(number, match)
            count = counts[number] = counts.get(number, -1) + 1
            sums[number] = sums.get(number, 0.0) + match.score * FADING**count
    whole = sorted(sums, key=lambda number: -sums[number])
    named = [match.number for match in matches.names if match.number in entries]
    alike = [match.number for match in matches.misspelled if match.number in entries]
    scores: dict[int, float] = {}
    nearest: dict[int, Match] = {}
    for match in matches.meant:
        if match.number in entries:
            nearest.setdefault(match.number, match)
    lists = ((PASSAGE, best), (WHOLE, whole), (NAMES, named), (MISSPELLED, alike), (EMBEDDINGS, nearest))
    for weight, ranking in lists:
        for rank, number in enumerate(dict.fromkeys(ranking)):
            scores[number] = scores.get(number, 0.0) + weight / (SMOOTHING + rank)
    asked = {term for word in words for term in word.terms}
    is_named, closest = _naming(asked), set(named[:NAMED_FIRST])
    moment = now or datetime.now(UTC)
    most = PASSAGE + WHOLE + NAMES + MISSPELLED + NAMED + (EMBEDDINGS if nearest else 0.0)
    most *= (1 + BY_PRIORITY / 2 + BY_RECENCY) / SMOOTHING
    ranked = []
    first = heapq.nlargest(LOOKED_AT, scores, key=lambda number: (scores[number], -number))
    for number in first:
        score = scores[number]
        entry = entries[number]
        if number in closest and is_named(entry):
            score += NAMED / SMOOTHING
        annotations = entry.resource.annotations
        score *= 1 + BY_PRIORITY * (importance_of(annotations) - 0.5)
        score *= 1 + BY_RECENCY * _recency(None if annotations is None else annotations.last_modified, moment)
        ranked.append(Ranked(entry, min(1.0, score / most), best.get(number) or nearest.get(number)))
    ranked.sort(key=lambda each: (-each.score, each.entry.uri))
    return ranked


def _naming(asked: set[str]) -> Callable[[IndexedResource], bool]:
    """Return the predicate for resources whose name, without its ending, has just the terms of the query."""

    def is_named(entry: IndexedResource) -> bool:
        name = entry.resource.name
        stem, dot, _ = name.rpartition(".")
        return set(terms_of(name)) == asked or (bool(dot) and set(terms_of(stem)) == asked)

    return is_named


def _recency(modified: str | None, now: datetime) -> float:
    """Return how recent a time is: 1 now, half after three months, 0 if it is not known."""
    if modified is None:
        return 0.0
    try:
        then = datetime.fromisoformat(modified)
    except ValueError:
        return 0.0
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    days = max(0.0, (now - then).total_seconds() / 86400)
    return math.pow(0.5, days / HALF_LIFE)
