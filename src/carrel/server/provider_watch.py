"""Watch on one provider: a task that notifies subscribers of its changes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from carrel.errors import MCPError
from carrel.log import Log

if TYPE_CHECKING:
    from carrel.catalog.provider import Change, Interest, Provider
    from carrel.server.runtime import Runtime

__all__ = ["ProviderWatch"]

log = Log("carrel")


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
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        await self._follow()

    async def _follow(self) -> None:
        provider, is_first = self.provider, True
        try:
            async for changes in provider.watch(self._interest):
                if is_first:  # it is empty
                    is_first = False
                    self._begin()
                if changes:
                    self._publish(changes)
        except MCPError as error:
            log.warning("%s is not watched: %s", provider.name, error)
        except Exception:
            log.exception("watching %s has ended", provider.name)
        finally:
            self.listens.set()
            self._forming.discard(self)

    def _publish(self, changes: Collection[Change]) -> None:
        self._runtime.published(changes, {}, seen=self._runtime.seen(self.provider))

    def _begin(self) -> None:
        """Tell requests that the provider listens. If changes may have been missed, tell clients to look again."""
        missed = self.late or self.listens.is_set()
        self.late = False
        self.listens.set()
        self._forming.discard(self)
        if missed:
            find = self._runtime.catalog.routes.find
            uris = [uri for uri in self._runtime.hub.uris if find(uri) is self.provider]
            self._runtime.notify(uris, ("resources_list_changed",), seen="everywhere")
