"""Base of the sources that share folders: threads, views, cursors and watches, over a blocking reader."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from carrel.catalog.provider import Change, Events, Hit, Interest, Page, Request
from carrel.sources.base import BaseSource, Variable
from carrel.sources.folder.reader import FolderReader, translate
from carrel.sources.watches import RunningWatches
from carrel.sources.workers import Workers
from carrel.wire.completion import Completion
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate

__all__ = ["FolderSource"]

T = TypeVar("T")
R = TypeVar("R", bound=FolderReader[Any])


class FolderSource(BaseSource, Generic[R]):
    """Provider of shared folders. Its reader is called in threads, which clients share fairly."""

    changes = "here"

    def __init__(self, reader: R, workers: Workers) -> None:
        self._reader = reader
        self._workers = workers
        self._watches = RunningWatches()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(folder.path) for folder in self._reader.folders)})"

    async def start(self, events: Events) -> None:
        """Start the threads and check the folders.

        Raises:
            ConfigError: one does not exist, may not be read, or is neither a folder nor a file.
        """
        await self._workers.open(self._reader.inspect)

    async def stop(self) -> None:
        """End all watches, wait for running reads, and clear the caches."""
        await self._watches.stop()
        await self._workers.stop()
        self._reader.forget()

    async def _run(self, request: Request, function: Callable[[R], T]) -> T:
        """Call a function in a thread with the reader as the caller sees it.

        Raises:
            ResourceError: the process can open no more files.
        """
        visible, reader = request.visible, self._reader
        if visible is not None:
            reader = reader.seen_by(visible, None if request.view is None else request.view.intervals("read"))
        try:
            return await self._workers.run(request.client, function, reader)
        except OSError as error:
            for folder in self._reader.folders[:1]:
                folder.tree.notices.warn((), f"cannot be read: {error.strerror}")
            raise translate(error, self.prefixes[0]) from None

    # Resources

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the files. Files of a directory come before files of its subdirectories."""
        return await self._run(request, lambda reader: reader.list_resources(request.cursor, max(request.limit, 1)))

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the entries of a directory, directories first."""
        limit = max(request.limit, 1)
        return await self._run(request, lambda reader: reader.list_directory(uri, request.cursor, limit))

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return the contents of a file, or a directory as a JSON array of resources."""
        return ReadResourceResult(contents=[await self._run(request, lambda reader: reader.read_resource(uri))])

    async def shows(self, uri: str, request: Request) -> bool:
        """Return whether a URI leads to nothing hidden from the caller, not even by a link."""
        return request.visible is None or await self._run(request, lambda reader: reader.shows(uri))

    async def accepts(self, uri: str, request: Request) -> bool:
        """Return whether a caller may subscribe to a URI, whether or not the file exists."""
        return request.visible is None or await self._run(request, lambda reader: reader.accepts(uri))

    def is_guarded(self, uri: str) -> bool:
        """Return True: at any time, a link to something hidden may be made at a URI."""
        return True

    # Templates, completion, search

    def _templates(self) -> Sequence[ResourceTemplate]:
        return self._reader.templates()

    async def _suggest(self, variable: Variable, request: Request) -> Completion | Sequence[str]:
        return await self._run(request, lambda reader: reader.complete(variable.name, variable.value))

    async def _hits(self, query: str, limit: int, request: Request) -> Sequence[Hit]:
        return await self._run(request, lambda reader: reader.search(query, limit))

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
