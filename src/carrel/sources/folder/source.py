"""Base of the sources that share folders: threads, views, cursors and watches, over a blocking reader."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from functools import partial
from typing import Any, TypeVar

from carrel.catalog.provider import Change, Interest, Request
from carrel.errors import ResourceError
from carrel.sources.base import ReaderSource
from carrel.sources.folder.reader import FolderReader

__all__ = ["FolderSource"]

T = TypeVar("T")
R = TypeVar("R", bound=FolderReader[Any])


class FolderSource(ReaderSource[R]):
    """Provider of shared folders."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(folder.path) for folder in self._reader.folders)})"

    def _seen(self, request: Request) -> R:
        visible, reader = request.visible, self._reader
        if visible is None:
            return reader
        return reader.seen_by(visible, None if request.view is None else request.view.intervals("read"))

    def _failed(self, error: OSError) -> ResourceError:
        for folder in self._reader.folders[:1]:
            folder.tree.notices.warn((), f"cannot be read: {error.strerror}")
        return super()._failed(error)

    # Resources

    async def shows(self, uri: str, request: Request) -> bool:
        """Return whether a URI leads to nothing hidden from the caller, not even by a link."""
        return request.visible is None or await self._run(request, lambda reader: reader.shows(uri))

    async def accepts(self, uri: str, request: Request) -> bool:
        """Return True: absent files accept subscriptions, so hidden files must accept them too."""
        return True

    def is_guarded(self, uri: str) -> bool:
        """Return True: at any time, a link to something hidden may be made at a URI."""
        return True

    # Changes

    def watch(self, interest: Interest) -> AsyncGenerator[Collection[Change], None]:
        """Return the changes of all files in batches, regardless of ``interest``: the system reports all changes.

        Raises:
            ConfigError: watchfiles is not installed, or the system does not allow watching.
        """
        from carrel.sources.folder.watch import FolderWatch  # deferred import

        self._workers.check()
        uri = self._reader.uri
        return self._watches.join(
            *(
                FolderWatch(folder.tree, folder.path, partial(uri, folder), is_file=folder.is_file)
                for folder in self._reader.folders
            )
        )
