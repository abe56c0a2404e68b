"""Watches on the providers of a server: notifications of changes, and waiting until a provider listens for them.

A provider begins to listen in the background when it is added. Until it listens, responses that promise a client
notifications wait for it: those to a subscription, and the first list of a session. The wait has a time limit; if the
provider listens later, clients are notified that its resources may have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from carrel.catalog.provider import ProviderInterest
from carrel.log import Log
from carrel.server.provider_watch import ProviderWatch

if TYPE_CHECKING:
    from carrel.catalog.provider import Interest, Provider, Recipients
    from carrel.server.runtime import Runtime
    from carrel.server.shared_watch import SharedWatch

__all__ = ["Watches"]

log = Log("carrel")

#: Seconds that the response to a subscription waits for a provider to listen.
PATIENCE = 5.0

#: Seconds that a list waits for a provider to listen.
LIST_PATIENCE = 0.2


class Watches:
    """Watches on all providers of a server that can be watched."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._watches: dict[str, ProviderWatch] = {}
        self._acknowledging: set[asyncio.Task[None]] = set()
        self._listens = False
        """Whether letters about shared watches are read."""
        self.outer: Interest | None = None
        """Subscriptions of the server in whose catalog this one is."""
        self._interests: dict[str, ProviderInterest] = {}
        self.forming: set[ProviderWatch] = set()
        """Watches on providers that do not listen for changes yet."""
        self._shared: dict[str, SharedWatch] = {}
        """Watches that replicas share, by key."""

    def begin(self, provider: Provider) -> None:
        """Begin to watch a provider, if it supports watches and clients can be notified."""
        runtime = self.runtime
        if not provider.offers("watch") or not (runtime.settings.subscribe or runtime.settings.list_changed):
            return
        key = self._key(provider)
        if key is None:
            interest = ProviderInterest(self, partial(runtime.catalog.routes.may_own, provider))
            watch = ProviderWatch(provider, runtime, interest, self.forming)
        else:
            from carrel.server.shared_watch import SharedInterest, SharedWatch, listen  # few servers need it

            if not self._listens:
                self._listens = True
                listen(runtime.replica, self._shared)
            interest = SharedInterest(self, partial(runtime.catalog.routes.may_own, provider))
            watch = self._shared[key] = SharedWatch(provider, runtime, interest, self.forming, key)
        self._interests[provider.name] = interest
        self.forming.add(watch)
        self._watches[provider.name] = watch

    def _key(self, provider: Provider) -> str | None:
        """Return the name of a watch that the replicas of this server share; None if each replica watches."""
        runtime = self.runtime
        if not provider.shares_watch or provider.changes == "here":
            return None
        if runtime.settings.state is None or not runtime.replica.shared:
            return None
        state = runtime.replica.state
        if provider.changes == "everywhere" or state.on_one_machine:
            return provider.name
        return f"{state.machine} {provider.name}" if state.machine else None

    async def end(self, name: str) -> None:
        """End the watch on a provider, if there is one."""
        self._interests.pop(name, None)
        watch = self._watches.pop(name, None)
        if watch is not None:
            for key in [key for key, shared in self._shared.items() if shared is watch]:
                del self._shared[key]
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
