"""Response cache that honours ttlMs and cacheScope, with LRU eviction, in memory.

Results are stored by server, principal, operation and a key derived from the parameters. The encoded result is stored
apart from its texts and blobs: every ``get`` builds new structs and lists, so that callers cannot change each other's
results.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from copy import copy
from functools import cache
from sys import getsizeof
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET

from carrel.client.uri_index import UriIndex, are_related
from carrel.errors import ConfigError
from carrel.protocol.extensions.skills import SKILLS
from carrel.protocol.methods import READ_RESOURCE
from carrel.protocol.revisions import REQUESTS
from carrel.uri.parse import normal_form
from carrel.wire.base import CacheableResult, Params, make_decoder
from carrel.wire.resources import BlobResourceContents, ReadResourceResult, ResourceContents, read_contents

__all__ = ["Cache", "CacheStatistics", "key_of"]

READ = READ_RESOURCE.operation
MIB = 1024 * 1024
DAY = 24 * 3600 * 1000
#: Approximate overhead of an entry in memory, in bytes, besides its texts and blobs.
OVERHEAD = 600
#: Maximum number of invalidations to remember, for responses that are in flight at the time.
REMEMBERED = 1000

#: Methods whose results are cached.
CACHED = tuple(row for row in (*REQUESTS.values(), *SKILLS.requests.values()) if row.cacheable)

#: Server, principal (None: public), operation, key.
Name: TypeAlias = tuple[str, str | None, str, str]


def boot_clock() -> float:
    """Return seconds of a monotonic clock that includes the time during which the machine was suspended."""
    return _read_clock()


def _find_clock() -> Callable[[], float]:
    # CLOCK_MONOTONIC stops during suspend on Linux, and time.monotonic on macOS.
    number = getattr(time, "CLOCK_BOOTTIME", None) or getattr(time, "CLOCK_MONOTONIC", None)
    return time.monotonic if number is None else lambda: time.clock_gettime(number)


_read_clock = _find_clock()


class CacheStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a cache: counters and current sizes."""

    hits: int
    misses: int
    evictions: int
    """Results that were removed before they expired, to make room."""
    entries: int
    bytes: int


class CacheEntry(msgspec.Struct):
    """Cached result, with the texts and blobs of its contents. ``expires`` is by the cache's clock."""

    kind: type[CacheableResult]
    encoded: bytes
    payloads: list[str | bytes]
    expires: float
    size: int


