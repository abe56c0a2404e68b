"""Contents of objects: whole, from a cache of known versions, or in windows, by ranged reads of one version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from carrel.errors import ResourceError, ResourceTooLarge
from carrel.media_types import type_of_bytes, type_of_name
from carrel.sources.content.text import SAMPLE
from carrel.sources.content.window import Window
from carrel.sources.documents.documents import Original
from carrel.sources.documents.kinds import kind_of
from carrel.sources.files.read import HEAD, Contents, contents_of, read_part, too_large_of
from carrel.sources.sized_cache import SizedCache
from carrel.sources.stores.options import StoreOptions
from carrel.sources.stores.store import (
    GetOptions,
    GetResult,
    ObjectNotFound,
    ObjectTooLarge,
    Store,
    StoreEntry,
    VersionChanged,
)
from carrel.sources.workers import Workers
from carrel.threads import stop_if_cancelled

__all__ = ["ObjectReader"]

ATTEMPTS = 3  # to read one version of an object that is being replaced
STEP = 131_072  # bytes read ahead at first, where an object is read on and on
AHEAD = 4 * 1024 * 1024  # and at last


class ObjectReader:
    """Reads objects of a store. Whole objects are cached, up to ``cache_size`` bytes, and fetched again only if they
    change.
    """

    def __init__(self, store: Store, options: StoreOptions, workers: Workers) -> None:
        self._store = store
        self._options = options
        self._workers = workers
        self._cache: SizedCache[str, GetResult] = SizedCache(options.cache_size)

    def forget(self) -> None:
        """Clear the cache."""
        self._cache.clear()

    async def read(self, key: str, uri: str, window: Window | None, client: str) -> Contents:
        """Read an object, or a window of it.

        Raises:
            StoreError: it is not there, or cannot be read.
            ResourceTooLarge: it is over the limit; the message has the URIs of smaller windows.
            InvalidParams: the window is not valid for it.
        """
        if window is None:
            data = await self._whole(key, uri)
            return await self._workers.run(client, contents_of, data, uri, name_of(key))
        for _ in range(ATTEMPTS):
            try:
                return await self._window(key, uri, window, client)
            except VersionChanged:
                continue
        raise ResourceError(uri, "Resource changed while it was read; retry")

    async def original(self, key: str, uri: str, limit: int, known: Callable[[Hashable], bool]) -> Original:
        """Read an object of at most ``limit`` bytes as a document; without its bytes if its version is known.

        Raises:
            StoreError: it is not there, or cannot be read.
            ResourceTooLarge: it is over the limit.
        """
        entry = await self._store.head(key)
        version = entry.fingerprint
        kind = type_of_name(name_of(key))
        if kind_of(kind) is None:
            head = await self._store.get(key, GetOptions(HEAD, first=0))
            kind = type_of_bytes(b"" if head is None else head.data, name_of(key))
        if kind_of(kind) is None or known(version):
            return Original(kind, version, None)
        try:
            part = await self._store.get(key, GetOptions(limit))
        except ObjectTooLarge as error:
            raise ResourceTooLarge(
                uri,
                f"The document has {error.size:,} bytes, which is over the limit of {limit:,} for turning it into text",
            ) from None
        assert part is not None
        return Original(kind, part.entry.fingerprint, part.data)

    async def _whole(self, key: str, uri: str) -> bytes:
        limit = self._options.max_size
        known = self._cache.get(key)
        try:
            part = await self._store.get(key, GetOptions(limit, unless=None if known is None else known.entry.version))
        except ObjectTooLarge as error:
            head = await self._store.get(key, GetOptions(HEAD, first=0))
            raise too_large_of(uri, error.size, limit, b"" if head is None else head.data) from None
        except ObjectNotFound:
            self._cache.drop(key)
            raise
        if part is None:
            assert known is not None
            part = known
        if part.entry.version is None or len(part.data) > self._options.cache_size // 4:
            self._cache.drop(key)
        else:
            self._cache.put(key, part, len(part.data) + 500)
        return part.data

    async def _window(self, key: str, uri: str, window: Window, client: str) -> Contents:
        known = self._cache.get(key)
        head = await self._store.get(key, GetOptions(SAMPLE, first=0))
        assert head is not None
        if known is not None and known.entry.version == head.entry.version:
            head = known
        ranges = Ranges(self._store, key, head)
        size = head.entry.size or 0
        return await self._workers.run(client, read_part, ranges, uri, name_of(key), size, window, self._options)


class Ranges:
    """Random-access reader for threads. It fetches ranges of one version in the event loop, with read-ahead."""

    def __init__(self, store: Store, key: str, head: GetResult) -> None:
        self._store = store
        self._key = key
        self._entry: StoreEntry = head.entry
        self._head = head.data
        self._begin, self._block, self._ahead = 0, head.data, 0
        self._loop = asyncio.get_running_loop()

    def __call__(self, offset: int, count: int) -> bytes:
        stop_if_cancelled()
        count = max(min(count, (self._entry.size or 0) - offset), 0)
        if offset + count <= len(self._head):
            return self._head[offset : offset + count]
        end = self._begin + len(self._block)
        if not self._begin <= offset <= end:
            self._begin, self._block, self._ahead, end = offset, b"", 0, offset
        missing = offset + count - end
        if missing > 0:
            # Sequential reads increase the size of the read-ahead.
            data = self._wait(self._fetch(end, max(missing, self._ahead)))
            self._ahead = min(max(2 * self._ahead, STEP), AHEAD)
            self._block = self._block[offset - self._begin :] + data
            self._begin = offset
        begin = offset - self._begin
        return self._block[begin : begin + count]

    async def _fetch(self, offset: int, count: int) -> bytes:
        part = await self._store.get(self._key, GetOptions(count, offset, self._entry.version))
        assert part is not None
        return part.data

    def _wait(self, work: Coroutine[Any, Any, bytes]) -> bytes:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def name_of(key: str) -> str:
    return key.rpartition("/")[2]
