"""The ranking of passages, against its definition written down plainly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from carrel.search.engine import Match
from carrel.search.manifest import IndexedResource, importance_of, recency_of
from carrel.search.ranking import (
    BY_PRIORITY,
    BY_RECENCY,
    EMBEDDINGS,
    MISSPELLED,
    MORE,
    NAMED,
    NAMES,
    SMOOTHING,
    WHOLE,
    Matches,
    Ranked,
    rank,
)
from carrel.search.terms import words_of
from carrel.wire.base import Annotations
from carrel.wire.resources import Resource
from carrel.wire.timestamps import modified_at

NOW, NUMBERS = datetime(2026, 1, 1, tzinfo=UTC), range(6)
#: The last two resources have the same URI, of two sources, and one of the numbers has none.
ENTRIES = {
    number: IndexedResource(
        number,
        f"source {number}",
        f"memo://{min(number, 3)}",
        Resource(
            f"memo://{min(number, 3)}",
            "tea.md" if number == 1 else "pot.md",
            annotations=Annotations(priority=[None, 0.0, 1.0][number % 3], last_modified=f"2025-1{number % 2}-01"),
        ),
        "",
        0.0,
        1,
        b"",
        True,
    )
    for number in NUMBERS[:5]
}
#: Few different scores, so that many are equal.
SCORES = st.sampled_from([0.0, 0.5, 1.0, 1.1, 3.0, 7.7])


def matches_of(first: st.SearchStrategy[int]) -> st.SearchStrategy[list[Match]]:
    made = st.builds(lambda number, at, score: Match(number, at, at, score), st.sampled_from(NUMBERS), first, SCORES)
    return st.lists(made, max_size=12).map(lambda found: sorted(found, key=lambda match: -match.score))


PASSAGES, WHOLES = matches_of(st.integers(1, 3)), matches_of(st.just(0))
ALL = st.builds(Matches, PASSAGES, WHOLES, WHOLES, WHOLES, PASSAGES, PASSAGES)


def expected(matches: Matches, *, by_rank: bool) -> list[Ranked]:
    """Return the passages with the scores of the definition, best first."""
    whole = {match.number: match.score for match in reversed(matches.resources)}
    names = {match.number: match.score for match in reversed(matches.names)}
    own = {(match.number, match.first): match for match in matches.passages}
    most = max((match.score + WHOLE * whole.get(match.number, 0.0) for match in own.values()), default=1.0)
    extra = Counter[int]()
    for at, number in enumerate(dict.fromkeys(match.number for match in matches.misspelled)):
        extra[number] = MISSPELLED * most * SMOOTHING / (SMOOTHING + at)  # type: ignore[assignment]
    for match in matches.names:
        if match.number in ENTRIES and ENTRIES[match.number].resource.name == "tea.md":
            extra[match.number] += NAMED * most  # type: ignore[assignment]
    near: dict[tuple[int, int], float] = {}
    for match in matches.meant:
        spread = matches.meant[0].score - matches.meant[-1].score
        share = (match.score - matches.meant[-1].score) / spread if spread > 0 else 1.0
        near[match.number, match.first] = EMBEDDINGS * most * share
        own.setdefault((match.number, match.first), match._replace(score=0.0))
    with_text = {number for number, _ in own}
    others = [Match(number, 0, 0, 0.0) for number in {**names, **extra} if number not in with_text]
    found: list[Ranked] = []
    for match in (*own.values(), *others):
        if (entry := ENTRIES.get(match.number)) is not None:
            score = match.score + near.get((match.number, match.first), 0.0)
            score += WHOLE * whole.get(entry.number, 0.0) + NAMES * names.get(entry.number, 0.0) + extra[entry.number]
            annotations = entry.resource.annotations
            score *= (1 + BY_PRIORITY * (importance_of(annotations) - 0.5)) * (
                1 + BY_RECENCY * recency_of(modified_at(annotations), NOW.timestamp())
            )
            named = any((each.number, each.first) == (match.number, match.first) for each in matches.named)
            found.append(Ranked(entry, score, match if match.first else None, named))
    found = in_order(found)
    best, better = (found[0].score if found else 0.0) or 1.0, Counter[int]()
    for at, each in enumerate(found):
        found[at] = each._replace(score=each.score / best * MORE ** better[each.entry.number])
        better[each.entry.number] += 1
    found = in_order(found)
    if by_rank:
        order = list(dict.fromkeys(each.entry.number for each in found))
        found = [each._replace(score=SMOOTHING / (SMOOTHING + order.index(each.entry.number))) for each in found]
    return found


def in_order(found: Sequence[Ranked]) -> list[Ranked]:
    def key(each: Ranked) -> tuple[float, str, int]:
        return -each.score, each.entry.uri, each.passage.first if each.passage is not None else 0

    return sorted(found, key=key)


def lookup(numbers: Iterable[int]) -> Mapping[int, IndexedResource]:
    return ENTRIES


@given(ALL, st.booleans())
def test_passages_have_the_scores_and_the_order_of_the_definition(matches: Matches, by_rank: bool) -> None:
    ranking = rank(lookup, matches, words_of("tea"), NOW, by_rank=by_rank)
    assert ranking == (expected(matches, by_rank=by_rank), 0.0)


@given(ALL, st.integers(1, 5))
def test_the_first_passages_are_the_first_of_all(matches: Matches, first: int) -> None:
    looked_up: set[int] = set()

    def found(numbers: Iterable[int]) -> Mapping[int, IndexedResource]:
        looked_up.update(numbers)
        return {number: ENTRIES[number] for number in looked_up if number in ENTRIES}

    passages, least = rank(found, matches, words_of("tea"), NOW, first=first)
    every = expected(matches, by_rank=False)
    assert passages == [each for each in every if each.score >= least or each.named]
    numbers = {each.entry.number for each in every}
    if numbers <= ENTRIES.keys() and len(numbers) >= first and not matches_absent(matches):
        assert len({each.entry.number for each in passages if each.score >= least}) >= first


def matches_absent(matches: Matches) -> bool:
    """Return whether some matches are of a resource that is not there."""
    return any(match.number not in ENTRIES for kind in matches for match in kind)


def test_resources_that_cannot_be_among_the_first_are_not_looked_up() -> None:
    looked_up: set[int] = set()

    def found(numbers: Iterable[int]) -> Mapping[int, IndexedResource]:
        looked_up.update(numbers)
        return ENTRIES

    passages = [Match(number, 1, 9, score) for number, score in enumerate((9.0, 8.0, 5.0, 4.0))]
    ranking = rank(found, Matches(passages, [], [], []), words_of("tea"), NOW, first=2)
    assert looked_up == {0, 1}
    assert [each.entry.number for each in ranking.passages] == [0, 1]


def test_nothing_matches_nothing() -> None:
    assert rank(lookup, Matches([], [], [], []), words_of("tea"), NOW) == ([], 0.0)