class Cache:
    """LRU response cache, shared by any number of clients in one event loop. Close it, or use ``async with``.

    Args:
        max_bytes: limit of memory.
        max_entries: limit of results.
        default_ttl_ms: TTL of results without ttlMs; 0 to not cache them.
        max_ttl_ms: upper limit of every TTL.
        clock: monotonic clock in seconds.

    Raises:
        ConfigError: a number is negative.
    """

    def __init__(
        self,
        *,
        max_bytes: int = 64 * MIB,
        max_entries: int = 10_000,
        default_ttl_ms: int = 0,
        max_ttl_ms: int = DAY,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        if min(max_bytes, max_entries, default_ttl_ms, max_ttl_ms) < 0:
            raise ConfigError("The limits of a cache must be 0 or more")
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._default_ttl_ms = default_ttl_ms
        self._max_ttl_ms = max_ttl_ms
        self._clock = clock
        self._entries: OrderedDict[Name, CacheEntry] = OrderedDict()
        self._names: dict[tuple[str, str], dict[str, set[Name]]] = {}  # by server and operation, by key
        self._uris: dict[str, UriIndex] = {}  # URIs that were read, by server
        self._bytes = 0
        self._hits = self._misses = self._evictions = 0
        self._moment = 0
        self._forgotten: deque[tuple[int, str, str | None, str | None]] = deque(maxlen=REMEMBERED)
        self._closed = False

    async def __aenter__(self) -> Cache:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    # Lookup and storage
    @property
    def moment(self) -> int:
        """Invalidation counter to pass to ``put`` as ``since``: read it before the request is sent."""
        return self._moment

    def get(self, server: str, principal: str, operation: str, key: str) -> CacheableResult | None:
        """Return the cached result if it is fresh, otherwise None.

        The result is a new object, which the caller may change. Its ``ttl_ms`` is the remaining time.
        """
        entry = self._find(server, principal, operation, key)
        if entry is None:
            self._misses += 1
            return None
        self._hits += 1
        return put_together(entry, max(0, int((entry.expires - self._clock()) * 1000)))

    def _find(self, server: str, principal: str, operation: str, key: str) -> CacheEntry | None:
        for owner in (principal, None):
            name = (server, owner, operation, key)
            entry = self._entries.get(name)
            if entry is None:
                continue
            if entry.expires <= self._clock():
                self._remove(name)
                continue
            self._entries.move_to_end(name)
            return entry
        return None

    def put(
        self,
        server: str,
        principal: str,
        operation: str,
        key: str,
        result: CacheableResult,
        *,
        since: int | None = None,
    ) -> bool:
        """Cache a result, if the server allows it and there is room; return whether it was cached.

        A previous result is removed, even if the new one is not cached. ``since`` is the ``moment`` when the request
        was sent: a result that was invalidated since then is not cached. Results of requests that carry input responses
        must not be passed; ``key_of`` has no key for them.
        """
        if self._closed or self._is_outdated(server, operation, key, since):
            return False
        for owner in (principal, None):  # a newer response replaces older ones of either scope
            if (server, owner, operation, key) in self._entries:
                self._remove((server, owner, operation, key))
        lifetime = self._lifetime(result)
        if lifetime <= 0:
            return False
        expires = self._clock() + lifetime
        encoded, payloads = take_apart(result)
        size = OVERHEAD + len(encoded) + 4 * (len(server) + len(principal) + len(key)) + sum(map(getsizeof, payloads))
        if size > self._max_bytes or not self._max_entries:
            return False
        name = (server, None if result.cache_scope == "public" else principal, operation, key)
        self._add(name, CacheEntry(type(result), encoded, payloads, expires, size))
        return True

    def _lifetime(self, result: CacheableResult) -> float:
        """Return the TTL of a result in seconds; 0 or less if it is not cacheable.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#time-to-live-ttl-field
        """
        if result.result_type not in (UNSET, "complete"):
            return 0
        milliseconds = self._default_ttl_ms if result.ttl_ms is None else result.ttl_ms
        return min(milliseconds, self._max_ttl_ms) / 1000

    def _add(self, name: Name, entry: CacheEntry) -> None:
        server, _, operation, key = name
        while self._entries and (len(self._entries) >= self._max_entries or self._bytes + entry.size > self._max_bytes):
            self._remove(next(iter(self._entries)))
            self._evictions += 1
        self._entries[name] = entry
        self._bytes += entry.size
        self._names.setdefault((server, operation), {}).setdefault(key, set()).add(name)
        if operation == READ:
            self._uris.setdefault(server, UriIndex()).add(key)

    # Invalidation and eviction
    def forget(self, server: str, operation: str | None = None, key: str | None = None) -> None:
        """Invalidate the results of a server: all results, or the results of one operation, or with one key.

        The key of a resource is its URI; the contents of resources within it and around it are invalidated too.
        """
        self._moment += 1
        self._forgotten.append((self._moment, server, operation, key))
        if operation is None:
            keys = {listing: tuple(names) for listing, names in self._names.items() if listing[0] == server}
        elif key is None:
            keys = {(server, operation): tuple(self._names.get((server, operation), ()))}
        elif operation == READ:
            index = self._uris.get(server)
            keys = {(server, operation): () if index is None else tuple(index.related(key))}
        else:
            keys = {(server, operation): (key,)}
        for listing, found in keys.items():
            for each in found:
                for name in tuple(self._names.get(listing, {}).get(each, ())):
                    self._remove(name)

    def invalidate(self, server: str, event: str, uri: str | None = None) -> None:
        """Invalidate the results that a notification makes stale. ``event`` is its name, such as "resource_updated".

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#interaction-with-notifications
        """
        for row in CACHED:
            if event in row.stale_by:
                self.forget(server, row.operation, uri if row is READ_RESOURCE else None)

    def _is_outdated(self, server: str, operation: str, key: str, since: int | None) -> bool:
        if since is None or since >= self._moment:
            return False
        if since < self._moment - len(self._forgotten):  # older than the remembered invalidations
            return True
        name = (server, None, operation, key)
        return any(
            moment > since and concerns(where, what, which, name) for moment, where, what, which in self._forgotten
        )

    def _remove(self, name: Name) -> None:
        entry = self._entries.pop(name)
        self._bytes -= entry.size
        server, _, operation, key = name
        keys = self._names[server, operation]
        keys[key].discard(name)
        if keys[key]:
            return
        del keys[key]
        if not keys:
            del self._names[server, operation]
        if operation == READ:
            self._uris[server].discard(key)
            if not keys:
                del self._uris[server]

    def clear(self) -> None:
        """Remove all results."""
        for name in tuple(self._entries):
            self._remove(name)
        self._moment += 1
        self._forgotten.clear()  # so that responses to earlier requests are not cached

    def close(self) -> None:
        """Remove all results, and cache nothing further."""
        self._closed = True
        self.clear()

    @property
    def statistics(self) -> CacheStatistics:
        """Counters and current sizes of the cache."""
        return CacheStatistics(
            hits=self._hits,
            misses=self._misses,
            evictions=self._evictions,
            entries=len(self._entries),
            bytes=self._bytes,
        )


def key_of(params: Params) -> str | None:
    """Return the cache key of a request: all of its parameters as JSON; the URI alone if it is the only one.

    None if it carries input responses or a request state: its result must neither be cached nor come from the cache.
    https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-key
    """
    found = {field: getattr(params, field) for field in params.__struct_fields__ if field != "meta"}
    found = {field: value for field, value in found.items() if value is not None and value is not UNSET}
    if "input_responses" in found or "request_state" in found:
        return None
    if found.keys() == {"uri"}:
        return str(found["uri"])
    return msgspec.json.encode(found, order="sorted").decode()


def concerns(server: str, operation: str | None, key: str | None, name: Name) -> bool:
    """Return whether an invalidation concerns the result with that name."""
    if server != name[0] or operation not in (None, name[2]):
        return False
    if key is None or key == name[3]:
        return True
    return operation == READ and are_related(normal_form(key), normal_form(name[3]))


@cache
def _decoder(kind: type[CacheableResult]) -> Callable[[bytes], Any]:
    return make_decoder(kind, dec_hook=read_contents)


def take_apart(result: CacheableResult) -> tuple[bytes, list[str | bytes]]:
    """Return a result as JSON without the texts and blobs of its contents, and the list of those."""
    if not isinstance(result, ReadResourceResult):
        return msgspec.json.encode(result), []
    payloads: list[str | bytes] = []
    bare = copy(result)
    bare.contents = [hollow(content, payloads) for content in result.contents]
    return msgspec.json.encode(bare), payloads


def hollow(content: ResourceContents, payloads: list[str | bytes]) -> ResourceContents:
    content = copy(content)
    if isinstance(content, BlobResourceContents):
        payloads.append(bytes(content.blob))  # no copy, unless it is mutable
        content.blob = b""
    else:
        payloads.append(content.text)
        content.text = ""
    return content


def put_together(entry: CacheEntry, left: int) -> CacheableResult:
    """Return a new result from a cache entry; ``left`` is the remaining TTL in milliseconds."""
    result: CacheableResult = _decoder(entry.kind)(entry.encoded)
    if isinstance(result, ReadResourceResult):
        for content, payload in zip(result.contents, entry.payloads, strict=True):
            setattr(content, "blob" if isinstance(content, BlobResourceContents) else "text", payload)
    if result.ttl_ms is not None:
        result.ttl_ms = left
    return result
