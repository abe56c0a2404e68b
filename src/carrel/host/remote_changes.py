"""RemoteChanges: subscribes to resources of a remote server while they have subscribers on this side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable

from carrel.catalog.provider import Change, Interest
from carrel.client.client import Client
from carrel.client.watch import Watch
from carrel.errors import MCPError, MethodNotFound
from carrel.log import Log
from carrel.uri.parse import normal_form

__all__ = ["RemoteChanges"]

log = Log("carrel.host")

#: Maximum number of changes in a batch. If there are more, every subscribed resource is reported as changed instead.
MAX_WAITING = 10_000


class RemoteChanges:
    """Subscription on a remote server to all resources with subscribers on this side.

    ``spell`` returns the server's spelling of a URI. ``there`` returns whether the server is connected; ``retry`` must
    be called after it has reconnected.

    This is an async context manager, and an async iterator of batches of changes; the first batch is empty. If the set
    of resources changes, the new subscription is started before the old one is closed, so that no change is missed.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        interest: Interest,
        spell: Callable[[str], str],
        there: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._name = name
        self._interest = interest
        self._spell = spell
        self._there = there
        self._again = asyncio.Event()
        self._failed = False
        self._changes: dict[Change, None] = {}
        self._news = asyncio.Event()
        self._ended = False
        self._keeper: asyncio.Task[None] | None = None
        self._watch: Watch | None = None
        self._pump: asyncio.Task[None] | None = None
        self._uris: dict[str, str] = {}

    async def __aenter__(self) -> RemoteChanges:
        self._keeper = asyncio.ensure_future(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._keeper is not None
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        await self._end(self._watch, self._pump)

    def __aiter__(self) -> AsyncIterator[Collection[Change]]:
        return self

    async def __anext__(self) -> Collection[Change]:
        await self._news.wait()
        self._news.clear()
        if self._ended:
            raise StopAsyncIteration
        batch = list(self._changes)
        self._changes.clear()
        return batch

    def end(self) -> None:
        """End the iteration."""
        self._ended = True
        self._news.set()

    def _put(self, changes: Iterable[Change]) -> None:
        """Add changes to the next batch. If there are too many, report every subscribed resource as changed instead."""
        self._changes.update(dict.fromkeys(changes))
        if len(self._changes) > MAX_WAITING:
            self._changes = dict.fromkeys(Change("changed", uri) for uri in self._uris.values())
        self._news.set()

    def retry(self) -> None:
        """Retry failed subscriptions now, as the server is connected."""
        if self._failed:
            self._again.set()

    async def _wait(self) -> None:
        """Wait until the set of subscribed resources may have changed, or ``retry`` is called."""
        waiting = [asyncio.ensure_future(self._interest.wait()), asyncio.ensure_future(self._again.wait())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        self._again.clear()

    async def _keep(self) -> None:
        """Update the subscription whenever the set of subscribed resources changes."""
        first = True
        while True:
            wanted = {self._spell(uri): uri for uri in self._interest.uris}
            added = [uri for own, uri in wanted.items() if own not in self._uris]
            if wanted.keys() != self._uris.keys():
                await self._change(wanted)
            # Report new resources as changed: changes before the remote subscription started would be missed otherwise.
            self._put([] if first else [Change("changed", uri) for uri in added])
            first = False
            await self._wait()

    async def _change(self, wanted: dict[str, str]) -> None:
        old, pump = self._watch, self._pump
        self._uris = wanted
        self._watch = self._pump = None
        self._failed = False
        if wanted and not self._there():
            self._uris, self._failed = {}, True
        elif wanted:
            watch = self._client.watch(*wanted)
            try:
                await watch.start()
            except MethodNotFound:
                log.debug("%s has no subscriptions", self._name)
            except MCPError as error:
                log.warning("%s: changes of its resources are not known: %s", self._name, error)
                self._uris, self._failed = {}, True  # retried after the server has reconnected
            else:
                self._watch = watch
                self._pump = asyncio.ensure_future(self._pass_on(watch))
        await self._end(old, pump)

    async def _pass_on(self, watch: Watch) -> None:
        try:
            async for change in watch:
                if change.kind == "missed":
                    self._put([Change("changed", uri) for uri in self._uris.values()])
                elif change.uri is not None:
                    self._put([Change("changed", self._normal(change.uri))])
        except MCPError as error:
            log.warning("%s: changes of its resources are not known any more: %s", self._name, error)

    def _normal(self, uri: str) -> str:
        return self._uris[uri] if uri in self._uris else normal_form(uri)

    @staticmethod
    async def _end(watch: Watch | None, pump: asyncio.Task[None] | None) -> None:
        if watch is not None:
            await watch.close()
        if pump is not None:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
