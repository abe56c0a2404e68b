"""Sorted intervals of keys, against sets of keys that are written out."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.uri.intervals import Intervals, exactly, prefixed

LETTERS = "ab\U0010ffff"
KEYS = sorted("".join(letters) for size in range(4) for letters in product(LETTERS, repeat=size))
TEXTS = st.text(LETTERS, max_size=3)
SPANS = st.lists(st.builds(exactly, TEXTS) | st.builds(prefixed, TEXTS), max_size=5)


@given(st.lists(st.tuples(st.booleans(), TEXTS), max_size=5))
def test_a_key_is_in_the_intervals_that_have_it_or_its_prefix(rows: list[tuple[bool, str]]) -> None:
    intervals = Intervals.of(exactly(text) if exact else prefixed(text) for exact, text in rows)
    assert list(intervals.bounds) == sorted(set(intervals.bounds))
    for key in KEYS:
        assert (key in intervals) == any(key == text if exact else key.startswith(text) for exact, text in rows)


@settings(deadline=None)
@given(SPANS, SPANS, TEXTS)
def test_intervals_are_joined_cut_and_moved_like_sets(one: list, other: list, prefix: str) -> None:
    left, right = Intervals.of(one), Intervals.of(other)
    for key in KEYS:
        assert (key in (left & right)) == (key in left and key in right)
        assert (key in (left | right)) == (key in left or key in right)
        assert (key in left.inside(prefix)) == (prefix + key in left)
        assert (key in left.shifted(prefix)) == (key.startswith(prefix) and key[len(prefix) :] in left)
    assert left & Intervals.of([prefixed("")]) == left
    assert left.overlaps(prefix) == any(key in left for key in KEYS if key.startswith(prefix)) or len(prefix) == 3


@given(SPANS, st.sets(st.sampled_from(KEYS)), st.integers(0, 40), st.integers(1, 5))
def test_selected_keys_are_those_in_the_intervals(spans: list, keys: set[str], start: int, limit: int) -> None:
    intervals, ordered = Intervals.of(spans), sorted(keys)
    found, then = intervals.select(ordered, start, limit)
    inside = [key for key in ordered[start:] if key in intervals]
    assert found == inside[:limit]
    rest = [key for key in ordered[then:] if key in intervals]
    assert rest == inside[limit:]
    assert (then < len(ordered)) == bool(rest) or start >= len(ordered)


def test_all_keys_are_one_interval_without_an_end() -> None:
    assert Intervals.of([prefixed("")]).whole
    assert "" in Intervals.of([prefixed("")])
    assert not Intervals()
    assert list(Intervals.of([exactly("a"), prefixed("a")]).spans()) == [("a", "b")]
