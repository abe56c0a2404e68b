"""Blocking part of a source that shares folders. The provider calls it in threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import partial
from typing import Generic, Self, TypeVar

from carrel.catalog.provider import Visible
from carrel.errors import InvalidParams, ResourceNotFound
from carrel.sources.base import SourceReader
from carrel.sources.folder.position import Parts
from carrel.sources.folder.shared import SharedFolder
from carrel.sources.folder.tree_view import TreeView
from carrel.uri.intervals import Intervals

__all__ = ["FolderReader"]

F = TypeVar("F", bound=SharedFolder)


class FolderReader(SourceReader, ABC, Generic[F]):
    """Lists, reads and searches ``folders``.

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
