"""Store in memory, for content that a program makes, and for tests: ``memory://NAME``."""

from __future__ import annotations

import time
from hashlib import sha256
from typing import ClassVar

from carrel.sources.stores.address import StoreAddress
from carrel.sources.stores.options import StoreOptions
from carrel.sources.stores.source import AddressedSource
from carrel.sources.stores.store import EntryPage, GetOptions, GetResult, ListingIndex, Store, StoreEntry

__all__ = ["InMemoryStore", "MemorySource"]


class InMemoryStore(Store):
    """Objects in memory, by key. ``InMemoryStore.named`` is the one that ``memory://NAME`` shares."""

    _named: ClassVar[dict[str, InMemoryStore]] = {}

    def __init__(self) -> None:
        self._index = ListingIndex()
        self._data: dict[str, bytes] = {}

    @classmethod
    def named(cls, name: str) -> InMemoryStore:
        """Return this process's store with a name. Create it if it does not exist."""
        return cls._named.setdefault(name.lower(), cls())

    def put(self, key: str, data: bytes | str) -> None:
        """Store an object. Replace an object with the same key."""
        data = data.encode() if isinstance(data, str) else data
        self._data[key] = data
        self._index.put(StoreEntry(key, len(data), time.time(), sha256(data).hexdigest()))

    def remove(self, key: str) -> None:
        """Remove an object.

        Raises:
            KeyError: the object does not exist.
        """
        self._index.remove(key)
        del self._data[key]

    async def open(self) -> None:
        """No-op: a store in memory needs no connection."""

    async def close(self) -> None:
        """Keep the objects: another source may share them."""

    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> EntryPage:
        return self._index.level(prefix, after, limit)

    async def walk(self, prefix: str, after: str = "", limit: int = 1000) -> EntryPage:
        return self._index.objects(prefix, after, limit)

    async def head(self, key: str) -> StoreEntry:
        return self._index.find(key)

    async def get(self, key: str, wanted: GetOptions) -> GetResult | None:
        entry = self._index.find(key)
        if not wanted.check(entry):
            return None
        first = wanted.first or 0
        return GetResult(self._data[key][first : first + wanted.limit], entry)


class MemorySource(AddressedSource):
    """Provider of a store in memory, given as ``memory://NAME`` or ``memory://NAME/PREFIX``.

    Raises:
        ConfigError: the URL names no store.
    """

    shares_watch = False  # it is the memory of this process

    @staticmethod
    def store(address: StoreAddress, options: StoreOptions) -> InMemoryStore:
        """Return the store of a name."""
        return InMemoryStore.named(address.host)
