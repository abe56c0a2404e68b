"""Blocking part of a source that shares folders. The provider calls it in threads."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Generic, Self, TypeVar

from carrel.catalog.provider import Hit, Page, Visible
from carrel.errors import InvalidParams, ResourceError, ResourceForbidden, ResourceNotFound
from carrel.sources.folder.position import Parts
from carrel.sources.folder.sandbox import Excluded
from carrel.sources.folder.shared import SharedFolder
from carrel.sources.folder.tree_view import TreeView
from carrel.uri.intervals import Intervals
from carrel.wire.completion import Completion
from carrel.wire.resources import Resource, ResourceContents, ResourceTemplate

__all__ = ["FolderReader", "translate"]

F = TypeVar("F", bound=SharedFolder)

ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, None)


class FolderReader(ABC, Generic[F]):
    """Lists, reads and searches ``folders``. The methods are the blocking versions of the methods of ``Provider``, with
    the same limits and errors.

    If a method raises ``OSError``, the process has reached the limit of open files.
    """

    def __init__(self) -> None:
        self.folders: list[F] = []

    # Folders and their URIs

    @abstractmethod
    def uri(self, folder: F, parts: Parts) -> str:
        """Return the URI of a path in a folder."""

    @abstractmethod
    def locate(self, uri: str) -> tuple[F, Parts]:
        """Resolve a URI to a folder and a path in it, whether or not the file exists.

        Raises:
            ResourceNotFound: the URI is not in a shared folder.
            InvalidParams: the URI cannot be the URI of a file.
        """

    def inspect(self) -> None:
        """Check the folders.

        Raises:
            ConfigError: a folder cannot be shared.
        """
        for folder in self.folders:
            folder.inspect()

    def forget(self) -> None:
        """Clear the caches."""
        for folder in self.folders:
            folder.forget()

    def seen_by(self, visible: Visible, within: Intervals | None = None) -> Self:
        """Return the reader as a caller sees it. It opens no files hidden from the caller, not even through links.

        All visible URIs are ``within`` these intervals; None if the intervals are not known.
        """
        view = copy(self)
        view.folders = [folder.seen_by(partial(self.uri, folder), visible, within) for folder in self.folders]
        return view

    def shows(self, uri: str) -> bool:
        """Return whether a URI leads to nothing hidden from the caller."""
        try:
            folder, parts = self.locate(uri)
        except (ResourceNotFound, InvalidParams):
            return True
        return not isinstance(folder.tree, TreeView) or folder.tree.shows(parts)

    def accepts(self, uri: str) -> bool:
        """Return whether a URI is visible to the caller in its normalized spelling, regardless of link targets."""
        try:
            folder, parts = self.locate(uri)
        except (ResourceNotFound, InvalidParams):
            return True
        return not isinstance(folder.tree, TreeView) or folder.tree.admits(parts)

    # Requests

    @abstractmethod
    def templates(self) -> Sequence[ResourceTemplate]:
        """Return the resource templates."""

    @abstractmethod
    def list_resources(self, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the resources."""

    @abstractmethod
    def list_directory(self, uri: str, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the entries of a directory, directories first."""

    @abstractmethod
    def read_resource(self, uri: str) -> ResourceContents:
        """Return the contents of a file, or a directory as a JSON array of resources."""

    @abstractmethod
    def complete(self, variable: str, value: str) -> Completion | Sequence[str]:
        """Return suggestions for a variable of the templates."""

    @abstractmethod
    def search(self, query: str, limit: int) -> list[Hit]:
        """Return the resources that match a query, best first."""


def translate(error: OSError, uri: str) -> ResourceError:
    """Translate an ``OSError`` into a resource error."""
    if isinstance(error, (Excluded, PermissionError)):
        return ResourceForbidden(uri)
    if error.errno in ABSENT:
        return ResourceNotFound(uri)
    return ResourceError(uri, f"Resource cannot be read ({error.strerror})")
