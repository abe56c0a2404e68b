"""Index of the keys of a store that knows all of them: lists of levels and of everything."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from carrel.sources.stores.store import EntryPage, NotFound, StoreEntry

__all__ = ["ListingIndex"]


class ListingIndex:
    """Entries in the order of their keys."""

    def __init__(self, entries: Iterable[StoreEntry] = ()) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._keys = sorted(self._entries)

    def put(self, entry: StoreEntry) -> None:
        """Add an entry. Replace an entry with the same key."""
        if entry.key not in self._entries:
            insort(self._keys, entry.key)
        self._entries[entry.key] = entry

    def remove(self, key: str) -> None:
        """Remove an entry.

        Raises:
            KeyError: the entry does not exist.
        """
        del self._entries[key]
        del self._keys[bisect_left(self._keys, key)]

    def find(self, key: str) -> StoreEntry:
        """Return an entry.

        Raises:
            NotFound: the entry does not exist.
        """
        try:
            return self._entries[key]
        except KeyError:
            raise NotFound(key) from None

    def level(self, prefix: str, after: str, limit: int) -> EntryPage:
        """Return a page of one level, as ``Store.list`` does."""
        above = prefix[: prefix.rfind("/") + 1]
        found: list[StoreEntry] = []
        at = self._start(prefix, after)
        while at < len(self._keys) and self._keys[at].startswith(prefix):
            if len(found) == limit:
                return EntryPage(found, found[-1].key)
            key = self._keys[at]
            name, slash, _ = key[len(above) :].partition("/")
            if slash:
                found.append(StoreEntry(f"{above}{name}/"))
                at = bisect_left(self._keys, f"{above}{name}0")  # "0" follows the slash
            else:
                found.append(self._entries[key])
                at += 1
        return EntryPage(found)

    def objects(self, prefix: str, after: str, limit: int) -> EntryPage:
        """Return a page of all objects below a prefix, as ``Store.walk`` does."""
        at = self._start(prefix, after)
        keys = [key for key in self._keys[at : at + limit + 1] if key.startswith(prefix)]
        found = [self._entries[key] for key in keys[:limit]]
        return EntryPage(found, found[-1].key if len(keys) > limit else None)

    def _start(self, prefix: str, after: str) -> int:
        # After a directory means after all that is in it.
        passed = bisect_left(self._keys, after[:-1] + "0") if after.endswith("/") else bisect_right(self._keys, after)
        return max(bisect_left(self._keys, prefix), passed if after else 0)
