"""BackgroundIndex: index of the resources of a catalog that is made and kept up to date in the background.

A separate thread writes the index. Of several processes that share an index, one writes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, NoReturn, TypeVar

from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Change, ListChanges, Provider, Recipients, Request
from carrel.errors import ConfigError
from carrel.heap import return_free_pages
from carrel.log import Log
from carrel.search.embedder import Embedder
from carrel.search.embeddings import Embeddings
from carrel.search.engine import Damaged
from carrel.search.folder import IndexFolder
from carrel.search.indexer import Indexer, Progress
from carrel.search.options import SearchOptions
from carrel.search.store import IndexStore
from carrel.search.vectors import numbers
from carrel.sources.workers import Workers

__all__ = ["BackgroundIndex"]

log = Log("carrel.search")

T = TypeVar("T")

#: Debounce interval in seconds: changes within it are indexed together.
SETTLE, SETTLE_LISTS = 0.05, 0.3
#: Seconds that a tool waits for an index in which it finds nothing yet.
SOON = 5.0
#: Seconds after which changes are indexed although a provider has not answered.
SLOW = 2.0
#: Seconds between checks of an index that another process is building.
RETRY = 1.0
#: Seconds between attempts to take over from another process.
TAKE_OVER = 30.0


class BackgroundIndex:
    """Index over all resources of a catalog, which is made and kept up to date in the background.

    ``key`` identifies the shared resources: servers with an equal key and equal options share one index. ``label`` is
        the source name of the server's local resources. ``progress`` is called during the first indexing, and not for
        later changes. ``embedder`` returns vectors of texts.

    Raises:
        ConfigError: a package for embeddings is missing.
    """

    def __init__(
        self,
        catalog: Catalog,
        options: SearchOptions,
        *,
        key: Callable[[], str],
        label: str,
        progress: Callable[[Progress], object] | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.catalog = catalog
        self.options = options
        self.label = label
        self.skip: set[Provider] = set()
        """Providers that are not indexed."""
        self.enabled = True
        """Whether ``start`` opens the index; if not, nothing is found."""
        self._key = key
        self._progress = progress
        self._pool = Workers(self, "carrel-search", threads=4, per_client=2)
        self._writer: ThreadPoolExecutor | None = None
        self._store: IndexStore | None = None
        self._indexer: Indexer | None = None
        self._task: asyncio.Task[None] | None = None
        self._folder: IndexFolder | None = None
        self._ready = asyncio.Event()
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._changed: set[str] = set()
        self._look = True
        self._stale = False
        self._embedded = False
        self._version = 0
        self._updated = asyncio.Event()
        self._embeddings: Embeddings | None = None
        if embedder is not None:
            numbers()
            self._embeddings = Embeddings(embedder, self._report_waiting)

    # Lifecycle

    async def start(self) -> None:
        """Begin to index in the background.

        Raises:
            ConfigError: tantivy is not installed, or the folder cannot be used.
        """
        from carrel.search.engine import load

        load()
        if not self.enabled:
            return
        self._folder = IndexFolder(self.options.folder, self._key())
        self._pool.start()
        self._writer = ThreadPoolExecutor(1, "carrel-index")
        self._ready, self._wake, self._settled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._updated = asyncio.Event()
        self._look = True
        self._task = asyncio.ensure_future(self._follow())

    async def stop(self) -> None:
        """Stop, and keep the index as it is."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._embeddings is not None:
            await self._embeddings.close()
        writer, self._writer = self._writer, None
        await self._pool.stop()
        store, self._store = self._store, None
        if writer is not None:
            loop = asyncio.get_running_loop()
            if store is not None:
                await loop.run_in_executor(writer, _close, store)
            writer.shutdown(wait=False)

    def on_changes(self, changes: Iterable[Change], lists: ListChanges, recipients: Recipients | None = None) -> None:
        """Record changes of resources; called in the event loop."""
        found = {change.uri for change in changes}
        if "resources_list_changed" in lists:
            keys = lists["resources_list_changed"]
            if keys is None:
                self._look = True
            else:
                found.update(keys)
        if found or self._look:
            self._changed |= found
            self._settled.clear()
            self._wake.set()

    async def ready(self) -> None:
        """Wait until all resources that were shared at the start are indexed."""
        await self._ready.wait()

    async def ready_or_idle(self, idle: float) -> None:
        """Wait as in ``ready``, but only until nothing was indexed for some seconds: the rest does not answer."""
        began = monotonic()
        while not self._ready.is_set():
            moved = began if self._indexer is None else self._indexer.moved
            rest = moved + idle - monotonic()
            if rest <= 0:
                return
            try:
                async with asyncio.timeout(rest):
                    await self._ready.wait()
            except TimeoutError:
                pass  # something may have been indexed meanwhile

    async def ready_soon(self) -> None:
        """Wait as in ``ready``, but not longer than a caller of a tool that finds nothing yet should wait."""
        try:
            async with asyncio.timeout(SOON):
                await self.ready()
        except TimeoutError:
            pass

    async def settled(self) -> None:
        """Wait until all known changes are indexed."""
        await self._settled.wait()

    @property
    def version(self) -> int:
        """Number of times that changes were indexed."""
        return self._version

    async def after(self, version: int) -> None:
        """Wait until changes were indexed after a version."""
        while self._version <= version:
            await self._updated.wait()

    def _report_update(self) -> None:
        self._version += 1
        self._updated.set()
        self._updated = asyncio.Event()

    async def embedded(self) -> None:
        """Wait until all passages that this process has indexed have been embedded; a no-op without embeddings."""
        await self.ready()
        if self._embeddings is not None and self.writes:
            await self._embeddings.settled()

    @property
    def complete(self) -> bool:
        """Whether all resources that were shared at the start are indexed."""
        return self._ready.is_set()

    @property
    def unread(self) -> tuple[str, ...]:
        """Names of the providers whose resources are not all indexed; empty if another process writes the index."""
        indexer = self._indexer
        return () if indexer is None else tuple(each.name for each in indexer.providers if each not in indexer.whole)

    @property
    def writes(self) -> bool:
        """Whether this process writes the index, rather than another process that shares it."""
        return self._store is not None and self._store.writes

    async def size(self) -> int:
        """Return the size of the index on disk, in bytes."""
        store = self._store
        return 0 if store is None else await self.in_thread(Request(), store.size)

    # In the background

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the thread that changes the index."""
        assert self._writer is not None
        return await asyncio.get_running_loop().run_in_executor(self._writer, function, *arguments)

    async def _follow(self) -> None:
        """Open the index, and keep it up to date."""
        assert self._folder is not None
        try:
            while True:
                try:
                    model = None if self._embeddings is None else await self._run(self._embeddings.identity)
                    before, store = self._store, await self._run(IndexStore, self._folder, model)
                except Damaged as error:
                    log.debug("another process makes the index: %s", error)
                    await self._pause(RETRY)
                    continue
                self._store, self._stale = store, False
                if before is not None:
                    await self._run(before.close_files)
                if store.writes:
                    async with self._embedding(store):
                        await self._keep(store)
                await self._share(store, self._folder)
        except ConfigError as error:
            log.warning("nothing can be searched: %s", error)
        except Exception:
            log.exception("the search index is not kept up to date any more")

    @asynccontextmanager
    async def _embedding(self, store: IndexStore) -> AsyncIterator[None]:
        """Embed the passages of an index during the block."""
        if self._embeddings is None:
            yield
            return
        task = asyncio.ensure_future(self._embeddings.follow(lambda: store.vectors, self._run))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep(self, store: IndexStore) -> NoReturn:
        """Keep an index up to date that this process writes."""
        indexer = self._indexer = Indexer(store, self.catalog, self.options, self._run, self._report, self.skip)
        next_look = next_list = 0.0
        while True:
            self._wake.clear()
            changed, self._changed = self._changed, set()
            try:
                if self._look or monotonic() >= next_look:
                    if self._ready.is_set():
                        await asyncio.sleep(max(SETTLE_LISTS, next_list - monotonic()))  # more of them may come
                        changed |= self._changed
                        self._changed = set()
                    self._look = False
                    seconds = await self._with_changes(indexer, indexer.look(frozenset(changed)))
                    ended = monotonic()
                    next_look = ended + max(self.options.refresh, 20 * seconds)
                    next_list = ended + 2 * seconds  # lists that change all the time leave time for the rest
                    if self._embeddings is not None and store.vectors is not None:
                        await self._run(store.vectors.tidy)
                        self._embeddings.wake()
                    await self._run(return_free_pages)  # the versions of all resources were in memory
                    self._ready.set()
                    self._report_update()
                elif changed:
                    await self._with_changes(indexer, self._update(indexer, changed))
            except Damaged as error:
                self._ready.clear()
                await self._run(store.rebuild, str(error))
                self._look = True
                continue
            if not self._look and not self._changed:
                self._settled.set()
                await self._pause(max(0.0, next_look - monotonic()))
                await asyncio.sleep(SETTLE)

    async def _with_changes(self, indexer: Indexer, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work of the indexer. If a provider takes long, index changes of other providers meanwhile.

        Raises:
            Damaged: the index cannot be read.
        """
        main = asyncio.ensure_future(work)
        tasks: set[asyncio.Future[Any]] = {main}
        try:
            while tasks:
                done, tasks = await asyncio.wait(tasks, timeout=SLOW, return_when=asyncio.FIRST_EXCEPTION)
                for each in done:
                    each.result()
                if tasks and (self._changed or self._look):
                    changed, self._changed = self._changed, set()
                    lists, self._look = self._look, False
                    tasks.add(asyncio.ensure_future(self._update(indexer, changed, everything=lists)))
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return main.result()

    async def _update(self, indexer: Indexer, changed: set[str], *, everything: bool = False) -> None:
        """Index changes, and report it."""
        await indexer.update(changed, everything=everything)
        self._report_update()
        if self._embeddings is not None:
            self._embeddings.wake()

    async def _share(self, store: IndexStore, folder: IndexFolder) -> None:
        """Search in the index of another process, until that process ends or rebuilds the index."""
        while not self._stale and not await self._run(folder.lock):
            if not self._ready.is_set() and await self._run(lambda: store.manifest.complete):
                self._ready.set()
            self._wake.clear()
            if self._ready.is_set():
                self._settled.set()
            await self._pause(min(TAKE_OVER, self.options.refresh) if self._ready.is_set() else RETRY)

    async def _pause(self, seconds: float) -> None:
        """Wait until something has changed, or for some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _report_waiting(self, passages: int) -> None:
        if self._progress is not None and not self._embedded:
            self._progress(Progress(0, 0, 0.0, not passages, passages))
        self._embedded = self._embedded or (self._ready.is_set() and not passages)

    def _report(self, progress: Progress) -> None:
        if self._embeddings is not None:
            self._embeddings.wake()
        if self._progress is not None and not self._ready.is_set():
            self._progress(progress)

    # Searching

    async def in_thread(self, request: Request, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function that reads the index in a thread, on behalf of the client of a request."""
        return await self._pool.run(request.client, function, *arguments)

    async def _after_damage(self, error: Damaged) -> None:
        """Rebuild a damaged index."""
        log.warning("the search index is damaged: %s", error)
        store = self._store
        self._ready.clear()
        if store is not None and store.writes:
            await self._run(store.rebuild, str(error))
            self._look = True
        else:
            self._stale = True
        self._wake.set()


def _close(store: IndexStore) -> None:
    try:
        store.close()
    except Damaged as error:
        log.debug("the search index cannot be closed: %s", error)
