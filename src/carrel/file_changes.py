"""Polling of files that are read again when they change."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable

from carrel.regular_file import timestamp_of

__all__ = ["FileChanges"]

#: Seconds between two looks at the files. A change is reported when the files are the same in two of them.
PAUSE = 0.4


class FileChanges:
    """Poll files, and call a function on the event loop after one of them has changed.

    Files that are still being written are left alone until they stay the same for ``PAUSE`` seconds.

    Args:
        paths: the files, of which some may be missing.
        changed: is called after a change. It must not raise an exception.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]], changed: Callable[[], None]) -> None:
        self._paths = tuple(paths)
        self._changed = changed
        self._seen = self._last = self._timestamps()
        self._following: asyncio.Task[None] | None = None

    def _timestamps(self) -> tuple[object, ...]:
        return tuple(map(timestamp_of, self._paths))

    async def start(self) -> None:
        """Begin to poll."""
        self._following = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Stop polling."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(PAUSE)
            self.look()

    def look(self) -> None:
        """Report a change, unless a file is still being written."""
        seen, last = self._timestamps(), self._last
        self._last = seen
        if seen == self._seen or seen != last:
            return
        self._seen = seen
        self._changed()
