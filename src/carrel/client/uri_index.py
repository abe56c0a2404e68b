"""Sorted index of URIs that finds those related to a URI (the same, within it, or around it) without a full scan.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources#subscriptions
"""

from __future__ import annotations

from bisect import bisect_left, insort

from carrel.uri.parse import normal_form

__all__ = ["UriIndex", "are_related"]

#: Separators between a resource's URI and the rest of the URI of a resource within it.
SEPARATORS = "/?#"
#: URIs with more separators than this are compared with all others, instead of looking up each of their prefixes.
MAX_DEPTH = 64


class UriIndex:
    """Set of URIs, sorted by normal form and grouped by equivalent spellings."""

    def __init__(self) -> None:
        self._spellings: dict[str, set[str]] = {}
        self._order: list[str] = []

    def add(self, uri: str) -> None:
        """Add a URI, if it is not in the index."""
        normal = normal_form(uri)
        spellings = self._spellings.get(normal)
        if spellings is None:
            spellings = self._spellings[normal] = set()
            insort(self._order, normal)
        spellings.add(uri)

    def discard(self, uri: str) -> None:
        """Remove a URI, if it is in the index."""
        normal = normal_form(uri)
        spellings = self._spellings.get(normal)
        if spellings is not None:
            spellings.discard(uri)
            if not spellings:
                del self._spellings[normal]
                del self._order[bisect_left(self._order, normal)]

    def related(self, uri: str) -> list[str]:
        """Return every indexed spelling of a URI, of the URIs within it, and of the URIs that it is within."""
        normal = normal_form(uri)
        found = [normal] if normal in self._spellings else []
        beginnings = (normal,) if normal.endswith(tuple(SEPARATORS)) else tuple(normal + mark for mark in SEPARATORS)
        for beginning in beginnings:
            position = bisect_left(self._order, beginning)
            while position < len(self._order) and self._order[position].startswith(beginning):
                if self._order[position] != normal:
                    found.append(self._order[position])
                position += 1
        return [spelling for one in (*found, *self._around(normal)) for spelling in self._spellings[one]]

    def _around(self, normal: str) -> list[str]:
        separators = [at for at, character in enumerate(normal) if character in SEPARATORS]
        if len(separators) > MAX_DEPTH:
            return [other for other in self._order if other != normal and is_within(normal, other)]
        beginnings = {normal[:end] for at in separators for end in (at, at + 1)} - {normal}
        return [beginning for beginning in beginnings if beginning in self._spellings]


def is_within(inner: str, outer: str) -> bool:
    """Return whether ``inner`` equals ``outer`` or is a resource within it; both in normal form."""
    if not inner.startswith(outer):
        return False
    return len(inner) == len(outer) or outer[-1:] in SEPARATORS or inner[len(outer)] in SEPARATORS


def are_related(one: str, other: str) -> bool:
    """Return whether two URIs in normal form are the same resource, or one is within the other."""
    return is_within(one, other) or is_within(other, one)
