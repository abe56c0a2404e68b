"""Files as resources: a folder, or one file, shared under ``file:`` URIs, with windows and change events.

``selection`` decides what is shared of a folder; ``sandbox`` makes sure that nothing else can be opened; ``tree``
walks the folder; ``window`` reads parts of large files; ``watch`` turns file system events into changes.
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH100, PTH111, PTH116, PTH119

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from itertools import islice
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from carrel.errors import (
    ConfigError,
    InvalidParams,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.media_types import DIRECTORY
from carrel.server.source import Change, Hit, Page
from carrel.sources.content.window import MAX_SCAN, Window, parse_window, refuse
from carrel.sources.cursor import read_cursor, write_cursor
from carrel.sources.files.read import Contents, read_file, windows_of
from carrel.sources.folder.describe import describe, display
from carrel.sources.folder.notices import check_exhausted
from carrel.sources.folder.position import START, Parts
from carrel.sources.folder.sandbox import Excluded, Root, relative_to
from carrel.sources.folder.selection import Selection
from carrel.sources.folder.tree import Tree
from carrel.sources.folder.tree_view import TreeView
from carrel.sources.folder.work import WHOLE, Work
from carrel.sources.workers import THREADS, THREADS_PER_CLIENT, WAITING_PER_CLIENT, Workers
from carrel.uri.parse import UriError, encode_path, file_path, file_uri
from carrel.wire.completion import Completion
from carrel.wire.resources import Resource, ResourceTemplate, TextResourceContents

if TYPE_CHECKING:
    from carrel.server.views import Visible
    from carrel.sources.folder.watch import Watch

__all__ = ["FilesSource", "open_files"]

T = TypeVar("T")

MAX_SIZE = 10 * 1024 * 1024
LISTED = 1000  # entries of a directory read at a time

SUGGESTIONS = {
    "lines": ["1-100", "1-1000", "1-"],
    "bytes": ["0-4095", "0-65535", "0-1048575"],
    "tail": ["20", "100", "200", "1000"],
}


class FilesSource:
    """Resource source for a folder, or for one file.

    ``include`` and ``exclude`` are patterns as in .gitignore; ``hidden`` also shares names that begin with a dot,
    ``follow_symlinks`` the targets of links that leave the folder, ``gitignore=False`` what git ignores. A file of more
    than ``max_size`` bytes is read in windows only, and to find the first line of a window, up to ``max_scan`` bytes
    are scanned. ``name`` is the name of the folder in listings; its own name by default.

    The disk is read in up to ``threads`` threads, of which one client has up to ``threads_per_client``; up to
    ``max_waiting`` of its requests are queued.

    Raises:
        ConfigError: a pattern is not valid, a number is less than 1, or the path has no URI.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        hidden: bool = False,
        follow_symlinks: bool = False,
        gitignore: bool = True,
        max_size: int = MAX_SIZE,
        max_scan: int = MAX_SCAN,
        threads: int = THREADS,
        threads_per_client: int = THREADS_PER_CLIENT,
        max_waiting: int = WAITING_PER_CLIENT,
        name: str | None = None,
    ) -> None:
        for what, size in (("max_size", max_size), ("max_scan", max_scan)):
            if size < 1:
                raise ConfigError(f"{what} must be 1 byte or more, not {size}")
        self.path = os.path.abspath(os.path.expanduser(root))
        self.name = name or display(os.path.basename(self.path)) or self.path
        self.max_size = max_size
        self.max_scan = max_scan
        try:
            self.uri = file_uri(self.path)
        except UriError as error:
            raise ConfigError(f"{display(self.path)} cannot be shared: {error}") from None
        self._prefix = self.uri.rstrip("/") + "/"
        self._selection = Selection(include, exclude, hidden=hidden, gitignore=gitignore)
        self._tree = Tree(Root(self.path, follow_links=follow_symlinks), self._selection)
        self._follow = follow_symlinks
        self._is_file = False
        self._workers = Workers(self, "carrel-files", threads, threads_per_client, max_waiting)
        self._watches: set[Watch] = set()

    def __repr__(self) -> str:
        return f"FilesSource({self.path!r})"

    # Lifecycle

    async def start(self) -> None:
        """Start the threads and check the root.

        Raises:
            ConfigError: it does not exist, may not be read, or is neither a folder nor a file.
        """
        self._workers.start()
        try:
            self._is_file = await self._workers.run(self._inspect)
        except BaseException:
            await self._workers.stop(0)
            raise

    async def stop(self) -> None:
        """End all watches, wait for running reads, and clear the caches."""
        for watch in tuple(self._watches):
            await watch.stop()
        await self._workers.stop()
        self._tree.forget()

    def _inspect(self) -> bool:
        shown = display(self.path)
        try:
            mode = os.stat(self.path).st_mode
            if not (S_ISDIR(mode) or S_ISREG(mode)):
                raise ConfigError(f"{shown} is neither a folder nor a file")
            if not S_ISREG(mode):
                self._selection.look_above(self.path)
            with self._tree.open(()):
                return S_ISREG(mode)
        except FileNotFoundError:
            raise ConfigError(f"There is no {shown}") from None
        except OSError as error:
            raise ConfigError(f"{shown} cannot be shared: {error.strerror}") from None

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in a thread of the source.

        Raises:
            ResourceError: the process can open no more files.
        """
        try:
            return await self._workers.run(function, *arguments)
        except OSError as error:
            self._tree.notices.warn((), f"cannot be read: {error.strerror}")
            raise translate(error, self.uri) from None

    # URIs

    def owns(self, uri: str) -> bool:
        """Return whether a URI is in this folder, whether or not the file exists."""
        try:
            self._locate(uri)
        except (InvalidParams, ResourceNotFound):
            return False
        return True

    def _locate(self, uri: str) -> tuple[Parts, str]:
        """Split a URI into a path under the root and a query."""
        address, _, query = uri.partition("?")
        if "#" in uri:
            raise InvalidParams(
                "Invalid params: uri: a resource has no fragment; write # in a name as %23", parameter="uri"
            )
        try:
            path = file_path(address)
        except UriError as error:
            raise InvalidParams(f"Invalid params: uri: {error}", {"uri": uri[:1000]}, parameter="uri") from None
        parts = relative_to(path.rstrip(os.sep) or path, self.path)
        if parts is None or (parts and self._is_file):
            raise ResourceNotFound(uri)
        return parts, query

    def _uri(self, parts: Parts) -> str:
        return self._prefix + encode_path(parts) if parts else self.uri

    def _resource(self, parts: Parts, info: os.stat_result) -> Resource:
        name = parts[-1] if parts else os.path.basename(self.path)
        return describe(self._uri(parts), name, info, shown=None if parts else self.name)

    # Views

    def seen_by(self, visible: Visible) -> FilesSource:
        """Return a view of this source for a caller. It opens nothing hidden from the caller, not even by links."""
        view = copy(self)
        view._tree = TreeView(self._tree, self.path, self._uri, visible)
        return view

    async def shows(self, uri: str) -> bool:
        """Return whether a URI leads to nothing hidden in this view."""
        parts, _ = self._locate(uri)
        return not isinstance(self._tree, TreeView) or await self._workers.run(self._tree.shows, parts)

    # Listing

    async def list(self, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the folder itself, then its files, those of a directory before those of its subdirectories.

        Raises:
            InvalidCursor: the cursor was not issued by this source.
        """
        return await self._run(self._list, cursor, max(limit, 1))

    def _list(self, cursor: str | None, limit: int) -> Page[Resource]:
        items: list[Resource] = []
        listing = f"files {self.path}"
        if cursor is None:
            try:
                with self._tree.open(()) as node:
                    items = [self._resource((), node.info)]
            except OSError as error:
                check_exhausted(error)
                return Page([])
            if self._is_file:
                return Page(items)
        position = START if cursor is None else read_cursor(cursor, listing)
        if items and limit == 1:
            return Page(items, write_cursor(START, listing))
        entries, then = self._tree.page(position, limit - len(items))
        items += [self._resource(*entry) for entry in entries]
        return Page(items, None if then is None else write_cursor(then, listing))

    async def children(self, uri: str, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the entries of a directory, directories first.

        Raises:
            ResourceNotFound: there is no such directory.
            InvalidCursor: the cursor was not issued by this source for this directory.
        """
        parts, _ = self._locate(uri)
        return await self._run(self._children, uri, parts, cursor, max(limit, 1))

    def _children(self, uri: str, parts: Parts, cursor: str | None, limit: int) -> Page[Resource]:
        listing = f"entries {self._uri(parts)}"
        position = START if cursor is None else read_cursor(cursor, listing)
        try:
            entries, then = self._tree.children(parts, position, limit)
        except OSError as error:
            raise translate(error, uri) from None
        items = [self._resource(*entry) for entry in entries]
        return Page(items, None if then is None else write_cursor(then, listing))

    # Reading

    async def read(self, uri: str) -> Sequence[Contents]:
        """Read a file, the window of it that the URI names, or the entries of a directory.

        A directory is a JSON array with one resource per line, as in resources/list.

        Raises:
            ResourceNotFound: there is no such file.
            ResourceForbidden: it is not shared, or may not be read.
            ResourceTooLarge: it is over the limit; the message has the URIs of windows.
            InvalidParams: the URI or its window is not valid.
        """
        parts, query = self._locate(uri)
        window = parse_window(query)
        return await self._run(self._read, uri, parts, window)

    def _read(self, uri: str, parts: Parts, window: Window | None) -> Sequence[Contents]:
        try:
            with self._tree.open(parts) as node:
                if node.place is not None:
                    return [self._read_directory(uri, parts, window)]
                name = parts[-1] if parts else os.path.basename(self.path)
                return [read_file(node.descriptor, uri, name, window, self.max_size, self.max_scan)]
        except OSError as error:
            raise translate(error, uri) from None

    def _read_directory(self, uri: str, parts: Parts, window: Window | None) -> Contents:
        lines = self._describe_directory(uri, parts)
        first = 1
        if window is not None:
            if window.unit == "bytes":
                raise refuse("lines", "a directory has lines, one for each entry, not bytes")
            if window.unit == "tail":
                lines = iter(deque(lines, maxlen=window.last))
            else:
                first = window.first
                lines = islice(lines, first - 1, window.last)
        text: list[bytes] = []
        room = self.max_size
        for line in lines:
            room -= len(line)
            if room < 0:
                some = windows_of(uri, f"lines={first}-{first + max(len(text), 1) - 1}")
                raise ResourceTooLarge(
                    uri,
                    f"The entries of the directory take more than {self.max_size:,} bytes; read some of them, {some}",
                )
            text.append(line)
        return TextResourceContents(uri, b"".join(text).decode(), mime_type=DIRECTORY)

    def _describe_directory(self, uri: str, parts: Parts) -> Iterator[bytes]:
        """Yield the lines of a JSON array of resources.

        Raises:
            ResourceTooLarge: the directory takes too long to read.
        """
        work = Work(WHOLE)
        yield b"[\n"
        position, before = START, b""
        while True:
            entries, then = self._tree.children(parts, position, LISTED, work)
            if work.is_over:
                raise ResourceTooLarge(
                    uri, f"The directory takes too long to read; read some of it, {windows_of(uri, 'lines=1-100')}"
                )
            for entry in entries:
                if before:
                    yield before + b",\n"
                before = msgspec.json.encode(self._resource(*entry))
            if then is None:
                break
            position = then
        if before:
            yield before + b"\n"
        yield b"]\n"

    # Templates, completion, search

    def templates(self) -> Sequence[ResourceTemplate]:
        """Return a template for paths, if this is a folder, and one for each kind of window."""
        literal, kind = (self.uri, "of the file") if self._is_file else (f"{self._prefix}{{+path}}", "of a file")
        whole = (
            []
            if self._is_file
            else [
                ResourceTemplate(
                    literal, self.name, description=f"A file or directory in {self.name}, by its path from there"
                )
            ]
        )
        return [
            *whole,
            ResourceTemplate(
                literal + "{?lines}",
                f"{self.name}: lines {kind}",
                description="Lines first-last, for example 100-200 or 100-",
            ),
            ResourceTemplate(
                literal + "{?tail}", f"{self.name}: the end {kind}", description="The last lines, for example 200"
            ),
            ResourceTemplate(
                literal + "{?bytes}", f"{self.name}: bytes {kind}", description="Bytes first-last, for example 0-65535"
            ),
        ]

    async def complete(self, template: str, variable: str, prefix: str, context: dict[str, str]) -> Completion:
        """Suggest paths, one directory at a time, or windows."""
        if variable == "path" and not self._is_file:
            return await self._run(self._complete_path, prefix)
        values = [value for value in SUGGESTIONS.get(variable, ()) if value.startswith(prefix)]
        return Completion(values=values, total=len(values), has_more=False)

    def _complete_path(self, prefix: str) -> Completion:
        from carrel.sources.files.search import complete_path  # deferred import

        return complete_path(self._tree, prefix)

    async def search(self, query: str, limit: int) -> Sequence[Hit]:
        """Find files and directories by the words in their paths."""
        return await self._run(self._search, query, limit)

    def _search(self, query: str, limit: int) -> Sequence[Hit]:
        from carrel.sources.files.search import search_names, words_of  # deferred import

        hits: list[Hit] = []
        for match in search_names(self._tree, query, limit) if not self._is_file else ():
            try:
                with self._tree.open(match.parts) as node:
                    hits.append(Hit(self._resource(match.parts, node.info), match.score))
            except OSError as error:
                self._tree.notices.pass_over(match.parts, error)
        if self._is_file and all(word in self.name.casefold() for word in words_of(query) or ("\0",)):
            hits.append(Hit(self._resource((), os.stat(self.path)), 1.0))
        return hits

    # Changes

    async def watch(self) -> AsyncIterator[Collection[Change]]:
        """Yield changes in batches. The first one is empty: from then on no change is missed.

        Raises:
            ConfigError: watchfiles is not installed, or the system does not allow watching.
        """
        from carrel.sources.folder.watch import Watch  # deferred import

        self._workers.check()
        watch = Watch(self._tree, self.path, self._uri, is_file=self._is_file)
        self._watches.add(watch)
        try:
            async for batch in watch:
                yield batch
        finally:
            self._watches.discard(watch)
            await watch.stop()


def open_files(target: str) -> FilesSource:
    """Return the source for a path or a ``file:`` URL.

    Raises:
        ConfigError: the URL does not name a path on this machine.
    """
    if not target.lower().startswith("file:"):
        return FilesSource(target)
    try:
        return FilesSource(file_path(target))
    except UriError as error:
        raise ConfigError(f"{target} cannot be shared: {error}") from None


def translate(error: OSError, uri: str) -> ResourceError:
    """Translate an ``OSError`` into a resource error."""
    if isinstance(error, (Excluded, PermissionError)):
        return ResourceForbidden(uri)
    absent = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, None)
    if error.errno in absent:
        return ResourceNotFound(uri)
    return ResourceError(uri, f"Resource cannot be read ({error.strerror})")
