"""Cache of results that servers declare fresh (2026-07-28)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

__all__ = [
    "MAX_TTL_MS",
    "CacheConfig",
    "CacheEntry",
    "CacheKey",
    "CacheMode",
    "InMemoryResponseCacheStore",
    "ResponseCache",
    "ResponseCacheStore",
]

MAX_TTL_MS = 86_400_000
CacheMode: TypeAlias = Literal["use", "refresh", "bypass"]

#: Notifications that make the results of methods stale.
STALE: dict[str, tuple[str, ...]] = {
    "tools_list_changed": ("tools/list",),
    "prompts_list_changed": ("prompts/list",),
    "resources_list_changed": ("resources/list", "resources/templates/list"),
    "resource_updated": ("resources/read",),
}


@dataclass(frozen=True)
class CacheKey:
    """Key of a result: its method, and the parameters that it depends on."""

    method: str
    params_key: str
    partition: str = ""


@dataclass(frozen=True)
class CacheEntry:
    """A result, and until when it is fresh."""

    value: Any
    scope: Literal["public", "private"]
    expires_at: float


class ResponseCacheStore(Protocol):
    """Store of results."""

    async def get(self, key: CacheKey) -> CacheEntry | None:
        """Return an entry; None without one."""

    async def set(self, key: CacheKey, entry: CacheEntry) -> None:
        """Store an entry."""

    async def delete(self, key: CacheKey) -> None:
        """Remove an entry."""

    async def clear(self) -> None:
        """Remove all entries."""


class InMemoryResponseCacheStore:
    """Store in the memory of the process."""

    def __init__(self, max_entries: int = 1024) -> None:
        self._entries: dict[CacheKey, CacheEntry] = {}
        self._most = max_entries

    async def get(self, key: CacheKey) -> CacheEntry | None:
        """Return an entry; None without one."""
        return self._entries.get(key)

    async def set(self, key: CacheKey, entry: CacheEntry) -> None:
        """Store an entry, in place of the oldest one if the store is full."""
        self._entries.pop(key, None)
        while len(self._entries) >= self._most:
            self._entries.pop(next(iter(self._entries)))
        self._entries[key] = entry

    async def delete(self, key: CacheKey) -> None:
        """Remove an entry."""
        self._entries.pop(key, None)

    async def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """Options of the cache of a client."""

    store: ResponseCacheStore | None = None
    partition: str = ""
    target_id: str | None = None
    default_ttl_ms: int = 0
    clock: Callable[[], float] = field(default=time.time)
    share_public: bool = False


class ResponseCache:
    """Cache of one client. Keys begin with the identity of the server."""

    def __init__(self, config: CacheConfig, target: str) -> None:
        self._config = config
        self._store: ResponseCacheStore = config.store or InMemoryResponseCacheStore()
        self._target = target
        self._known: set[CacheKey] = set()

    def _key(self, method: str, params: str) -> CacheKey:
        return CacheKey(method, params, f"{self._target}:{self._config.partition}")

    async def read(self, method: str, params: str) -> Any:
        """Return a fresh result, as a copy; None without one."""
        entry = await self._store.get(self._key(method, params))
        if entry is None or entry.expires_at <= self._config.clock():
            return None
        return entry.value.model_copy(deep=True)

    async def write(self, method: str, params: str, result: Any) -> None:
        """Store a result for as long as it is fresh."""
        ttl = result.ttl_ms if "ttl_ms" in result.model_fields_set else self._config.default_ttl_ms
        key = self._key(method, params)
        if ttl <= 0:
            await self._store.delete(key)
            return
        expires = self._config.clock() + min(ttl, MAX_TTL_MS) / 1000
        self._known.add(key)
        await self._store.set(key, CacheEntry(result.model_copy(deep=True), result.cache_scope, expires))

    async def evict(self, event: str, uri: str | None = None) -> None:
        """Remove the results that a notification makes stale."""
        for key in [key for key in self._known if key.method in STALE.get(event, ())]:
            if uri is None or key.params_key == uri:
                self._known.discard(key)
                await self._store.delete(key)
