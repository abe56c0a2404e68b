"""Lifecycle of a server: start-up with its first transport, shutdown with its last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, TypeAlias

from carrel.errors import ConfigError, SourceUnavailable
from carrel.log import Log
from carrel.server.subscriptions import LISTS

if TYPE_CHECKING:
    from carrel.catalog.provider import Provider
    from carrel.server.local import LocalProvider
    from carrel.server.runtime import Runtime, Seen
    from carrel.server.watching import Watches

__all__ = ["Hook", "Lifecycle"]

log = Log("carrel.server")

#: Seconds after which an optional provider is started again; the pause doubles up to the last.
PAUSES = (1.0, 60.0)

Hook: TypeAlias = "Callable[[], Awaitable[None] | None]"


class Lifecycle:
    """Start and stop of a server that several transports share.

    ``lifespan`` returns the context manager that is entered at start-up, if there is one.
    """

    def __init__(
        self,
        runtime: Runtime,
        local: LocalProvider,
        watches: Watches,
        lifespan: Callable[[], AbstractAsyncContextManager[object]] | None,
    ) -> None:
        self._runtime = runtime
        self._local = local
        self._watches = watches
        self._lifespan = lifespan
        self.on_startup: list[Hook] = []
        """Called after the lifespan is entered."""
        self.on_shutdown: list[Hook] = []
        """Called before the lifespan is left, the last one first."""
        self.added: list[Provider] = []
        """Providers that are started with the server."""
        self._optional: set[Provider] = set()  # providers that are left out if they cannot start
        self._waiting: dict[str, asyncio.Task[None]] = {}  # for optional providers that cannot be reached yet
        self._stack: AsyncExitStack | None = None
        self._users = 0
        self.is_stopping = False
        """Whether the server finishes its last requests. Thread-safe."""
        self._changing = asyncio.Lock()

    async def start(self) -> None:
        """Enter the lifespan, start the providers and begin to watch them, for the first transport that calls it.

        Raises:
            ConfigError: it runs in another event loop, or a part of it cannot be started.
        """
        if self._users == 0 and not self._changing.locked():
            self._changing = asyncio.Lock()  # one lock is for one event loop
        self._users += 1
        try:
            self._runtime.check_loop()
            async with self._changing:
                if not self._runtime.is_running:
                    await self._start()
        except BaseException:
            self._users -= 1
            raise

    async def _start(self) -> None:
        self._runtime.start()
        self.is_stopping = False
        self._stack = AsyncExitStack()
        try:
            if self._runtime.settings.state is not None:
                await self._runtime.replica.start()
                self._stack.push_async_callback(self._runtime.replica.stop)
            if self._lifespan is not None:
                self._runtime.state = await self._stack.enter_async_context(self._lifespan())
            for hook in self.on_startup:
                await _run_hook(hook)
            for hook in self.on_shutdown:
                self._stack.push_async_callback(_run_hook, hook)
            for provider in self.added:
                await self.start_provider(provider, optional=provider in self._optional, seen="everywhere")
            for tool, page in self._local.tools.pages:
                if page not in self._runtime.catalog.routes:
                    raise ConfigError(f"The tool {tool} points at {page}, which is not registered; add it with app.ui")
        except BaseException:
            await self._stop()
            raise

    def add(self, provider: Provider, *, optional: bool = False) -> Provider:
        """Add a provider before the start; return it, or the existing provider that it was merged into.

        The merged provider is optional only if both are.
        """
        for earlier in self.added:
            if earlier.join(provider):
                if not optional:
                    self._optional.discard(earlier)
                return earlier
        self.added.append(provider)
        if optional:
            self._optional.add(provider)
        return provider

    async def start_provider(self, provider: Provider, *, optional: bool = False, seen: Seen = "here") -> None:
        """Start a provider, and watch it; an ``optional`` provider that fails to start is left out, with a warning.

        A provider that cannot be reached (``SourceUnavailable``, ``OSError``) is retried in the background. ``seen``
        says whether other replicas have the provider too: then their clients are not notified.

        Raises:
            ConfigError, OSError: it cannot be started, and is not optional.
        """
        try:
            await self._runtime.catalog.add(provider)
        except (ConfigError, OSError) as error:
            if not optional:
                raise
            wait = isinstance(error, SourceUnavailable | OSError)
            log.warning("%s is left out%s: %s", provider.name, " until it can be reached" if wait else "", error)
            if wait:
                self._waiting[provider.name] = asyncio.ensure_future(self._start_later(provider))
            return
        self._watches.begin(provider)
        self._runtime.notify(lists=LISTS, seen=seen)

    async def leave_out(self, name: str) -> bool:
        """Stop trying to start a provider that cannot be reached yet. Return whether there is one of that name."""
        task = self._waiting.pop(name, None)
        if task is None or task.done():
            return False
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return True

    def sources(self) -> dict[str, bool]:
        """Return whether each source is available, by name. Thread-safe."""
        away = self._runtime.catalog.away
        started = {
            one.name: one.name not in away for one in tuple(self._runtime.catalog.providers) if one is not self._local
        }
        return {**dict.fromkeys(tuple(self._waiting), False), **started}

    def unavailable_sources(self) -> list[str]:
        """Return the names of sources that are not optional, and not available. Thread-safe."""
        away, optional = self._runtime.catalog.away, {provider.name for provider in tuple(self._optional)}
        names = [one.name for one in tuple(self._runtime.catalog.providers) if one is not self._local]
        return [name for name in names if name in away and name not in optional]

    async def _start_later(self, provider: Provider) -> None:
        pause = PAUSES[0]
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSES[1])
            try:
                await self._runtime.catalog.add(provider)
            except (SourceUnavailable, OSError) as error:
                log.debug("%s is still left out: %s", provider.name, error)
            except ConfigError as error:
                log.warning("%s is left out: %s", provider.name, error)
                return
            except Exception:
                log.exception("starting %s has failed", provider.name)
                return
            else:
                break
        log.warning("%s can be reached now", provider.name)
        self._watches.begin(provider)
        self._runtime.notify(lists=LISTS)

    async def stop(self) -> None:
        """End the subscriptions gracefully, stop the providers, leave the lifespan, with the last transport."""
        self._users = max(0, self._users - 1)
        async with self._changing:
            if self._users == 0:
                await self._stop()

    async def _stop(self) -> None:
        self._runtime.hub.shut()
        for name in tuple(self._waiting):
            await self.leave_out(name)
        await self._watches.stop()
        await self._runtime.stop()
        stack, self._stack = self._stack, None
        async with stack or AsyncExitStack() as rest:
            for provider in self._runtime.catalog.providers:
                if provider is not self._local:
                    rest.push_async_callback(self._runtime.catalog.remove, provider.name)

    def end_streams(self) -> None:
        """End every long-lived listen stream gracefully, before the last transport stops."""
        if self._users <= 1:
            self.is_stopping = True
            self._runtime.hub.shut()


async def _run_hook(hook: Hook) -> None:
    pending = hook()
    if pending is not None:
        await pending
