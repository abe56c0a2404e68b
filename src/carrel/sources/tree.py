"""The files and directories under a root that are shared: opening them, and walking them page by page.

The order is that of names, the files of a directory before what is in its directories, so that a list begins with the
README and not with the deepest corner. A position in it is a path, not a number: whatever appears or disappears, a walk
that goes on from a position meets everything after it once.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from stat import S_ISDIR, S_ISREG
from threading import Lock
from time import time_ns
from typing import Literal, NamedTuple, TypeAlias

from carrel.sources.root import Node, Parts, Root
from carrel.sources.selection import Selection
from carrel.threads import stop_if_cancelled

__all__ = ["START", "Directory", "Entry", "Position", "Tree", "Visit"]

WORK = 20_000  # names and directories looked at for one page
MAX_NAMES = 250_000  # names of directories that are kept
FINE = 50_000_000  # nanoseconds: what changed this recently may change again without a new time stamp
COARSE = 2_100_000_000  # the same on file systems that count in seconds

Key: TypeAlias = tuple[int, int, int, int]


class Position(NamedTuple):
    """A place in an order: after a file, or before a directory and what is in it."""

    kind: Literal["file", "directory"]
    parts: Parts


START = Position("directory", ())


class Directory(NamedTuple):
    """The names in a directory, sorted, without those that are left out for their spelling.

    ``links`` are the names that are links. Of these, ``aliases`` lead to directories in the root; they are not walked,
    because what is there is listed where it is.
    """

    files: list[str]
    directories: list[str]
    links: frozenset[str]
    aliases: frozenset[str]


class Entry(NamedTuple):
    """A file or directory that was found, and its state."""

    parts: Parts
    info: os.stat_result

    @property
    def is_directory(self) -> bool:
        return S_ISDIR(self.info.st_mode)


class Visit(NamedTuple):
    """A directory on a walk, open for the moment; ``start`` is the index of the first file to look at."""

    parts: Parts
    node: Node
    directory: Directory
    start: int = 0


class Tree:
    """What is shared of a root. All methods block, and may be called from several threads."""

    def __init__(self, root: Root, selection: Selection) -> None:
        self._root = root
        self._selection = selection
        self._kept: dict[Parts, tuple[Key, Directory]] = {}
        self._names = 0
        self._lock = Lock()

    def open(self, parts: Parts) -> Node:
        """Open a file or a directory. Close it.

        Raises:
            Excluded: it is not shared.
            OSError: it is not there, or may not be read.
        """
        return self._root.open(parts, self._selection.passage)

    def directory(self, node: Node, parts: Parts) -> Directory:
        """Return the names in a directory that was opened as ``parts``; from memory, if it has not changed.

        Raises:
            OSError: it may not be read.
        """
        info = node.info
        key = info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns
        kept = self._kept.get(parts)
        if kept is not None and kept[0] == key:
            return kept[1]
        found = self._scan(node, parts)
        settled = time_ns() - info.st_mtime_ns > (FINE if info.st_mtime_ns % 1_000_000_000 else COARSE)
        # Where a link leads can change without any change here.
        if settled and not found.links:
            self._keep(parts, key, found)
        return found

    def kind(self, node: Node, parts: Parts, name: str) -> Literal["directory", "other"] | None:
        """Return what a name in an open directory is: a directory that is walked, or something else that is shared.

        None if it is not there or not shared.
        """
        assert node.place is not None
        try:
            mode = node.place.stat(name).st_mode
            if S_ISDIR(mode):
                return "directory" if node.guard.admits(name, True) else None
            if S_ISREG(mode):
                return "other" if node.guard.admits(name, False) else None
            with self.open((*parts, name)) as target:
                return "directory" if target.place is not None and target.outside else "other"
        except OSError:
            return None

    def forget(self) -> None:
        """Let go of what is in memory."""
        with self._lock:
            self._kept.clear()
            self._names = 0

    def walk(self, after: Position = START) -> Iterator[Visit]:
        """Visit the directories after a position, in order. What cannot be read is passed over."""
        return self._walk((), after, frozenset())

    def page(self, after: Position, limit: int, work: int = WORK) -> tuple[list[Entry], Position | None]:
        """Return up to ``limit`` files after a position, and the position to go on from; None at the end.

        At most ``work`` names are looked at, so that there may be fewer files, or none, before the end.
        """
        found: list[Entry] = []
        for visit in self.walk(after):
            files = visit.directory.files
            if work <= 0 and not visit.start:
                return found, Position("directory", visit.parts)
            work -= 1
            for index in range(visit.start, len(files)):
                if work <= 0:
                    before = Position("file", (*visit.parts, files[index - 1]))
                    return found, before if index else Position("directory", visit.parts)
                work -= 1
                info = self._look(visit, files[index], is_directory=False)
                if info is None:
                    continue
                if len(found) == limit:
                    return found, Position("file", found[-1].parts)
                found.append(Entry((*visit.parts, files[index]), info))
        return found, None

    def children(self, parts: Parts, after: Position, limit: int) -> tuple[list[Entry], Position | None]:
        """Return up to ``limit`` entries of a directory, directories first, and the position to go on from.

        Raises:
            NotADirectoryError: it is a file.
            OSError: it is not there, or may not be read.
        """
        found: list[Entry] = []
        with self.open(parts) as node:
            if node.place is None:
                raise NotADirectoryError
            directory = self.directory(node, parts)
            visit = Visit(parts, node, directory)
            name = after.parts[-1] if after.parts else ""
            in_files = after.kind == "file"
            for is_directory, names in ((True, directory.directories), (False, directory.files)):
                if is_directory and in_files:
                    continue
                start = bisect_right(names, name) if is_directory or in_files else 0
                for index in range(start, len(names)):
                    info = self._look(visit, names[index], is_directory=is_directory)
                    if info is None:
                        continue
                    if len(found) == limit:
                        last = found[-1]
                        return found, Position("directory" if last.is_directory else "file", last.parts[-1:])
                    found.append(Entry((*parts, names[index]), info))
        return found, None

    def _walk(self, parts: Parts, after: Position | None, above: frozenset[tuple[int, int]]) -> Iterator[Visit]:
        depth = len(parts)
        start, inner = 0, None
        try:
            stop_if_cancelled()
            node = self.open(parts)
        except OSError:
            return
        with node:
            identity = node.info.st_dev, node.info.st_ino
            # A link that is followed out of the root may lead to a directory that contains the root.
            if node.place is None or node.parts != parts or (node.outside and identity in above):
                return
            try:
                directory = self.directory(node, parts)
            except OSError:
                return
            if after is not None and len(after.parts) > depth:
                inner = after.parts[depth]
                if after.kind == "file" and len(after.parts) == depth + 1:
                    start, inner = bisect_right(directory.files, inner), None
                else:
                    start = len(directory.files)
            yield Visit(parts, node, directory, start)
            guard = node.guard
        above |= {identity}
        first = 0 if inner is None else bisect_left(directory.directories, inner)
        for index in range(first, len(directory.directories)):
            name = directory.directories[index]
            if name not in directory.aliases and (name in directory.links or guard.admits(name, True)):
                yield from self._walk((*parts, name), after if name == inner else None, above)

    def _look(self, visit: Visit, name: str, *, is_directory: bool) -> os.stat_result | None:
        """Return the state of an entry, or None if it is no longer there, not of this kind, or not shared."""
        stop_if_cancelled()
        try:
            if name in visit.directory.links:
                with self.open((*visit.parts, name)) as node:
                    info = node.info
            elif visit.node.guard.admits(name, is_directory):
                assert visit.node.place is not None
                info = visit.node.place.stat(name)
            else:
                return None
        except OSError:
            return None
        return info if (S_ISDIR if is_directory else S_ISREG)(info.st_mode) else None

    def _scan(self, node: Node, parts: Parts) -> Directory:
        assert node.place is not None
        files: list[str] = []
        directories: list[str] = []
        links: list[str] = []
        aliases: list[str] = []
        admits_name = self._selection.admits_name
        for entry in node.place.scan():
            stop_if_cancelled()
            if not admits_name(entry.name):
                continue
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.append(entry.name)
        for name in links:
            try:
                with self.open((*parts, name)) as target:
                    (files if target.place is None else directories).append(name)
                    if target.place is not None and not target.outside:
                        aliases.append(name)
            except OSError:
                continue
        files.sort()
        directories.sort()
        return Directory(files, directories, frozenset(links), frozenset(aliases))

    def _keep(self, parts: Parts, key: Key, found: Directory) -> None:
        with self._lock:
            self._drop(parts)
            self._kept[parts] = key, found
            self._names += 1 + len(found.files) + len(found.directories)
            while self._names > MAX_NAMES and len(self._kept) > 1:
                self._drop(next(iter(self._kept)))

    def _drop(self, parts: Parts) -> None:
        dropped = self._kept.pop(parts, None)
        if dropped is not None:
            self._names -= 1 + len(dropped[1].files) + len(dropped[1].directories)
