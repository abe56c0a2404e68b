"""Entries of lists in one order, with their texts and sort keys, computed once for each version of a list."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from carrel.host.filters import ItemFilter, text_of
from carrel.host.selection import KEYS, Hosted, Order

__all__ = ["Entries", "ServerList", "merged"]

#: Number of entries that are filtered before the event loop continues with other work: about two milliseconds.
SLICE = 4000


class Entries(NamedTuple):
    """Entries in one order, each with the text that is searched for words."""

    hosted: Sequence[Hosted[Any]]
    texts: Sequence[str]

    async def select(self, written: ItemFilter) -> Sequence[Hosted[Any]]:
        """Return the entries that match a filter, in the same order.

        Filters in slices, and lets the event loop run between them: cancel the task to stop after the current slice.
        """
        words = [(term.value.casefold(), term.negated) for term in written.terms if term.field is None and term.value]
        # A text begins with the URI. This cheap comparison leaves few entries for the exact test.
        under = [term.value.rstrip("/") for term in written.terms if term.field == "under" and not term.negated]
        prefixes = tuple(prefix.casefold() for prefix in under)
        fields = ItemFilter(" ".join(term.text for term in written.terms if term.field is not None))
        found: list[Hosted[Any]] = []
        for start in range(0, len(self.hosted), SLICE):
            texts = self.texts[start : start + SLICE]
            at: Sequence[int] = range(len(texts))
            for prefix in prefixes:
                at = [place for place in at if texts[place].startswith(prefix)]
            for word, negated in words:
                at = [place for place in at if (word in texts[place]) is not negated]
            found += fields.select([self.hosted[start + place] for place in at])
            await asyncio.sleep(0)
        return found


class ServerList:
    """List of a server. The texts and the sorted orders of its entries are computed when they are first used."""

    def __init__(self, server: str, items: Sequence[Any]) -> None:
        self.items = items
        self._server = server
        self._sorted: dict[Order | None, tuple[Sequence[Any], Entries]] = {}

    def sorted_by(self, sort: Order | None) -> tuple[Sequence[Any], Entries]:
        """Return the sort keys and the entries, both in the order ``sort``. Without ``sort``, there are no keys."""
        found = self._sorted.get(sort)
        if found is None:
            found = self._sorted[sort] = self._sort(sort)
        return found

    def _sort(self, sort: Order | None) -> tuple[Sequence[Any], Entries]:
        if sort is None:
            items = self.items
            return (), Entries([Hosted(self._server, item) for item in items], list(map(text_of, items)))
        _, entries = self.sorted_by(None)
        keys = list(map(KEYS[sort], self.items))
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return _ordered(order, keys, entries)


def merged(lists: Sequence[ServerList], sort: Order | None) -> Entries:
    """Return the entries of several lists in one order. Merge their sorted orders, without sorting each list again."""
    parts = [each.sorted_by(sort) for each in lists]
    if len(parts) == 1:
        return parts[0][1]
    hosted = [entry for _, entries in parts for entry in entries.hosted]
    texts = [text for _, entries in parts for text in entries.texts]
    if sort is None:
        return Entries(hosted, texts)
    keys = [key for keys, _ in parts for key in keys]
    order = sorted(range(len(keys)), key=keys.__getitem__)  # sorted() detects the sorted parts, and merges them
    return _ordered(order, keys, Entries(hosted, texts))[1]


def _ordered(order: Sequence[int], keys: Sequence[Any], entries: Entries) -> tuple[Sequence[Any], Entries]:
    hosted, texts = entries
    return [keys[at] for at in order], Entries([hosted[at] for at in order], [texts[at] for at in order])
