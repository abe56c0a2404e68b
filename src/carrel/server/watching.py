"""Watches on the providers of a server: notifications of changes, and waiting until a provider listens for them.

A provider begins to listen in the background when it is added. Until it listens, responses that promise a client
notifications wait for it: those to a subscription, and the first list of a session. The wait has a time limit; if the
provider listens later, clients are notified that its resources may have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import TYPE_CHECKING, Any

from carrel.catalog.provider import ProviderInterest
from carrel.errors import MCPError
from carrel.log import Log

if TYPE_CHECKING:
    from carrel.catalog.provider import Interest, Provider, Recipients
    from carrel.server.runtime import Runtime

__all__ = ["ProviderWatch", "Watches"]

log = Log("carrel")

#: Seconds that the response to a subscription waits for a provider to listen.
PATIENCE = 5.0

#: Seconds that a list waits for a provider to listen.
LIST_PATIENCE = 0.2


class ProviderWatch:
    """Watch on one provider, in a task. ``listens`` is set once no change is missed, or no more changes come."""

    def __init__(self, provider: Provider, runtime: Runtime, interest: Interest, forming: set[ProviderWatch]) -> None:
        self.provider = provider
        self.listens = asyncio.Event()
        self.late = False
        """Whether a request has stopped waiting before the provider began to listen."""
        self._runtime = runtime
        self._interest = interest
        self._forming = forming
        self.task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        provider = self.provider
        try:
            async for changes in provider.watch(self._interest):
                if not self.listens.is_set():  # the first batch says so, and is empty
                    self._begin()
                self._runtime.published(changes, {}, seen=self._runtime.seen(provider))
        except MCPError as error:
            log.warning("%s is not watched: %s", provider.name, error)
        except Exception:
            log.exception("watching %s has ended", provider.name)
        finally:
            self.listens.set()
            self._forming.discard(self)

    def _begin(self) -> None:
        self.listens.set()
        self._forming.discard(self)
        if self.late:
            find = self._runtime.catalog.routes.find
            uris = [uri for uri in self._runtime.hub.uris if find(uri) is self.provider]
            self._runtime.notify(uris, ("resources_list_changed",), seen="everywhere")


class Watches:
    """Watches on all providers of a server that can be watched."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._watches: dict[str, ProviderWatch] = {}
        self._acknowledging: set[asyncio.Task[None]] = set()
        self.outer: Interest | None = None
        """Subscriptions of the server in whose catalog this one is."""
        self._interests: dict[str, ProviderInterest] = {}
        self.forming: set[ProviderWatch] = set()
        """Watches on providers that do not listen for changes yet."""

    def begin(self, provider: Provider) -> None:
        """Begin to watch a provider, if it supports watches and clients can be notified."""
        runtime = self.runtime
        if not provider.offers("watch") or not (runtime.settings.subscribe or runtime.settings.list_changed):
            return
        interest = ProviderInterest(self, lambda uri: runtime.catalog.routes.may_own(provider, uri))
        self._interests[provider.name] = interest
        watch = ProviderWatch(provider, runtime, interest, self.forming)
        self.forming.add(watch)
        self._watches[provider.name] = watch

    async def end(self, name: str) -> None:
        """End the watch on a provider, if there is one."""
        self._interests.pop(name, None)
        watch = self._watches.pop(name, None)
        if watch is not None:
            watch.task.cancel()
            await asyncio.gather(watch.task, return_exceptions=True)

    async def stop(self) -> None:
        """End all watches, and wait for the acknowledgements of subscriptions."""
        for name in list(self._watches):
            await self.end(name)
        await asyncio.gather(*self._acknowledging, return_exceptions=True)

    @property
    def uris(self) -> Collection[str]:
        """URIs with a subscription, here or on the server in whose catalog this one is."""
        uris = self.runtime.hub.uris
        return uris if self.outer is None else {*uris, *self.outer.uris}

    def of(self, recipients: Recipients) -> Collection[str]:
        """URIs to which some clients have subscribed, here or on the server in whose catalog this one is."""
        uris = self.runtime.hub.uris_of(recipients)
        return uris if self.outer is None else {*uris, *self.outer.of(recipients)}

    def notify(self) -> None:
        """Notify the watched providers that the subscriptions have changed."""
        for interest in self._interests.values():
            interest.notify()

    def forming_for(self, uris: Collection[str], lists: Collection[str]) -> list[ProviderWatch]:
        """Return the watches not listening yet, on providers of one of the URIs; all, for changes of the list."""
        if not self.forming:
            return []
        if "resources_list_changed" in lists:
            return list(self.forming)
        providers = {id(self.runtime.catalog.routes.find(uri)) for uri in uris}
        return [watch for watch in self.forming if id(watch.provider) in providers]

    def acknowledge_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the acknowledgement of a subscription that waits for a provider as a task, which ``stop`` waits for."""
        task = asyncio.ensure_future(work)
        self._acknowledging.add(task)
        task.add_done_callback(self._acknowledging.discard)

    async def wait(self, watches: Collection[ProviderWatch]) -> None:
        """Wait until providers listen, up to ``PATIENCE`` seconds, and log which ones do not."""
        for name in await _listening(watches, PATIENCE):
            log.warning("%s is not watched after %g s; clients are told when it is", name, PATIENCE)

    async def wait_for_list(self) -> None:
        """Wait until all providers listen, up to ``LIST_PATIENCE`` seconds."""
        await _listening(tuple(self.forming), LIST_PATIENCE)


async def _listening(watches: Collection[ProviderWatch], patience: float) -> list[str]:
    """Wait up to ``patience`` seconds until providers listen; return the names of providers that do not."""
    try:
        async with asyncio.timeout(patience):
            for watch in watches:
                await watch.listens.wait()
    except TimeoutError:
        late = [watch for watch in watches if not watch.listens.is_set()]
        for watch in late:
            watch.late = True
        return [watch.provider.name for watch in late]
    return []
