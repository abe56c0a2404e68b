"""Reader of shared files: lists, windows, directories as JSON, completion and search by name."""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH116, PTH119

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Self

from carrel.catalog.provider import Hit, Page
from carrel.errors import ConfigError, InvalidParams, MCPError, ResourceNotFound, ResourceTooLarge
from carrel.media_types import DIRECTORY, type_of_name
from carrel.sources.base import PartialVariable, translate
from carrel.sources.content.directory import directory_contents
from carrel.sources.content.window import SUGGESTIONS, parse_window, window_templates, windows_of
from carrel.sources.content.words import words_of
from carrel.sources.documents.documents import Documents, Original
from carrel.sources.files.options import FilesOptions
from carrel.sources.files.read import Contents, read_file, read_original
from carrel.sources.folder.describe import describe, display
from carrel.sources.folder.notices import check_exhausted
from carrel.sources.folder.position import START, Parts, position_of
from carrel.sources.folder.reader import FolderReader
from carrel.sources.folder.sandbox import OpenNode, relative_to
from carrel.sources.folder.shared import SharedFolder
from carrel.sources.folder.tree import Tree
from carrel.sources.folder.tree_view import TreeView
from carrel.sources.folder.work import WHOLE, Work
from carrel.threads import stop_if_cancelled
from carrel.uri.parse import UriError, encode_path, file_path, file_uri
from carrel.wire.completion import Completion
from carrel.wire.resources import Resource, ResourceTemplate

__all__ = ["FilesReader"]

#: Path that is the same in a URI: most are, and it takes a tenth to see that.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._~-]*+(?:/[A-Za-z0-9_-][A-Za-z0-9._~-]*+)*+")

LISTED = 1000  # entries of a directory read at a time


