"""View of a tree for one caller, without the paths that visibility rules hide from it.

Both the requested path and the targets of its links have to be visible. If the intervals that contain all visible URIs
are known, a walk enters only the directories that contain such an interval, whether or not the directories are visible
themselves. Otherwise it enters only visible directories. A tree opens paths to find files, and asks the guard of an
open directory about names: a view overrides these two operations.
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH118

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from carrel.sources.folder.position import Parts, TreePosition
from carrel.sources.folder.sandbox import Excluded, Guard, OpenNode, relative_to
from carrel.sources.folder.tree import Tree, TreeEntry
from carrel.sources.folder.work import Work
from carrel.uri.intervals import Intervals
from carrel.uri.parse import UriError, encode_path, file_uri

__all__ = ["HiddenByCaller", "TreeView"]


class HiddenByCaller(Excluded):
    """The path, or the target of a link on it, is hidden from the caller."""


class GuardView:
    """Guard that also rejects hidden names. ``folders`` are the URIs of the directory."""

    def __init__(
        self, guard: Guard, folders: list[str], visible: Callable[[str], bool], leads: Callable[[str], bool]
    ) -> None:
        self._folders = folders
        self._visible = visible
        self._leads = leads
        self._admits = guard.admits
        self.enter = guard.enter
        self.admits_link = guard.admits_link

    def admits(self, name: str, is_directory: bool) -> bool:
        """Return whether a name in the directory is shared and visible."""
        return self._admits(name, is_directory) and self._are(self._visible, name)

    def leads(self, name: str) -> bool:
        """Return whether a directory in the directory is shared, and may have something visible in it."""
        return self._admits(name, True) and self._are(self._leads, name)

    def _are(self, test: Callable[[str], bool], name: str) -> bool:
        encoded = encode_path((name,))
        return all(test(folder + encoded) for folder in self._folders)


class TreeView(Tree):
    """The visible part of a tree. ``path`` is its root, ``uri`` maps a path to its URI, ``visible`` decides by URI.

    All visible URIs are ``within`` some intervals; None if these are not known.
    """

    def __init__(
        self,
        tree: Tree,
        path: str,
        uri: Callable[[Parts], str],
        visible: Callable[[str], bool],
        within: Intervals | None = None,
    ) -> None:
        vars(self).update(vars(tree))
        self._path = path
        self._uri = uri
        self._visible = visible
        self._within = within
        self._real: str | None = None

    def open(self, parts: Parts, work: Work | None = None) -> OpenNode:
        """Open a file or a directory; the caller closes it. The guard of a directory rejects hidden names.

        Raises:
            HiddenByCaller: it, or its link target, is hidden.
            Excluded: it is not shared.
            OSError: it is not there, or may not be read.
        """
        return self._open(parts, work, self._visible)

    def open_in(self, directory: OpenNode, name: str) -> None:
        """Return None: the visibility of a file must be checked from the root."""
        return

    def open_on_way(self, parts: Parts, work: Work | None = None) -> OpenNode:
        """Open a directory that may have something visible in it. Its guard rejects hidden names."""
        return self._open(parts, work, self._may_hold)

    def _open(self, parts: Parts, work: Work | None, admits: Callable[[str], bool]) -> OpenNode:
        uri = self._uri(parts)
        if not admits(uri):
            raise HiddenByCaller
        node = super().open(parts, work)
        names = [uri, *self._real_uris(node, parts)]
        if not all(map(admits, names)):
            node.close()
            raise HiddenByCaller
        if node.handle is not None:
            node.guard = GuardView(node.guard, [*map(_prefix_of, names)], self._visible, self._may_hold)
        return node

    def _may_hold(self, uri: str) -> bool:
        """Return whether something visible may be in a directory."""
        return self._visible(uri) if self._within is None else self._within.overlaps(_prefix_of(uri))

    def _leads(self, guard: Guard, name: str) -> bool:
        return guard.leads(name) if isinstance(guard, GuardView) else super()._leads(guard, name)

    def page(
        self, after: TreePosition, limit: int, work: Work | None = None
    ) -> tuple[list[TreeEntry], TreePosition | None]:
        """Return up to ``limit`` files after a position, and the position to resume from, never a hidden one."""
        found, then = super().page(after, limit, work)
        while then is not None and not self._visible(self._uri(then.parts)):
            more, then = super().page(then, limit - len(found))
            found += more
        return found, then

    def shows(self, parts: Parts) -> bool:
        """Return whether a path leads to nothing hidden. For a missing one, its nearest existing parent counts."""
        while True:
            try:
                self.open(parts).close()
            except HiddenByCaller:
                return False
            except OSError:
                if parts and self._visible(self._uri(parts)):
                    parts = parts[:-1]
                    continue
            return True

    def _real_uris(self, node: OpenNode, parts: Parts) -> Iterator[str]:
        """Yield the URIs of the real location of an opened path, where links have led elsewhere."""
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
                yield ""  # no URI: not visible in a view


def _prefix_of(uri: str) -> str:
    """Return the common prefix of the URIs of a directory's entries."""
    return uri if uri.endswith("/") else uri + "/"
