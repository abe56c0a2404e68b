"""Response cache that honours ttlMs and cacheScope, with LRU eviction and spilling of large blobs to files.

Results are stored by server, principal, operation and a key derived from the parameters. The encoded result is stored
apart from its texts and blobs: every ``get`` builds new structs and lists, so that callers cannot change each other's
results.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from copy import copy
from functools import cache
from sys import getsizeof
from typing import Any, TypeAlias, TypeGuard

import msgspec
from msgspec import UNSET

from carrel.client.cache_files import CacheFiles, StoredFile
from carrel.client.uri_index import UriIndex, are_related, normal_form
from carrel.errors import ConfigError
from carrel.protocol.extensions.skills import SKILLS
from carrel.protocol.methods import READ_RESOURCE
from carrel.protocol.revisions import REQUESTS
from carrel.wire.base import CacheableResult, Params
from carrel.wire.resources import BlobResourceContents, ReadResourceResult, ResourceContents, read_contents

__all__ = ["Cache", "CacheStatistics", "key_of"]

READ = READ_RESOURCE.operation
MIB = 1024 * 1024
DAY = 24 * 3600 * 1000
#: Approximate overhead of an entry in memory, in bytes, besides its texts and blobs.
OVERHEAD = 600
#: How many invalidations are remembered, for responses in flight when they come.
REMEMBERED = 1000

#: Methods whose results are cached.
CACHED = tuple(row for row in (*REQUESTS.values(), *SKILLS.requests.values()) if row.cacheable)

#: Server, principal (None: public), operation, key.
Name: TypeAlias = tuple[str, str | None, str, str]
Payload: TypeAlias = "str | bytes | StoredFile"


def boot_clock() -> float:
    """Return seconds of a monotonic clock that includes the time during which the machine was suspended."""
    return _read_clock()


def _find_clock() -> Callable[[], float]:
    # CLOCK_MONOTONIC stops during suspend on Linux, and time.monotonic on macOS.
    number = getattr(time, "CLOCK_BOOTTIME", None) or getattr(time, "CLOCK_MONOTONIC", None)
    return time.monotonic if number is None else lambda: time.clock_gettime(number)


_read_clock = _find_clock()


class CacheStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a cache: counters and current sizes. ``bytes`` are in memory, ``disk_bytes`` in files."""

    hits: int
    misses: int
    evictions: int
    """Results that were removed before they expired, to make room."""
    entries: int
    bytes: int
    disk_bytes: int


class CacheEntry(msgspec.Struct):
    """Cached result with payloads. ``expires`` is by the cache's clock; ``size`` in memory, ``disk_size`` in files."""

    kind: type[CacheableResult]
    encoded: bytes
    payloads: list[Payload]
    expires: float
    size: int
    disk_size: int


