"""Indexer: keeps the index up to date. It lists resources, reads new and changed ones, and follows change
notifications.

A resource is read again if its size, modification time or version has changed. A resource without a version is read
each time, and written only if its text differs.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from time import monotonic, time
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote
from weakref import WeakSet

import msgspec

from carrel.awaitables import resolved
from carrel.catalog.catalog import Catalog
from carrel.catalog.paging import all_of
from carrel.catalog.provider import Provider, Request
from carrel.errors import MCPError, ProviderUnavailable, ResourceNotFound
from carrel.log import Log
from carrel.media_types import DIRECTORY
from carrel.search.manifest import IndexedResource, number_of
from carrel.search.options import SearchOptions
from carrel.search.reading import gives_windows, read_text
from carrel.search.store import IndexStore
from carrel.search.update_queue import UpdateQueue
from carrel.search.versions import is_racy, version_of
from carrel.sources.documents.query import text_uri
from carrel.wire.resources import ReadResourceResult, Resource, TextResourceContents

__all__ = ["Indexer", "Progress"]

log = Log("carrel.search")

Run: TypeAlias = Callable[..., Awaitable[Any]]
"""Function that calls another one in the thread that changes the index."""

Result: TypeAlias = tuple[float, ReadResourceResult | bytes | MCPError]
"""Resource as it was read, or the error of reading it, and from when on it was read."""

#: Resources, and bytes of them, that are read and then written together; and reads at a time, of one or of several.
BATCH, BATCH_BYTES, READS, TOGETHER = 64, 2 * 1024 * 1024, 8, 4
#: Assumed size in bytes of a resource without a size, so that few of them are in memory at a time.
UNKNOWN_SIZE = BATCH_BYTES // READS
#: Number of resources compared with the index before yielding to the event loop.
LISTED_AT_ONCE = 250
#: Seconds between commits while many resources are indexed, at least, and as a share of the seconds since the start:
#: each commit ends a part of the index, and the engine merges parts.
COMMIT, COMMIT_SHARE = 10.0, 1 / 3
#: Seconds after which the resources of fast providers are committed while slow providers are still read.
SLOW = 2.0
#: Seconds between two reports of progress.
REPORT = 2.0
#: Resources up to which a source is listed again when some of them change, for their titles and times.
LISTED = 2000
#: Seconds after the start in which a source that was there before may still be added.
GRACE = 60.0
#: Beginnings of MIME types that have no text.
BINARY = ("image/", "audio/", "video/", "font/", "application/octet-stream", "application/zip", "application/gzip")


class Progress(NamedTuple):
    """Progress of indexing: processed resources and bytes of text, seconds, and whether it is complete.

    If ``waiting`` is a number, so many passages have not been embedded yet.
    """

    resources: int
    bytes: int
    seconds: float
    done: bool
    waiting: int | None = None


class Read(NamedTuple):
    """Resource that was read at a time, its text, its version, and whether it may be in the index already."""

    resource: Resource
    text: str
    moment: float
    version: str
    known: bool


class Indexer:
    """Keeps a store in sync with the resources of a catalog. ``skip`` are providers that are not indexed."""

    def __init__(
        self,
        store: IndexStore,
        catalog: Catalog,
        options: SearchOptions,
        run: Run,
        report: Callable[[Progress], object],
        skip: Collection[Provider],
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._options = options
        self._run = run
        self._report = report
        self._skip = skip
        self.whole: WeakSet[Provider] = WeakSet()
        """Providers whose resources were all indexed."""
        self.moved = monotonic()
        """When a resource was last listed, read or written."""
        self._queue = UpdateQueue(self._bring)
        self._started = monotonic()
        self._reset()
        self._total = 0
        self._full = False
        self._committed = monotonic()

    def _reset(self) -> None:
        self._begun = self._reported = monotonic()
        self._resources, self._bytes = (
            Counter[str](),
            Counter[str](),
        )  # by provider, as each may be listed several times
        self._slowest = 0.0

    # All resources

    async def look(self, changed: Collection[str] = ()) -> float:
        """Bring the index up to date. The URIs in ``changed`` are read again even if their versions are unchanged.

        Return the seconds of the slowest provider, except providers that failed.

        Raises:
            Damaged: the index cannot be read.
        """
        self._reset()
        _, self._total = await self._run(self._store.manifest.totals)
        await self._update_all(dict.fromkeys(self.providers, changed), everything=True)
        if monotonic() - self._started > GRACE:
            here = {provider.name for provider in self._catalog.providers}
            for name in await self._run(self._store.manifest.providers):
                if name not in here:
                    await self._run(self._store.write, [], list(await self._run(self._store.manifest.known, name)))
        await self._run(self._store.manifest.mark_complete)
        await self._commit()
        self._report_progress(done=True)
        return self._slowest

    async def _update_all(self, changed: Mapping[Provider, Collection[str]], *, everything: bool) -> None:
        """Bring the resources of providers up to date, concurrently: a slow provider does not delay the others."""
        looks = [
            asyncio.ensure_future(self._queue.run(provider, uris, everything=everything))
            for provider, uris in changed.items()
        ]
        waiting: Collection[asyncio.Future[None]] = looks
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=SLOW, return_when=asyncio.FIRST_EXCEPTION)
                for each in done:
                    each.result()
                if done and waiting:
                    await self._commit()
        finally:
            for each in looks:
                each.cancel()
            await asyncio.gather(*looks, return_exceptions=True)

    @property
    def providers(self) -> list[Provider]:
        """Providers of resources that are indexed."""
        return [one for one in self._catalog.providers if one not in self._skip and one.offers("list_resources")]

    async def _look(self, provider: Provider, changed: Collection[str]) -> None:
        """Bring all resources of one provider up to date."""
        begun = monotonic()
        known = await self._run(self._store.manifest.known, provider.name)
        seen: set[int] = set()
        windows = await gives_windows(provider)
        batch: list[tuple[Resource, bool]] = []
        size = listed = 0
        writing: Awaitable[Any] | None = None
        async for resource in all_of(provider.list_searchable):
            self.moved = monotonic()
            number = number_of(provider.name, resource.uri)
            if number in seen or not self._wants(resource):
                continue
            seen.add(number)
            if len(seen) % LISTED_AT_ONCE == 0:
                await asyncio.sleep(0)
            listed += resource.size or 0
            self._resources[provider.name] = max(self._resources[provider.name], len(seen))
            self._bytes[provider.name] = max(self._bytes[provider.name], listed)
            version = known.get(number)
            if version and version == version_of(resource) and resource.uri not in changed:
                continue
            batch.append((resource, version is not None))
            size += UNKNOWN_SIZE if resource.size is None else resource.size
            if len(batch) >= BATCH or size >= BATCH_BYTES:
                writing = await self._index(provider, batch, windows, writing)
                batch, size = [], 0
        writing = await self._index(provider, batch, windows, writing)
        if writing is not None:
            await writing
        await self._run(_remove_others, self._store, known, seen)
        self.whole.add(provider)
        self.moved = monotonic()
        self._slowest = max(self._slowest, monotonic() - begun)

    def _wants(self, resource: Resource) -> bool:
        if resource.mime_type == DIRECTORY:
            return False
        return not any(fnmatchcase(resource.uri, pattern) for pattern in self._options.exclude)

    async def _index(
        self,
        provider: Provider,
        batch: Sequence[tuple[Resource, bool]],
        windows: bool,
        writing: Awaitable[Any] | None,
    ) -> Awaitable[Any] | None:
        """Read some resources while those before are written, and begin to write them."""
        together = await self._read_together(provider, [resource for resource, _ in batch])
        waiting = iter(batch)
        found: list[Read] = []

        async def read() -> None:
            for resource, known in waiting:
                try:
                    found.append(await self._read(provider, resource, known, together.get(resource.uri)))
                    self.moved = monotonic()
                except ResourceNotFound:  # since it was listed; its change is still to come
                    pass

        await asyncio.gather(*(read() for _ in range(READS)))
        if writing is not None:
            await writing
            self.moved = monotonic()
            if self.moved - self._committed > max(COMMIT, (self.moved - self._begun) * COMMIT_SHARE):
                await self._commit()
        if monotonic() - self._reported > REPORT:
            self._report_progress(done=False)
        return asyncio.ensure_future(self._run(self._write, provider, windows, found)) if found else None

    def _report_progress(self, *, done: bool) -> None:
        self._reported = monotonic()
        self._report(Progress(self._resources.total(), self._bytes.total(), self._reported - self._begun, done))

    async def _read_together(self, provider: Provider, resources: Sequence[Resource]) -> dict[str, Result]:
        """Read several resources in one call, if the provider supports it; return the results by URI."""
        if not provider.offers("read_searchable"):
            return {}
        uris = [each.uri for each in resources if text_uri(each) == each.uri and self._is_text(each)]
        size = -(-len(uris) // TOGETHER) or 1
        found: dict[str, Result] = {}

        async def read(part: Sequence[str]) -> None:
            moment = time()
            try:
                results = await resolved(provider.read_searchable(part, Request()))
            except ProviderUnavailable:
                raise
            except MCPError as error:
                log.debug("resources of %s are read one by one: %s", provider.name, error)
            else:
                found.update((uri, (moment, result)) for uri, result in zip(part, results, strict=True))

        await asyncio.gather(*(read(uris[at : at + size]) for at in range(0, len(uris), size)))
        return found

    async def _commit(self) -> None:
        await self._run(self._store.commit)
        self._committed = monotonic()

    # Changes

    async def update(self, changed: Collection[str], *, everything: bool = False) -> None:
        """Bring resources up to date that have changed, were created, or are gone; with ``everything``, all resources.

        Raises:
            Damaged: the index cannot be read.
        """
        by_provider: dict[Provider, list[str]] = {provider: [] for provider in self.providers if everything}
        lost: list[int] = []
        for uri in changed:
            provider = self._catalog.routes.find(uri)
            if provider is None:
                lost += [number_of(each.name, uri) for each in self.providers]
            elif provider not in self._skip:
                by_provider.setdefault(provider, []).append(uri)
        if lost:
            await self._run(self._store.write, [], list(await self._run(self._store.entries, lost)))
        await self._update_all(by_provider, everything=everything)
        await self._commit()

    async def _bring(self, provider: Provider, uris: Collection[str], everything: bool) -> None:
        """Bring resources of a provider up to date: all, or, of a provider that has many, these."""
        try:
            if not everything:
                count = await self._run(self._store.manifest.count, provider.name)
                everything = provider.offers("list_searchable") or (
                    count <= LISTED and provider.offers("list_resources")
                )
            await (self._look(provider, uris) if everything else self._update(provider, uris))
        except ProviderUnavailable as error:
            log.debug("%s is not available: its entries stay in the index", error.provider)
        except MCPError as error:
            log.warning("%s is not indexed: %s", provider.name or "this server", error)

    async def _update(self, provider: Provider, uris: Iterable[str]) -> None:
        """Read single resources of a provider that has many."""
        windows = await gives_windows(provider)
        numbers = {uri: number_of(provider.name, uri) for uri in uris}
        known: dict[int, IndexedResource] = await self._run(self._store.entries, list(numbers.values()))
        put: list[Read] = []
        gone: list[int] = []
        for uri, number in numbers.items():
            entry = known.get(number)
            resource = Resource(uri, _name_of(uri)) if entry is None else entry.resource
            resource = msgspec.structs.replace(resource, size=None, annotations=_now(resource))
            if not self._wants(resource):
                continue
            try:
                put.append(await self._read(provider, resource, entry is not None, listed=False))
            except ResourceNotFound:
                if entry is not None:
                    gone.append(number)
        await self._run(self._write, provider, windows, put, gone)

    # One resource

    async def _read(
        self, provider: Provider, resource: Resource, known: bool, result: Result | None = None, *, listed: bool = True
    ) -> Read:
        """Read a resource, or take the ``result`` of reading it.

        A resource that was not ``listed`` may be a directory, and its type comes from the read result.

        Raises:
            ResourceNotFound: the resource no longer exists, or is a directory.
        """
        now, given = result or (time(), None)
        text = ""
        if not listed or self._is_text(resource):
            try:
                resource, whole = await read_text(provider, resource, given)
            except (ResourceNotFound, ProviderUnavailable):
                raise
            except (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException as error:  # also a request to a client, because there is no client
                log.debug("%s is found by its name only: %s", resource.uri, error)
            else:
                texts = [each.text for each in whole.contents if isinstance(each, TextResourceContents)]
                kind = whole.contents[0].mime_type if whole.contents else None
                if kind == DIRECTORY:
                    raise ResourceNotFound(resource.uri)
                text = texts[0] if len(texts) == 1 else "\n".join(texts)
                if resource.mime_type is None:
                    resource = msgspec.structs.replace(resource, mime_type=kind)
        version = "" if not listed or is_racy(resource, now) else version_of(resource)
        return Read(resource, text, now, version, known)

    # In the thread that changes the index

    def _write(self, provider: Provider, windows: bool, read: Iterable[Read], gone: Iterable[int] = ()) -> None:
        """Write new and changed resources to the index, and remove deleted ones."""
        put = []
        for each in read:
            entry = self._entry(provider, windows, each)
            if each.known:
                before = self._store.entries([entry.number]).get(entry.number)
                if before is not None and before.digest == entry.digest and _about(before) == _about(entry):
                    if before.version != entry.version or before.resource != entry.resource:
                        self._store.manifest.set_version(entry.number, entry.resource, entry.version)
                    continue
            self._total += entry.size
            put.append((entry, each.known))
        self._store.write(put, gone)

    def _entry(self, provider: Provider, windows: bool, read: Read) -> IndexedResource:
        """Return the entry of a resource, without its text where that is too large."""
        resource, text = read.resource, read.text
        data = text.encode("utf-8", "surrogatepass")
        if text and resource.size is None and text_uri(resource) == resource.uri:
            resource = msgspec.structs.replace(resource, size=len(data))
        if len(data) > self._options.max_file_size or not self._is_text(resource) or not self._fits(len(data)):
            text, data = "", b""
        return IndexedResource(
            number_of(provider.name, resource.uri),
            provider.name,
            resource.uri,
            resource,
            read.version,
            read.moment,
            len(data),
            hashlib.blake2b(data, digest_size=16).digest(),
            windows,
            text,
            _path_of(resource.uri, provider),
        )

    # One resource

    def _is_text(self, resource: Resource) -> bool:
        kind = (resource.mime_type or "").lower()
        if text_uri(resource) != resource.uri:  # the listed size is the document's, not its text's
            return not self._options.mime_types or any(fnmatchcase(kind, each) for each in self._options.mime_types)
        if resource.size is not None and resource.size > self._options.max_file_size:
            return False
        if self._options.mime_types:
            return not kind or any(fnmatchcase(kind, pattern) for pattern in self._options.mime_types)
        return not kind.startswith(BINARY) or kind.endswith("+xml")

    def _fits(self, size: int) -> bool:
        if self._total + size <= self._options.max_total_size:
            return True
        if not self._full:
            self._full = True
            limit = self._options.max_total_size
            log.warning("the search index has %s bytes of text, its limit; the rest is found by name only", limit)
        return False


def _path_of(uri: str, provider: Provider) -> str:
    """Return the path of a resource below what its provider shares."""
    rest = next((uri[len(start) :] for start in provider.prefixes if uri.startswith(start)), None)
    if rest is None:
        rest = uri.partition("://")[2] or uri
    return unquote(rest, errors="replace")


def _remove_others(store: IndexStore, known: Collection[int], here: Collection[int]) -> None:
    """Remove resources that are not here any more."""
    gone = [number for number in known if number not in here]
    if gone:
        store.write([], gone)


def _about(entry: IndexedResource) -> tuple[str, str | None, str | None, str | None]:
    """Return the part of a resource's description that is indexed."""
    resource = entry.resource
    return resource.name, resource.title, resource.description, resource.mime_type


def _name_of(uri: str) -> str:
    return unquote(uri.rstrip("/").rpartition("/")[2], errors="replace") or uri


def _now(resource: Resource) -> Any:
    from carrel.wire.base import Annotations

    moment = datetime.fromtimestamp(int(time())).astimezone().isoformat()
    return msgspec.structs.replace(resource.annotations or Annotations(), last_modified=moment)
