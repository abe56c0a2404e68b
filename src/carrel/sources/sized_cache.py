"""Cache of values whose sizes are limited together. The least recently used ones are evicted."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["SizedCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SizedCache(Generic[K, V]):
    """Values by key, with sizes of at most ``limit`` in all. A value that is larger is not kept. Thread-safe."""

    def __init__(self, limit: float) -> None:
        self.size = 0
        self._limit = limit
        self._found: dict[K, tuple[V, int]] = {}
        self._lock = Lock()

    def __contains__(self, key: K) -> bool:
        return key in self._found

    def get(self, key: K) -> V | None:
        """Return a value, and mark it as most recently used."""
        with self._lock:
            found = self._found.pop(key, None)
            if found is None:
                return None
            self._found[key] = found
            return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value, in place of an earlier one with the key. Evict others that have no room beside it."""
        with self._lock:
            self._drop(key)
            if size > self._limit:
                return
            self._found[key] = value, size
            self.size += size
            while self.size > self._limit:
                self._drop(next(iter(self._found)))

    def drop(self, key: K) -> None:
        """Forget a value."""
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._found.clear()
            self.size = 0

    def _drop(self, key: K) -> None:
        found = self._found.pop(key, None)
        self.size -= 0 if found is None else found[1]
