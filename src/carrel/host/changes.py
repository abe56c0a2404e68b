"""Changes of a host, as an async iterator: servers that come, go or have another state, and lists that have changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from carrel.catalog.provider import ListName

__all__ = ["KINDS", "HostChange", "HostChangeKind", "HostChanges"]

HostChangeKind: TypeAlias = Literal["added", "removed", "state", "resources", "tools", "prompts", "problems"]
#: Kinds of changes, by the lists that have changed.
KINDS: Mapping[ListName, HostChangeKind] = {
    "resources_list_changed": "resources",
    "tools_list_changed": "tools",
    "prompts_list_changed": "prompts",
}


class HostChange(msgspec.Struct, frozen=True):
    """Change of a host: a server came, went or has another state, or one of its lists has changed.

    "resources" is also for templates and skills. "problems": those of a configuration file; the server is empty then.
    """

    kind: HostChangeKind
    server: str = ""


class HostChanges:
    """Async iterator of the changes of a host. One that has not been consumed yet is not repeated."""

    def __init__(self) -> None:
        self._waiting: dict[HostChange, None] = {}
        self._ended = False
        self._news = asyncio.Event()

    def put(self, change: HostChange) -> None:
        """Add a change."""
        self._waiting[change] = None
        self._news.set()

    def end(self) -> None:
        """End the iteration, after the changes that have not been consumed."""
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
