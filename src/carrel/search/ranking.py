"""Ranking: a passage counts with the score of its own text, and with the scores of its resource's text and names.

Only resources that the caller may see get a rank, so neither order nor score depends on the number of other resources.
Priority and recency change the score of a resource slightly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from carrel.search.engine import Match
from carrel.search.manifest import IndexedResource, importance_of, recency_of
from carrel.search.terms import Word
from carrel.sources.content.words import terms_of
from carrel.wire.timestamps import modified_at

__all__ = ["Matches", "Ranked", "best_of_each", "rank"]

#: Weights of scores, relative to the score of a passage: of the whole text of the resource, and of its names.
WHOLE, NAMES = 1.25, 0.3
#: Share of the best score that the passage with the most similar embedding gets.
EMBEDDINGS = 0.2
#: Share of the best score that the first resource by a misspelled name gets, and the ranks after which it has halved.
MISSPELLED, SMOOTHING = 0.3, 20
#: How much priority and recency can change a score.
BY_PRIORITY, BY_RECENCY = 0.2, 0.05
#: Share of its score that a passage keeps for each better passage of the same resource.
MORE = 0.98
#: Bonus of a resource whose name without the extension equals the query, as a share of the best score.
NAMED = 1.0

#: Resources, the first by their names, whose name is compared with the query.
NAMED_FIRST = 30


Place: TypeAlias = tuple[float, str, int, int]
"""Score of a passage, negated, the URI of its resource, its first line, and its position. The least one is the best."""


class Ranked(NamedTuple):
    """Passage of a resource with its score, from 0 to 1; the passage is None if only the name matches.

    ``named``: the passage has all words of an identifier of the query.
    """

    entry: IndexedResource
    score: float
    passage: Match | None
    named: bool = False


class Matches(NamedTuple):
    """Matches of a query of each kind, best first.

    ``meant`` are passages that match by their embeddings, ``named`` passages with all words of an identifier.
    """

    passages: Sequence[Match]
    resources: Sequence[Match]
    names: Sequence[Match]
    misspelled: Sequence[Match]
    meant: Sequence[Match] = ()
    named: Sequence[Match] = ()


def rank(
    entries: Mapping[int, IndexedResource],
    matches: Matches,
    words: Sequence[Word],
    now: datetime | None = None,
    *,
    by_rank: bool = False,
) -> list[Ranked]:
    """Return the passages of ``entries`` that match, and resources that match by their names only, best first.

    A score is relative to the best score of the query; ``by_rank``: it depends on the rank of the resource only.
    """
    whole = {match.number: match.score for match in reversed(matches.resources)}
    names = {match.number: match.score for match in reversed(matches.names)}
    named = {(match.number, match.first) for match in matches.named}
    own = {(match.number, match.first): match for match in matches.passages}
    most = max((match.score + WHOLE * whole.get(match.number, 0.0) for match in own.values()), default=1.0)
    extra: dict[int, float] = {}
    for at, number in enumerate(dict.fromkeys(match.number for match in matches.misspelled)):
        extra[number] = MISSPELLED * most * SMOOTHING / (SMOOTHING + at)
    has_name = _naming({term for word in words for term in word.terms})
    for match in matches.names[:NAMED_FIRST]:
        if match.number in entries and has_name(entries[match.number]):
            extra[match.number] = extra.get(match.number, 0.0) + NAMED * most
    near: dict[tuple[int, int], float] = {}
    for match, share in _shares(matches.meant):
        key = match.number, match.first
        near[key] = EMBEDDINGS * most * share
        own.setdefault(key, match._replace(score=0.0))
    found = list(own.values())
    with_text = {number for number, _ in own}
    found += [Match(number, 0, 0, 0.0) for number in {**names, **extra} if number not in with_text]
    moment = (now or datetime.now(UTC)).timestamp()
    resources: dict[int, tuple[str, float, float]] = {}
    for number in dict.fromkeys(match.number for match in found):
        if (entry := entries.get(number)) is not None:
            score = WHOLE * whole.get(number, 0.0) + NAMES * names.get(number, 0.0) + extra.get(number, 0.0)
            resources[number] = entry.uri, score, _factor(entry, moment)
    places: list[Place] = []
    for at, (number, first, _, score) in enumerate(found):
        if (resource := resources.get(number)) is not None:
            uri, more, factor = resource
            places.append((-(score + near.get((number, first), 0.0) + more) * factor, uri, first, at))
    places = _relative(places, found)
    if by_rank:
        places = _by_rank(places, found)
    ranked = []
    for score, _, first, at in places:
        match = found[at]
        is_named = (match.number, first) in named
        ranked.append(Ranked(entries[match.number], -score, match if first else None, is_named))
    return ranked


def _relative(places: list[Place], found: Sequence[Match]) -> list[Place]:
    """Return places in order, with scores relative to the best score and less for each better passage of a resource."""
    places.sort()
    best = (-places[0][0] if places else 1.0) or 1.0
    better: dict[int, int] = {}
    relative: list[Place] = []
    for score, uri, first, at in places:
        number = found[at].number
        count = better.get(number, 0)
        better[number] = count + 1
        relative.append((score / best * MORE**count, uri, first, at))
    relative.sort(key=itemgetter(0, 1, 2))
    return relative


def _by_rank(places: list[Place], found: Sequence[Match]) -> list[Place]:
    """Return places with scores that depend on the rank of the resource only."""
    ranks = {number: at for at, number in enumerate(dict.fromkeys(found[at].number for *_, at in places))}
    return [(-SMOOTHING / (SMOOTHING + ranks[found[at].number]), uri, first, at) for _, uri, first, at in places]


def _shares(meant: Sequence[Match]) -> Iterator[tuple[Match, float]]:
    """Yield passages with their similarity, as the share from the least similar one (0) to the most similar one (1)."""
    if meant:
        most, least = meant[0].score, meant[-1].score
        for match in meant:
            yield match, (match.score - least) / (most - least) if most > least else 1.0


def best_of_each(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Return the first passage of each resource."""
    seen: dict[int, Ranked] = {}
    for each in ranked:
        seen.setdefault(each.entry.number, each)
    return list(seen.values())


def _factor(entry: IndexedResource, now: float) -> float:
    """Return the factor for the priority and the recency of a resource."""
    annotations = entry.resource.annotations
    recency = recency_of(modified_at(annotations), now)
    return (1 + BY_PRIORITY * (importance_of(annotations) - 0.5)) * (1 + BY_RECENCY * recency)


def _naming(asked: set[str]) -> Callable[[IndexedResource], bool]:
    """Return the predicate for resources whose name, without its ending, has just the terms of the query."""

    def is_named(entry: IndexedResource) -> bool:
        name = entry.resource.name
        stem, dot, _ = name.rpartition(".")
        return set(terms_of(name)) == asked or (bool(dot) and set(terms_of(stem)) == asked)

    return is_named