class FilesReader(FolderReader[SharedFolder]):
    """Reader of one folder, or one file, at ``path``.

    Raises:
        ConfigError: a pattern is not valid, or the path has no URI.
    """

    def __init__(self, path: str | os.PathLike[str], options: FilesOptions, documents: Documents) -> None:
        super().__init__()
        self._documents = documents
        self.folders = [SharedFolder(path, options, options.include)]
        self._options = options
        path = self.folder.path
        self.title = options.title or display(os.path.basename(path)) or path
        try:
            self.root = file_uri(path)
        except UriError as error:
            raise ConfigError(f"{display(path)} cannot be shared: {error}") from None
        self._prefix = self.root.rstrip("/") + "/"

    @property
    def folder(self) -> SharedFolder:
        return self.folders[0]

    # URIs

    def uri(self, folder: SharedFolder, parts: Parts) -> str:
        """Return the URI of a path in the folder."""
        return self._prefix + encode_path(parts) if parts else self.root

    def locate(self, uri: str) -> tuple[SharedFolder, Parts]:
        """Return the folder and the path in it that a URI names, without its query.

        Raises:
            ResourceNotFound: it is not in this folder.
            InvalidParams: it cannot be the URI of a file.
        """
        if "#" in uri:
            raise InvalidParams(
                "Invalid params: uri: a resource has no fragment; write # in a name as %23", parameter="uri"
            )
        whole = uri.partition("?")[0]
        if whole.startswith(self._prefix) and not self.folder.is_file and _PLAIN.fullmatch(whole, len(self._prefix)):
            return self.folder, tuple(whole[len(self._prefix) :].split("/"))
        try:
            path = file_path(whole)
        except UriError as error:
            raise InvalidParams(
                f"Invalid params: uri: {error}", {"uri": uri[:1000], "reason": "invalid"}, parameter="uri"
            ) from None
        parts = relative_to(path.rstrip(os.sep) or path, self.folder.path)
        if parts is None or (parts and self.folder.is_file):
            raise ResourceNotFound(uri)
        return self.folder, parts

    def _resource(self, parts: Parts, info: os.stat_result) -> Resource:
        name = parts[-1] if parts else os.path.basename(self.folder.path)
        whole = not isinstance(self.folder.tree, TreeView)
        shown = None if parts else self.title
        return self._documents.describe(describe(self.uri(self.folder, parts), name, info, shown=shown, whole=whole))

    # Lists

    def list_resources(self, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the folder itself, then its files. Files of a directory come before files of its
        subdirectories.

        Raises:
            InvalidCursor: the cursor was not issued for this folder.
        """
        items: list[Resource] = []
        tree, is_file = self.folder.tree, self.folder.is_file
        listing = f"files {self.folder.path}"
        if cursor is None:
            try:
                with tree.open(()) as node:
                    items = [self._resource((), node.info)]
            except OSError as error:  # hidden, it may still have something visible in it
                check_exhausted(error)
            if is_file:
                return Page(items)
        position = position_of(cursor, listing)
        if items and limit == 1:
            return Page(items, START.cursor(listing))
        entries, then = tree.page(position, limit - len(items))
        items += [self._resource(*entry) for entry in entries]
        return Page(items, None if then is None else then.cursor(listing))

    def list_directory(self, uri: str, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the entries of a directory, directories first.

        Raises:
            ResourceNotFound: there is no such directory.
            InvalidCursor: the cursor was not issued for this directory.
        """
        _, parts = self.locate(uri)
        listing = f"entries {self.uri(self.folder, parts)}"
        position = position_of(cursor, listing)
        try:
            entries, then = self.folder.tree.children(parts, position, limit)
        except OSError as error:
            raise translate(error, uri) from None
        items = [self._resource(*entry) for entry in entries]
        return Page(items, None if then is None else then.cursor(listing))

    # Reading

    def read_resource(self, uri: str) -> Contents:
        """Read a file, the window of it that the URI names, or the entries of a directory.

        A directory is a JSON array with one resource per line, as in resources/list.

        Raises:
            ResourceNotFound: there is no such file.
            ResourceForbidden: it is not shared, or may not be read.
            ResourceTooLarge: it is over the limit; the message has the URIs of windows.
            InvalidParams: the URI or its window is not valid.
        """
        return self._read(uri, self.folder.tree.open)

    def read_searchable(self, uris: Iterable[str]) -> list[Contents | MCPError]:
        """Read files, each as ``read_resource`` does; instead of raising an error, return it."""
        found: list[Contents | MCPError] = []
        with Siblings(self.folder.tree) as siblings:
            for uri in uris:
                stop_if_cancelled()
                try:
                    found.append(self._read(uri, siblings.open))
                except MCPError as error:
                    found.append(error)
        return found

    def _read(self, uri: str, opened: Callable[[Parts], OpenNode]) -> Contents:
        _, parts = self.locate(uri)
        window = parse_window(uri.partition("?")[2])
        options = self._options
        try:
            with opened(parts) as node:
                if node.handle is not None:
                    return directory_contents(uri, self._entries(uri, parts), window, options.max_size)
                name = parts[-1] if parts else os.path.basename(self.folder.path)
                return read_file(node.descriptor, uri, name, window, options)
        except OSError as error:
            raise translate(error, uri) from None

    def original(self, uri: str, limit: int, known: Callable[[Hashable], bool]) -> Original:
        """Return a file of at most ``limit`` bytes as a document. Raises the errors of ``read_resource``."""
        _, parts = self.locate(uri)
        try:
            with self.folder.tree.open(parts) as node:
                if node.handle is not None:
                    return Original(DIRECTORY, None, None)
                name = parts[-1] if parts else os.path.basename(self.folder.path)
                return read_original(node.descriptor, uri, name, limit, known)
        except OSError as error:
            raise translate(error, uri) from None

    def _entries(self, uri: str, parts: Parts) -> Iterator[Resource]:
        """Yield the entries of a directory.

        Raises:
            ResourceTooLarge: the directory takes too long to read.
        """
        work, position = Work(WHOLE), START
        while True:
            entries, then = self.folder.tree.children(parts, position, LISTED, work)
            if work.is_over:
                raise ResourceTooLarge(
                    uri, f"The directory takes too long to read; read some of it, {windows_of(uri, 'lines=1-100')}"
                )
            for entry in entries:
                yield self._resource(*entry)
            if then is None:
                break
            position = then

    # Templates, completion, search

    def templates(self) -> Sequence[ResourceTemplate]:
        """Return a template for paths, if this is a folder, and one for each kind of window."""
        is_file, title = self.folder.is_file, self.title
        literal, kind = (self.root, "the file") if is_file else (f"{self._prefix}{{+path}}", "a file")
        paths = ResourceTemplate(literal, title, description=f"A file or directory in {title}, by its path from there")
        documents = [] if is_file and not self._documents.kind(type_of_name(title)) else [literal]
        return [
            *([] if is_file else [paths]),
            *window_templates(literal, title, kind),
            *(template for one in documents for template in self._documents.templates(one, title)),
        ]

    def complete(self, variable: PartialVariable) -> Completion | Sequence[str]:
        """Suggest paths, one directory at a time, or windows."""
        from carrel.sources.files.search import complete_path  # deferred import

        if variable.name == "path":
            return complete_path(self.folder.tree, variable.value)
        return [one for one in SUGGESTIONS.get(variable.name, ()) if one.startswith(variable.value)]

    def search(self, query: str, limit: int) -> list[Hit]:
        """Find files and directories by the words in their paths."""
        from carrel.sources.files.search import search_names  # deferred import

        folder = self.folder
        hits: list[Hit] = []
        for match in search_names(folder.tree, query, limit) if not folder.is_file else ():
            try:
                with folder.tree.open(match.parts) as node:
                    hits.append(Hit(self._resource(match.parts, node.info), match.score))
            except OSError as error:
                folder.tree.notices.pass_over(match.parts, error)
        if folder.is_file and all(word in self.title.casefold() for word in words_of(query) or ("\0",)):
            hits.append(Hit(self._resource((), os.stat(folder.path)), 1.0))
        return hits


class Siblings:
    """Opens files as ``tree.open`` does, and keeps the directory of the last one open."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._directory: OpenNode | None = None
        self._parts: Parts = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.close()

    def open(self, parts: Parts) -> OpenNode:
        """Open a file or a directory; the caller closes it. Raises the errors of ``Tree.open``."""
        above = parts[:-1]
        if self._directory is None or above != self._parts:
            self._close()
            try:
                self._directory, self._parts = self._tree.open(above), above
            except OSError:
                return self._tree.open(parts)
        node = self._tree.open_in(self._directory, parts[-1]) if parts else None
        return self._tree.open(parts) if node is None else node
