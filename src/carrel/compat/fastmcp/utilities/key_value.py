"""Stores of keys and values: one in memory, and models in any store with the interface of ``key_value``."""

from __future__ import annotations

import time
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

__all__ = ["Collection", "MemoryStore"]

M = TypeVar("M", bound=BaseModel)

#: Maximum number of entries of a collection in memory. The oldest entry goes first.
MAX_ENTRIES = 10_000


class MemoryStore:
    """Store in memory, with the interface of ``key_value``'s stores."""

    def __init__(self) -> None:
        self._collections: dict[str, dict[str, tuple[float | None, dict[str, Any]]]] = {}

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """Return a value, or None if it does not exist or has expired."""
        entries = self._collections.get(collection or "", {})
        expires, value = entries.get(key, (0.0, None))
        if expires is not None and expires <= time.time():
            entries.pop(key, None)
            return None
        return value

    async def put(
        self, key: str, value: dict[str, Any], *, collection: str | None = None, ttl: float | None = None
    ) -> None:
        """Set a value, for ``ttl`` seconds."""
        entries = self._collections.setdefault(collection or "", {})
        entries.pop(key, None)
        if len(entries) >= MAX_ENTRIES:
            entries.pop(next(iter(entries)))
        entries[key] = None if ttl is None else time.time() + ttl, value

    async def delete(self, key: str, *, collection: str | None = None) -> bool:
        """Delete a value, and return whether it existed."""
        return self._collections.get(collection or "", {}).pop(key, None) is not None


class Collection(Generic[M]):
    """Models of one kind in a store."""

    def __init__(self, store: Any, name: str, kind: type[M]) -> None:
        self._store = store
        self._name = name
        self._kind = kind

    async def get(self, key: str) -> M | None:
        """Return a model, or None."""
        found = await self._store.get(key=key, collection=self._name)
        return None if found is None else self._kind.model_validate(found)

    async def put(self, key: str, value: M, ttl: float | None = None) -> None:
        """Set a model, for ``ttl`` seconds."""
        await self._store.put(key=key, value=value.model_dump(mode="json"), collection=self._name, ttl=ttl)

    async def delete(self, key: str) -> bool:
        """Delete a model, and return whether it existed."""
        found: bool = await self._store.delete(key=key, collection=self._name)
        return found
