"""Ranking: a passage counts with the score of its own text, and with the scores of its resource's text and names.

Only resources that the caller may see get a rank, so neither order nor score depends on the number of other resources.
Priority and recency change the score of a resource slightly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from carrel.search.engine import Match
from carrel.search.manifest import IndexedResource, importance_of, recency_of
from carrel.search.terms import Word
from carrel.sources.content.words import terms_of
from carrel.wire.timestamps import modified_at

__all__ = ["Matches", "Ranked", "Ranking", "best_of_each", "rank"]

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

#: Factors of the priority and the recency of a resource, at least and at most.
LEAST_FACTOR, GREATEST_FACTOR = 1 - BY_PRIORITY / 2, (1 + BY_PRIORITY / 2) * (1 + BY_RECENCY)
#: Share of a score by which a bound is lower, for rounding.
ROUNDING = 1e-9
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


class Ranking(NamedTuple):
    """Passages, best first: all with a score of ``least`` or more, and all that are ``named``."""

    passages: list[Ranked]
    least: float = 0.0


def rank(
    lookup: Callable[[Iterable[int]], Mapping[int, IndexedResource]],
    matches: Matches,
    words: Sequence[Word],
    now: datetime | None = None,
    *,
    by_rank: bool = False,
    first: int | None = None,
) -> Ranking:
    """Return the passages that match, and resources that match by their names only, best first.

    ``lookup`` returns resources by their numbers; resources that it leaves out are not ranked. A score is relative to
    the best score of the query; ``by_rank``: it depends on the rank of the resource only. ``first``: only the passages
    of at least so many resources are needed, and resources that are certain to come after these are not looked up.
    """
    own = {(match.number, match.first): match for match in matches.passages}
    whole = {match.number: match.score for match in reversed(matches.resources)}
    names = {match.number: match.score for match in reversed(matches.names)}
    most = max((match.score + WHOLE * whole.get(match.number, 0.0) for match in own.values()), default=1.0)
    near: dict[tuple[int, int], float] = {}
    for match, share in _shares(matches.meant):
        key = match.number, match.first
        near[key] = EMBEDDINGS * most * share
        own.setdefault(key, match._replace(score=0.0))
    extra = _extra(lookup, matches, words, most)
    with_text = {number for number, _ in own}
    found = [*own.values(), *(Match(number, 0, 0, 0.0) for number in {**names, **extra} if number not in with_text)]
    more = {
        number: WHOLE * whole.get(number, 0.0) + NAMES * names.get(number, 0.0) + extra.get(number, 0.0)
        for number in dict.fromkeys(match.number for match in found)
    }
    scores = [score + near.get((number, start), 0.0) + more[number] for number, start, _, score in found]
    named = {(match.number, match.first) for match in matches.named}
    numbers, least = set(more), 0.0
    if first is not None and len(more) > first:
        numbers, least = _first_of(found, scores, first)
        numbers |= {number for number, _ in named}
    entries, moment = lookup(numbers), (now or datetime.now(UTC)).timestamp()
    resources = {
        number: (entries[number].uri, _factor(entries[number], moment)) for number in numbers if number in entries
    }
    places: list[Place] = []
    for at, (match, score) in enumerate(zip(found, scores, strict=True)):
        if (resource := resources.get(match.number)) is not None:
            places.append((-score * resource[1], resource[0], match.first, at))
    places.sort()
    best = (-places[0][0] if places else 1.0) or 1.0
    least /= best
    places = _relative(places, best, found)
    if by_rank:
        places = _by_rank(places, found)
    ranked = []
    for score, _, start, at in places:
        match = found[at]
        is_named = (match.number, start) in named
        if -score >= least or is_named:
            ranked.append(Ranked(entries[match.number], -score, match if start else None, is_named))
    return Ranking(ranked, least)


def _extra(
    lookup: Callable[[Iterable[int]], Mapping[int, IndexedResource]],
    matches: Matches,
    words: Sequence[Word],
    most: float,
) -> dict[int, float]:
    """Return the bonus of resources with a misspelled name, and of resources whose name equals the query."""
    extra: dict[int, float] = {}
    for at, number in enumerate(dict.fromkeys(match.number for match in matches.misspelled)):
        extra[number] = MISSPELLED * most * SMOOTHING / (SMOOTHING + at)
    has_name = _naming({term for word in words for term in word.terms})
    numbers = [match.number for match in matches.names[:NAMED_FIRST]]
    entries = lookup(numbers)
    for number in numbers:
        if number in entries and has_name(entries[number]):
            extra[number] = extra.get(number, 0.0) + NAMED * most
    return extra


def _first_of(found: Iterable[Match], scores: Iterable[float], count: int) -> tuple[set[int], float]:
    """Return the resources that can be among the first ones, and a score that so many of them are certain to have.

    The scores are without priority and recency.
    """
    best: dict[int, float] = {}
    for match, score in zip(found, scores, strict=True):
        if score > best.get(match.number, -1.0):
            best[match.number] = score
    least = nlargest(count, best.values())[-1] * LEAST_FACTOR * (1 - ROUNDING)
    return {number for number, score in best.items() if score * GREATEST_FACTOR >= least * (1 - ROUNDING)}, least


def _relative(places: Iterable[Place], best: float, found: Sequence[Match]) -> list[Place]:
    """Return places in order, with scores relative to the best score and less for each better passage of a resource."""
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
        if name.isascii() and not all(map(name.lower().__contains__, asked)):
            return False  # faster than splitting the name, and most names
        stem, dot, _ = name.rpartition(".")
        return set(terms_of(name)) == asked or (bool(dot) and set(terms_of(stem)) == asked)

    return is_named
