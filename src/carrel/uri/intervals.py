"""Sorted intervals of keys: sets of URIs or names that a sorted list can be cut to by bisection.

notes = Intervals.of([prefixed("notes://blue/"), exactly("notes://all")])
"notes://blue/1" in notes           # True
notes.spans()                       # ("notes://all", "notes://all\\0"), ("notes://blue/", "notes://blue0")
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

__all__ = ["Intervals", "Span", "exactly", "prefixed", "sweep"]

Span: TypeAlias = tuple[str, str | None]
"""First key of an interval, and the first one after it; None where it has no end."""

LAST = "\U0010ffff"


def exactly(key: str) -> Span:
    """Return the interval of one key."""
    return key, key + "\0"


def prefixed(prefix: str) -> Span:
    """Return the interval of the keys that begin with a prefix."""
    head = prefix.rstrip(LAST)
    return prefix, head[:-1] + chr(ord(head[-1]) + 1) if head else None


class Intervals:
    """Set of keys as sorted, merged intervals. ``bounds`` are the first keys in it and out of it, in turns.

    A key is in the set if the number of bounds up to it is odd.
    """

    __slots__ = ("bounds",)

    def __init__(self, bounds: Sequence[str] = ()) -> None:
        self.bounds = bounds

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Intervals:
        """Return the union of intervals, in any order."""
        bounds: list[str] = []
        end: str | None = ""
        for start, stop in sorted(spans, key=itemgetter(0)):
            if end is None:
                break
            if bounds and start <= end:
                end = stop if stop is None or stop > end else end
            else:
                if bounds:
                    bounds.append(end)
                bounds.append(start)
                end = stop
        if bounds and end is not None:
            bounds.append(end)
        return cls(bounds)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and bisect_right(self.bounds, key) % 2 == 1

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intervals) and list(self.bounds) == list(other.bounds)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Intervals({list(self.bounds)})"

    @property
    def whole(self) -> bool:
        """Whether every key is in the set."""
        return len(self.bounds) == 1 and not self.bounds[0]

    def spans(self) -> Iterator[Span]:
        """Yield the intervals, in order."""
        bounds = self.bounds
        for start in range(0, len(bounds), 2):
            yield bounds[start], bounds[start + 1] if start + 1 < len(bounds) else None

    def overlaps(self, prefix: str) -> bool:
        """Return whether a key that begins with a prefix is in the set."""
        start, end = prefixed(prefix)
        index = bisect_right(self.bounds, start)
        return index % 2 == 1 or (index < len(self.bounds) and (end is None or self.bounds[index] < end))

    def __and__(self, other: Intervals) -> Intervals:
        if self.whole or other.whole:
            return other if self.whole else self
        return Intervals(_changes(sweep((self, other)), lambda inside: inside == 0b11))

    def __or__(self, other: Intervals) -> Intervals:
        return Intervals.of([*self.spans(), *other.spans()])

    def inside(self, prefix: str) -> Intervals:
        """Select the keys that begin with a prefix, and return their remainders."""
        end = prefixed(prefix)[1]
        first = bisect_right(self.bounds, prefix)
        last = len(self.bounds) if end is None else bisect_left(self.bounds, end)
        bounds = [bound[len(prefix) :] for bound in self.bounds[first:last]]
        return Intervals(["", *bounds] if first % 2 else bounds)

    def shifted(self, prefix: str) -> Intervals:
        """Return the keys of the set with a prefix before each."""
        return Intervals.of(
            (prefix + start, prefixed(prefix)[1] if end is None else prefix + end) for start, end in self.spans()
        )

    def select(self, keys: Sequence[str], start: int, limit: int) -> tuple[list[str], int]:
        """Return up to ``limit`` sorted keys that are in the set, from index ``start``, and the index of the next.

        Without a next key, the index is the number of keys. The time depends on the number of intervals, not of keys.
        """
        found: list[str] = []
        bounds, count = self.bounds, len(keys)
        while start < count:
            index = bisect_right(bounds, keys[start])
            if index % 2 == 0:
                start = bisect_left(keys, bounds[index], start) if index < len(bounds) else count
                continue
            if len(found) >= limit:
                return found, start
            end = bisect_left(keys, bounds[index], start) if index < len(bounds) else count
            end = min(end, start + limit - len(found))
            found += keys[start:end]
            start = end
        return found, count


def sweep(sets: Sequence[Intervals]) -> Iterator[tuple[str, int]]:
    """Yield each bound of any set, and a bit mask of the sets that contain the keys from there on: bit n for the nth
    set.
    """
    events = sorted((bound, 1 << number) for number, keys in enumerate(sets) for bound in keys.bounds)
    inside = 0
    for bound, changed in groupby(events, itemgetter(0)):
        inside = reduce(lambda state, event: state ^ event[1], changed, inside)
        yield bound, inside


def _changes(steps: Iterable[tuple[str, int]], keep: Callable[[int], bool]) -> list[str]:
    bounds: list[str] = []
    for bound, inside in steps:
        if keep(inside) != len(bounds) % 2:
            bounds.append(bound)
    return bounds
