"""A tree as a caller sees it from whom rules hide some places.

Both the name that is asked for and the place where links lead from there have to be visible. A tree finds everything by
opening paths, and asks the guard of an open directory about the names in it: these two are what differs.
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH118

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from carrel.sources.folder.sandbox import Excluded, Guard, Node, Parts, relative_to
from carrel.sources.folder.tree import Directory, Key, Position, Tree, TreeEntry
from carrel.sources.folder.work import Work
from carrel.uri.parse import UriError, encode_path, file_uri

__all__ = ["Hidden", "TreeView"]


class Hidden(Excluded):
    """A rule hides the path from the caller, or the place where it leads."""


class GuardView:
    """What is shared of a directory, and not hidden. ``folders`` are the URIs that the directory has."""

    def __init__(self, guard: Guard, folders: list[str], visible: Callable[[str], bool]) -> None:
        self._folders = folders
        self._visible = visible
        self._admits = guard.admits
        self.enter = guard.enter
        self.admits_link = guard.admits_link

    def admits(self, name: str, is_directory: bool) -> bool:
        """Say whether a name in the directory is shared and visible."""
        if not self._admits(name, is_directory):
            return False
        encoded = encode_path((name,))
        return all(self._visible(folder + encoded) for folder in self._folders)


class TreeView(Tree):
    """Part of a tree. ``path`` is that of its root, ``uri`` says what its paths are called, ``visible`` decides."""

    def __init__(self, tree: Tree, path: str, uri: Callable[[Parts], str], visible: Callable[[str], bool]) -> None:
        vars(self).update(vars(tree))
        self._whole = tree
        self._path = path
        self._uri = uri
        self._visible = visible
        self._real: str | None = None

    def open(self, parts: Parts, work: Work | None = None) -> Node:
        """Open a file or a directory. Close it. What is hidden in a directory is not admitted there.

        Raises:
            Hidden: it, or where it leads, is hidden.
            Excluded: it is not shared.
            OSError: it is not there, or may not be read.
        """
        uri = self._uri(parts)
        if not self._visible(uri):
            raise Hidden
        node = super().open(parts, work)
        names = [uri, *self._places(node, parts)]
        if not all(map(self._visible, names)):
            node.close()
            raise Hidden
        if node.place is not None:
            node.guard = GuardView(node.guard, [name.rstrip("/") + "/" for name in names], self._visible)
        return node

    def page(self, after: Position, limit: int, work: Work | None = None) -> tuple[list[TreeEntry], Position | None]:
        """Return up to ``limit`` files after a position, and the position to go on from, which is not a hidden one."""
        found, then = super().page(after, limit, work)
        while then is not None and not self._visible(self._uri(then.parts)):
            more, then = super().page(then, limit - len(found))
            found += more
        return found, then

    def shows(self, parts: Parts) -> bool:
        """Say whether a path leads to no hidden place. Of one that is not there, what is above it counts."""
        while True:
            try:
                self.open(parts).close()
            except Hidden:
                return False
            except OSError:
                if parts and self._visible(self._uri(parts)):
                    parts = parts[:-1]
                    continue
            return True

    def _places(self, node: Node, parts: Parts) -> Iterator[str]:
        """Yield the URIs of where a path has led, if not to itself."""
        if node.parts != parts:
            yield self._uri(node.parts)
        if self._real is None:
            self._real = os.path.realpath(self._path)
        real = os.path.join(self._real, *node.parts)
        if node.outside:
            real = os.path.realpath(real)
            inside = relative_to(real, self._real)
            if inside is not None:
                yield self._uri(inside)
        if node.outside or self._real != self._path:
            try:
                yield file_uri(real)
            except UriError:
                yield ""  # what has no URI is not visible to those who may not see everything

    def _keep(self, parts: Parts, key: Key, found: Directory) -> None:
        self._whole._keep(parts, key, found)
