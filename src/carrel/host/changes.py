"""HostChanges: async iterator of changes of a host: servers added or removed, changed states, changed lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal, TypeAlias

import msgspec

__all__ = ["HostChange", "HostChangeKind", "HostChanges"]

HostChangeKind: TypeAlias = Literal["added", "removed", "state", "resources", "tools", "prompts", "problems"]


class HostChange(msgspec.Struct, frozen=True):
    """Change of a host: a server was added or removed, or its state or one of its lists has changed.

    "resources" covers templates and skills too. "problems": the problems in the configuration files may have changed;
    ``server`` is empty.
    """

    kind: HostChangeKind
    server: str = ""


class HostChanges:
    """Async iterator of the changes of a host. Equal changes that have not been consumed yet are merged into one."""

    def __init__(self) -> None:
        self._waiting: dict[HostChange, None] = {}
        self._ended = False
        self._news = asyncio.Event()

    def put(self, change: HostChange) -> None:
        """Add a change."""
        self._waiting[change] = None
        self._news.set()

    def end(self) -> None:
        """End the iteration once all pending changes have been consumed."""
        self._ended = True
        self._news.set()

    def __aiter__(self) -> AsyncIterator[HostChange]:
        return self

    async def __anext__(self) -> HostChange:
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        change = next(iter(self._waiting))
        del self._waiting[change]
        return change
