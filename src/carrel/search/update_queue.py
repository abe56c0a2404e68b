"""Queue of updates of the search index: one at a time for each provider, and providers do not wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias
from weakref import WeakKeyDictionary

from carrel.catalog.provider import Provider

__all__ = ["UpdateQueue"]

Update: TypeAlias = Callable[[Provider, Collection[str], bool], Awaitable[None]]


class PendingUpdate:
    """Update of a provider that has not begun: of some resources, or of everything."""

    def __init__(self) -> None:
        self.uris: set[str] = set()
        self.everything = False


class UpdateQueue:
    """Updates of providers, one at a time for each provider. Changes during an update are merged into the next one.

    ``update`` updates the resources of a provider with some URIs, or all of its resources.
    """

    def __init__(self, update: Update) -> None:
        self._update = update
        self._locks: WeakKeyDictionary[Provider, asyncio.Lock] = WeakKeyDictionary()
        self._pending: dict[Provider, PendingUpdate] = {}

    async def run(self, provider: Provider, uris: Collection[str], *, everything: bool) -> None:
        """Update resources of a provider after the update that is in progress.

        If an update is pending already, add the resources to it, and return at once.
        """
        pending = self._pending.get(provider)
        if pending is not None:
            pending.uris.update(uris)
            pending.everything |= everything
            return
        pending = self._pending[provider] = PendingUpdate()
        pending.uris.update(uris)
        pending.everything = everything
        try:
            await self._locks.setdefault(provider, asyncio.Lock()).acquire()
        finally:
            del self._pending[provider]
        try:
            await self._update(provider, pending.uris, pending.everything)
        finally:
            self._locks[provider].release()