class Cache:
    """LRU response cache, shared by any number of clients in one event loop. Close it, or use ``async with``.

    Blobs over ``spill_bytes`` are stored as files in a private temporary directory, and removed when they are no longer
    needed and when the process ends. If files cannot be written, their result is not cached.

    Args:
        max_bytes: limit of memory.
        max_entries: limit of results.
        directory: parent of the directory for files; the system's temporary directory if None.
        max_disk_bytes: limit of files.
        spill_bytes: blobs with more bytes than this are stored in files.
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
        directory: str | os.PathLike[str] | None = None,
        max_disk_bytes: int = 1024 * MIB,
        spill_bytes: int = MIB,
        default_ttl_ms: int = 0,
        max_ttl_ms: int = DAY,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        if min(max_bytes, max_entries, max_disk_bytes, spill_bytes, default_ttl_ms, max_ttl_ms) < 0:
            raise ConfigError("The limits of a cache are numbers from 0")
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._max_disk_bytes = max_disk_bytes
        self._spill_bytes = spill_bytes
        self._default_ttl_ms = default_ttl_ms
        self._max_ttl_ms = max_ttl_ms
        self._clock = clock
        self._files = CacheFiles(directory)
        self._entries: OrderedDict[Name, CacheEntry] = OrderedDict()
        self._on_disk: OrderedDict[Name, None] = OrderedDict()  # in the same order
        self._names: dict[tuple[str, str], dict[str, set[Name]]] = {}  # by server and operation, by key
        self._uris: dict[str, UriIndex] = {}  # of what was read, by server
        self._writing: dict[Name, object] = {}
        self._bytes = self._disk_bytes = 0
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

    async def get(self, server: str, principal: str, operation: str, key: str) -> CacheableResult | None:
        """Return the cached result, if it is fresh; None otherwise.

        The result is the caller's own. Its ``ttl_ms`` is the remaining time. Waits only if blobs have to be read from
        files.
        """
        found = self._find(server, principal, operation, key)
        if found is None:
            self._misses += 1
            return None
        name, entry = found
        contents: list[str | bytes] | None
        if entry.disk_size:
            contents = await asyncio.get_running_loop().run_in_executor(None, self._load, entry.payloads)
            if self._entries.get(name) is not entry:  # invalidated meanwhile
                contents = None
            elif contents is None:
                self._remove(name)
        else:
            contents = entry.payloads  # type: ignore[assignment]
        left = entry.expires - self._clock()
        if contents is None or left <= 0:
            self._misses += 1
            return None
        self._hits += 1
        return put_together(entry, contents, int(left * 1000))

    def _find(self, server: str, principal: str, operation: str, key: str) -> tuple[Name, CacheEntry] | None:
        for owner in (principal, None):
            name = (server, owner, operation, key)
            entry = self._entries.get(name)
            if entry is None:
                continue
            if entry.expires <= self._clock():
                self._remove(name)
                continue
            self._entries.move_to_end(name)
            if name in self._on_disk:
                self._on_disk.move_to_end(name)
            return name, entry
        return None

    def _load(self, payloads: list[Payload]) -> list[str | bytes] | None:
        contents: list[str | bytes] = []
        for payload in payloads:
            data = self._files.read(payload) if isinstance(payload, StoredFile) else payload
            if data is None:
                return None
            contents.append(data)
        return contents

    async def put(
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
        must not be passed; ``key_of`` has no key for them. Waits only if blobs have to be written to files.
        """
        if self._closed or self._is_outdated(server, operation, key, since):
            return False
        for owner in (principal, None):  # a newer response replaces older ones of either scope
            self._drop((server, owner, operation, key))
        lifetime = self._lifetime(result)
        if lifetime <= 0:
            return False
        expires = self._clock() + lifetime
        encoded, payloads = take_apart(result)
        large = [payload for payload in payloads if self._is_large(payload)]
        size = OVERHEAD + len(encoded) + 4 * (len(server) + len(principal) + len(key))
        size += sum([getsizeof(payload) for payload in payloads if not self._is_large(payload)])
        disk_size = sum(map(len, large))
        if size > self._max_bytes or disk_size > self._max_disk_bytes or not self._max_entries:
            return False
        name = (server, None if result.cache_scope == "public" else principal, operation, key)
        files = await self._write(name, large, disk_size) if large else []
        if files is None:
            return False
        stored = iter(files)
        kept: list[Payload] = [next(stored) if self._is_large(payload) else payload for payload in payloads]
        self._add(name, CacheEntry(type(result), encoded, kept, expires, size, disk_size))
        return True

    def _lifetime(self, result: CacheableResult) -> float:
        """Return the TTL of a result in seconds; 0 or less if it is not cacheable.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#time-to-live-ttl-field
        """
        if result.result_type not in (UNSET, "complete"):
            return 0
        milliseconds = self._default_ttl_ms if result.ttl_ms is UNSET else result.ttl_ms
        return min(milliseconds, self._max_ttl_ms) / 1000

    def _is_large(self, payload: str | bytes) -> TypeGuard[bytes]:
        return isinstance(payload, bytes) and len(payload) > self._spill_bytes

    async def _write(self, name: Name, contents: list[bytes], size: int) -> list[StoredFile] | None:
        """Write blobs to files; None on failure, or if invalidated meanwhile. Their size is reserved at once."""
        while self._on_disk and self._disk_bytes + size > self._max_disk_bytes:
            self._evict(self._on_disk)
        if self._disk_bytes + size > self._max_disk_bytes:  # others are being written
            return None
        self._disk_bytes += size
        token = self._writing[name] = object()
        future = asyncio.get_running_loop().run_in_executor(None, self._files.write, contents)
        written: list[StoredFile] | None = None
        try:
            written = await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(self._discard)
            raise
        finally:
            current = self._writing.get(name) is token
            if current:
                del self._writing[name]
            if written is None or not current:
                self._disk_bytes -= size
        if written is None or current:
            return written
        self._files.remove(written)
        return None

    def _discard(self, future: asyncio.Future[list[StoredFile] | None]) -> None:
        """Remove the files of a cancelled write."""
        if not future.cancelled() and future.exception() is None:
            self._files.remove(future.result() or ())

    def _add(self, name: Name, entry: CacheEntry) -> None:
        server, _, operation, key = name
        while self._entries and (len(self._entries) >= self._max_entries or self._bytes + entry.size > self._max_bytes):
            self._evict(self._entries)
        self._entries[name] = entry
        self._bytes += entry.size
        if entry.disk_size:
            self._on_disk[name] = None
        self._names.setdefault((server, operation), {}).setdefault(key, set()).add(name)
        if operation == READ:
            self._uris.setdefault(server, UriIndex()).add(key)

    # Invalidation and eviction
    def forget(self, server: str, operation: str | None = None, key: str | None = None) -> None:
        """Invalidate the results of a server: all, those of one operation, or those with one key.

        The key of a resource that was read is its URI; the contents of resources within it, and of those that it is
        within, are invalidated too.
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
        for name in [name for name in self._writing if concerns(server, operation, key, name)]:
            del self._writing[name]

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
        if since < self._moment - len(self._forgotten):  # longer ago than is remembered
            return True
        name = (server, None, operation, key)
        return any(
            moment > since and concerns(where, what, which, name) for moment, where, what, which in self._forgotten
        )

    def _evict(self, names: Iterable[Name]) -> None:
        self._remove(next(iter(names)))
        self._evictions += 1

    def _drop(self, name: Name) -> None:
        """Remove an entry, whether it is stored, being written, or neither."""
        self._writing.pop(name, None)
        if name in self._entries:
            self._remove(name)

    def _remove(self, name: Name) -> None:
        entry = self._entries.pop(name)
        self._on_disk.pop(name, None)
        self._bytes -= entry.size
        self._disk_bytes -= entry.disk_size
        if entry.disk_size:
            self._files.remove(payload for payload in entry.payloads if isinstance(payload, StoredFile))
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
        self._writing.clear()
        self._moment += 1
        self._forgotten.clear()  # so that responses to earlier requests are outdated

    def close(self) -> None:
        """Remove all results and the directory with the files, and cache nothing further."""
        self._closed = True
        self.clear()
        self._files.close()

    @property
    def statistics(self) -> CacheStatistics:
        """Counters and current sizes of the cache."""
        return CacheStatistics(
            hits=self._hits,
            misses=self._misses,
            evictions=self._evictions,
            entries=len(self._entries),
            bytes=self._bytes,
            disk_bytes=self._disk_bytes,
        )


def key_of(params: Params) -> str | None:
    """Return the cache key of a request: all of its parameters as JSON; the URI alone if it is the only one.

    None if it carries input responses or a request state: its result must neither be cached nor come from the cache.
    https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-key
    """
    found = {field: getattr(params, field) for field in params.__struct_fields__ if field != "meta"}
    found = {field: value for field, value in found.items() if value is not UNSET}
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
    return msgspec.json.Decoder(kind, dec_hook=read_contents).decode


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


def put_together(entry: CacheEntry, payloads: Iterable[str | bytes], left: int) -> CacheableResult:
    """Return a new result from a cache entry and its payloads; ``left`` is the remaining TTL in milliseconds."""
    result: CacheableResult = _decoder(entry.kind)(entry.encoded)
    if isinstance(result, ReadResourceResult):
        for content, payload in zip(result.contents, payloads, strict=True):
            setattr(content, "blob" if isinstance(content, BlobResourceContents) else "text", payload)
    if result.ttl_ms is not UNSET:
        result.ttl_ms = left
    return result
