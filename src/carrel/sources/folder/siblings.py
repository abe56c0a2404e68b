"""Open many files of a tree in sequence. Files of the same directory are opened without a new walk from the root."""

from __future__ import annotations

from typing import Self

from carrel.sources.folder.position import Parts
from carrel.sources.folder.sandbox import OpenNode
from carrel.sources.folder.tree import Tree

__all__ = ["Siblings"]


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
