"""HostCatalog: catalog of a host's servers, which can be added and removed at run time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from functools import partial

from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Change, Events, Interest, ListChanges, Provider, ProviderInterest, Recipients
from carrel.catalog.registry import ChangeListener
from carrel.errors import MCPError
from carrel.host.relayed import RELAYED_EXTENSIONS
from carrel.log import Log

__all__ = ["HostCatalog"]

log = Log("carrel.host")

#: Seconds that a new subscription waits for providers to subscribe at their servers.
PATIENCE = 3.0


class HostCatalog(Catalog):
    """Catalog of a host's servers. It is a provider: it reports changes to the server that it is added to.

    ``listener`` is called with all reported changes too.
    """

    extensions = RELAYED_EXTENSIONS

    def __init__(self, listener: ChangeListener | None = None) -> None:
        super().__init__(self._report)
        self._heard_by = listener
        self._events: list[Events] = []
        self._watches: set[CatalogWatch] = set()

    def _report(
        self, changes: Iterable[Change], lists: ListChanges, /, *, recipients: Recipients | None = None
    ) -> None:
        changes = list(changes)
        if self._heard_by is not None:
            self._heard_by(changes, lists, recipients=recipients)
        for events in self._events:
            events.publish(changes, lists, recipients)

    async def start(self, events: Events) -> None:
        """Start to report changes to a server."""
        self._events.append(events)

    async def stop(self) -> None:
        """Stop reporting changes. The host's servers stay connected."""
        self._events.clear()
        for watch in list(self._watches):
            watch.end()

    def offers(self, method: str) -> bool:
        """Return whether a server implements a method; ``watch`` is always implemented."""
        return method == "watch" or super().offers(method)

    def put(self, provider: Provider) -> None:
        """Add a provider that has been started, without reading its lists."""
        super().put(provider)
        for watch in self._watches:
            watch.add(provider)

    def take(self, name: str) -> Provider:
        """Remove a provider without stopping it, and return it.

        Raises:
            KeyError: there is no such provider.
        """
        provider = super().take(name)
        for watch in self._watches:
            watch.remove(provider)
        return provider

    def may_own(self, provider: Provider, uri: str) -> bool:
        """Return whether a normalized URI may belong to a provider."""
        return self.routes.may_own(provider, uri)

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield changes of subscribed resources of all servers, including servers that are added later."""
        watch = CatalogWatch(self, interest)
        self._watches.add(watch)
        try:
            async for batch in watch.batches():
                yield batch
        finally:
            self._watches.discard(watch)
            await watch.close()


class CatalogWatch:
    """Watch on all providers of a catalog, with one task per provider."""

    def __init__(self, catalog: HostCatalog, interest: Interest) -> None:
        self._catalog = catalog
        self._interest = interest
        self._parts: dict[Provider, tuple[ProviderInterest, asyncio.Task[None], asyncio.Event]] = {}
        self._batches: asyncio.Queue[Collection[Change] | None] = asyncio.Queue()
        self._ending: set[asyncio.Task[None]] = set()

    async def batches(self) -> AsyncIterator[Collection[Change]]:
        """Yield batches of changes. The first, empty batch comes once all providers listen, or after a timeout."""
        following = asyncio.ensure_future(self._follow_interest())
        try:
            for provider in self._catalog.providers:
                self.add(provider)
            try:
                async with asyncio.timeout(PATIENCE):
                    for _, _, listens in list(self._parts.values()):
                        await listens.wait()
            except TimeoutError:
                log.debug("some servers do not listen for changes yet")
            yield ()
            while (batch := await self._batches.get()) is not None:
                yield batch
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def add(self, provider: Provider) -> None:
        """Start to watch a provider."""
        if provider in self._parts or not provider.offers("watch"):
            return
        interest, listens = ProviderInterest(self._interest, partial(self._catalog.may_own, provider)), asyncio.Event()
        self._parts[provider] = interest, asyncio.ensure_future(self._follow(provider, interest, listens)), listens

    def remove(self, provider: Provider) -> None:
        """Stop watching a provider."""
        interest, task, _ = self._parts.pop(provider, (None, None, None))
        if interest is not None and task is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def notify(self) -> None:
        """Notify every provider that the set of subscribed resources may have changed."""
        for interest, _, _ in self._parts.values():
            interest.notify()

    def end(self) -> None:
        """End the iteration."""
        self._batches.put_nowait(None)

    async def close(self) -> None:
        """Cancel all tasks."""
        for provider in list(self._parts):
            self.remove(provider)
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _follow_interest(self) -> None:
        """Notify the providers whenever the set of subscribed resources changes."""
        while True:
            await self._interest.wait()
            self.notify()

    async def _follow(self, provider: Provider, interest: Interest, listens: asyncio.Event) -> None:
        try:
            async for batch in provider.watch(interest):
                listens.set()
                if batch:
                    self._batches.put_nowait(batch)
        except MCPError as error:
            log.warning("%s is not watched: %s", provider.name, error)
        except Exception:
            log.exception("watching %s has ended", provider.name)
        finally:
            listens.set()
