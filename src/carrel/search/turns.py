"""Turns: one update of a provider at a time, while the updates of other providers go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias
from weakref import WeakKeyDictionary

from carrel.catalog.provider import Provider

__all__ = ["Turns"]

Update: TypeAlias = Callable[[Provider, Collection[str], bool], Awaitable[None]]


class Wanted:
    """Update of a provider: of some resources, or of everything."""

    def __init__(self) -> None:
        self.uris: set[str] = set()
        self.everything = False


class Turns:
    """Updates of providers, one at a time of each. Changes during an update wait, and share the next update."""

    def __init__(self) -> None:
        self._locks: WeakKeyDictionary[Provider, asyncio.Lock] = WeakKeyDictionary()
        self._waiting: dict[Provider, Wanted] = {}

    async def take(self, update: Update, provider: Provider, uris: Collection[str], *, everything: bool) -> None:
        """Update resources of a provider after the update that is in progress.

        ``update`` updates the resources of a provider with some URIs, or all resources.

        Return at once if another call waits for that already: it updates these resources too.
        """
        wanted = self._waiting.get(provider)
        is_first = wanted is None
        if wanted is None:
            wanted = self._waiting[provider] = Wanted()
        wanted.uris.update(uris)
        wanted.everything |= everything
        if not is_first:
            return
        try:
            await self._locks.setdefault(provider, asyncio.Lock()).acquire()
        finally:
            del self._waiting[provider]
        try:
            await update(provider, wanted.uris, wanted.everything)
        finally:
            self._locks[provider].release()
