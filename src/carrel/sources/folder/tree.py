"""Tree of the shared files and directories under a root: opens them, and walks them page by page.

Entries are sorted by name, the files of a directory before its directories, so that a list begins with the README and
not with the most deeply nested file. A position is a path, not an index: if entries appear or disappear, a walk that
resumes from a position still visits every later entry once.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from stat import S_ISDIR, S_ISREG
from time import time_ns
from typing import Literal, NamedTuple, TypeAlias

from carrel.sources.folder.notices import Notices
from carrel.sources.folder.position import START, Kind, Parts, TreePosition
from carrel.sources.folder.sandbox import Costly, Guard, OpenNode, SandboxRoot
from carrel.sources.folder.selection import FileSelection
from carrel.sources.folder.work import PAGE, Work
from carrel.sources.sized_cache import SizedCache
from carrel.threads import stop_if_cancelled

__all__ = ["DirectoryNames", "Tree", "TreeEntry", "VisitedDirectory"]

MAX_ENTRIES = 250_000  # names in one directory
MAX_NAMES = MAX_ENTRIES + 1  # names, and directories, kept in the cache of directories

# Work, in microseconds
NAME = 1.0  # to check a name
SCAN = 1.5  # to read a name from a directory
LOOK = 10.0  # to stat a file and describe it
SHARE = 0.1  # of a page's work budget, reserved for its first directory, regardless of the work to reach it
FINE = 50_000_000  # nanoseconds: a directory modified this recently may change again with the same timestamp
COARSE = 2_100_000_000  # the same on file systems with timestamps in seconds

Key: TypeAlias = tuple[int, int, int, int]


class DirectoryNames(NamedTuple):
    """Sorted names in a directory, without those excluded by name alone.

    ``links`` are the names of symbolic links. They are among both the files and the directories: their targets are
    resolved only when they are looked up.
    """

    files: list[str]
    directories: list[str]
    links: frozenset[str]


class TreeEntry(NamedTuple):
    """A file or directory that was found, and its ``stat`` result."""

    parts: Parts
    info: os.stat_result

    @property
    def is_directory(self) -> bool:
        return S_ISDIR(self.info.st_mode)


class VisitedDirectory(NamedTuple):
    """A directory visited by a walk, open until the next one; ``start`` is the index of the first file to process."""

    parts: Parts
    node: OpenNode
    directory: DirectoryNames
    start: int = 0


class Level:
    """A directory on a walk whose subdirectories after ``name`` are still to be visited.

    If the walk began deeper inside, it is loaded only when the walk returns to it.
    """

    __slots__ = ("directory", "guard", "index", "name", "parts")

    def __init__(self, parts: Parts, name: str) -> None:
        self.parts = parts
        self.name = name
        self.index = 0
        self.directory: DirectoryNames | None = None
        self.guard: Guard | None = None

    def load(self, directory: DirectoryNames, guard: Guard) -> Level:
        self.directory, self.guard = directory, guard
        self.index = bisect_right(directory.directories, self.name)
        return self


class Tree:
    """Shared files and directories under a root. All methods block, and are thread-safe.

    Unreadable entries are left out of lists, and logged. If the process can open no more files, an error is raised
    instead, because all entries would be left out.
    """

    def __init__(self, root: SandboxRoot, selection: FileSelection) -> None:
        self._root = root
        self._selection = selection
        self.notices = Notices(root.path)
        self._kept: SizedCache[Parts, tuple[Key, DirectoryNames]] = SizedCache(MAX_NAMES)

    def open(self, parts: Parts, work: Work | None = None) -> OpenNode:
        """Open a file or a directory; the caller closes it. The cost is added to ``work``.

        Raises:
            Excluded: it is not shared.
            OSError: it is not there, or may not be read.
        """
        work = work or Work()
        try:
            return self._root.open(parts, partial(self._selection.passage, work, self.notices), work)
        except Costly:
            self.notices.warn(parts, "is not shared, because it takes too long to find out whether it may be")
            raise

    def open_in(self, directory: OpenNode, name: str) -> OpenNode | None:
        """Open a file in an open directory, or return None if the caller must use ``open``. Raises the errors of
        ``open``.
        """
        return self._root.open_in(directory, name)

    def open_on_way(self, parts: Parts, work: Work | None = None) -> OpenNode:
        """Open a directory that may contain shared files; the caller closes it. Same limits and errors as ``open``."""
        return self.open(parts, work)

    def _leads(self, guard: Guard, name: str) -> bool:
        """Return whether a walk goes into a directory in the directory of a guard."""
        return guard.admits(name, True)

    def directory(self, node: OpenNode, parts: Parts, work: Work | None = None) -> DirectoryNames:
        """Return the names in a directory opened as ``parts``; cached until it changes.

        Raises:
            OSError: it may not be read, or has too many names.
        """
        info = node.info
        key = info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns
        kept = self._kept.get(parts)
        if kept is not None and kept[0] == key:
            return kept[1]
        found = self._scan(node, parts)
        if work is not None:
            work.spent += SCAN * (len(found.files) + len(found.directories))
        if time_ns() - info.st_mtime_ns > (FINE if info.st_mtime_ns % 1_000_000_000 else COARSE):
            self._kept.put(parts, (key, found), 1 + len(found.files) + len(found.directories))
        return found

    def kind(self, node: OpenNode, parts: Parts, name: str) -> Literal["directory", "other"] | None:
        """Return the kind of a name in an open directory: a directory that is walked, or another shared entry.

        None if it is not there or not shared.

        Raises:
            OSError: the process can open no more files.
        """
        assert node.handle is not None
        try:
            mode = node.handle.stat(name).st_mode
            if S_ISDIR(mode):
                return "directory" if node.guard.admits(name, True) else None
            if S_ISREG(mode):
                return "other" if node.guard.admits(name, False) else None
            with self.open((*parts, name)) as target:
                return "directory" if target.handle is not None and target.outside else "other"
        except OSError as error:
            self.notices.pass_over((*parts, name), error)
            return None

    def forget(self) -> None:
        """Clear the cache, and the record of logged warnings."""
        self._kept.clear()
        self.notices.forget()

    def page(
        self, after: TreePosition, limit: int, work: Work | None = None
    ) -> tuple[list[TreeEntry], TreePosition | None]:
        """Return up to ``limit`` files after a position, and the position to resume from; None at the end.

        A page before the end may have fewer files, or none, if the ``work`` limit is reached.

        Raises:
            OSError: the process can open no more files.
        """
        work = work or Work(PAGE)
        found: list[TreeEntry] = []
        with closing(self.walk(after, work)) as directories:
            for visited in directories:
                for entry in self.files(visited, work):
                    if len(found) == limit:
                        return found, TreePosition("file", found[-1].parts)
                    found.append(entry)
        return found, work.position

    def files(self, visited: VisitedDirectory, work: Work) -> Iterator[TreeEntry]:
        """Yield the files of a visited directory, until the work limit is reached: then the walk ends there.

        Raises:
            OSError: the process can open no more files.
        """
        files = visited.directory.files
        for index in range(visited.start, len(files)):
            if work.is_over and index > visited.start:
                work.position = TreePosition("file", (*visited.parts, files[index - 1]))
                return
            info = self.look(visited, files[index], is_directory=False, work=work)
            if info is not None:
                yield TreeEntry((*visited.parts, files[index]), info)

    def children(
        self, parts: Parts, after: TreePosition, limit: int, work: Work | None = None
    ) -> tuple[list[TreeEntry], TreePosition | None]:
        """Return up to ``limit`` entries of a directory, directories first, and the position to resume from.

        A page before the end may have fewer entries, or none, if the ``work`` limit is reached.

        Raises:
            NotADirectoryError: it is a file.
            OSError: it is not there, or may not be read, or the process can open no more files.
        """
        work = work or Work(PAGE)
        found: list[TreeEntry] = []
        last = after
        with self.open(parts, work) as node:
            if node.handle is None:
                raise NotADirectoryError
            visited = VisitedDirectory(parts, node, self.directory(node, parts, work))
            work.limit = max(work.limit, work.spent + SHARE * work.limit)
            name = after.parts[-1] if after.parts else ""
            kinds: tuple[tuple[Kind, list[str]], ...] = (
                ("directory", visited.directory.directories),
                ("file", visited.directory.files),
            )
            for kind, names in kinds:
                if kind == "directory" and after.kind == "file":
                    continue
                for index in range(bisect_right(names, name) if kind == after.kind else 0, len(names)):
                    if work.is_over and last is not after:
                        return found, last
                    info = self.look(visited, names[index], is_directory=kind == "directory", work=work)
                    if info is not None:
                        if len(found) == limit:
                            return found, last
                        found.append(TreeEntry((*parts, names[index]), info))
                    last = TreePosition(kind, (names[index],))
        return found, None

    def walk(
        self, after: TreePosition = START, work: Work | None = None, within: Parts = ()
    ) -> Generator[VisitedDirectory, None, None]:
        """Visit the directories after a position, in order, limited to the directories in ``within``.

        When the work limit is reached, the walk ends, and ``work.position`` is the position to resume from.

        Raises:
            OSError: the process can open no more files.
        """
        work = work or Work()
        parts, start = (after.parts[:-1], after.parts[-1]) if after.kind == "file" else (after.parts, "")
        levels = [Level(parts[:depth], parts[depth]) for depth in range(len(within), len(parts))]
        here = self._next(levels, work) if after.kind == "end" else parts
        while here is not None:
            level = Level(here, "")
            opened = self._enter(here, work)
            if opened is not None:
                with opened[0] as node:
                    if here is parts:
                        work.limit = max(work.limit, work.spent + SHARE * work.limit)
                    yield VisitedDirectory(here, node, opened[1], bisect_right(opened[1].files, start) if start else 0)
                    levels.append(level.load(opened[1], node.guard))
            here, start = self._next(levels, work), ""

    def _enter(self, parts: Parts, work: Work) -> tuple[OpenNode, DirectoryNames] | None:
        """Open a directory on a walk; None if it cannot be read, or its real path is another one."""
        try:
            node = self.open_on_way(parts, work)
        except OSError as error:
            self.notices.pass_over(parts, error)
            return None
        try:
            # The target of a link within the root is listed at its own path.
            if node.handle is not None and node.parts == parts:
                return node, self.directory(node, parts, work)
        except OSError as error:
            node.close()
            self.notices.pass_over(parts, error)
            return None
        except BaseException:
            node.close()
            raise
        node.close()
        return None

    def _next(self, levels: list[Level], work: Work) -> Parts | None:
        """Return the next directory of a walk; None at its end."""
        while levels and work.position is None:
            level = levels[-1]
            if level.directory is None:
                if work.is_over:
                    work.position = TreePosition("end", (*level.parts, level.name))
                    return None
                opened = self._enter(level.parts, work)
                if opened is None:
                    levels.pop()
                    continue
                with opened[0] as node:
                    level.load(opened[1], node.guard)
            assert level.directory is not None
            assert level.guard is not None
            names, links = level.directory.directories, level.directory.links
            while level.index < len(names):
                name = names[level.index]
                if work.is_over:
                    work.position = TreePosition("directory", (*level.parts, name))
                    return None
                level.index += 1
                work.spent += NAME
                # The target of a link within the root is listed at its own path.
                if self._root.follows if name in links else self._leads(level.guard, name):
                    return (*level.parts, name)
            levels.pop()
        return None

    def look(self, visited: VisitedDirectory, name: str, *, is_directory: bool, work: Work) -> os.stat_result | None:
        """Return the ``stat`` result of an entry, or None if it is gone, of another kind, or not shared.

        Raises:
            OSError: the process can open no more files.
        """
        work.spent += NAME
        try:
            if name in visited.directory.links:
                with self.open((*visited.parts, name), work) as node:
                    info = node.info
            elif visited.node.guard.admits(name, is_directory):
                assert visited.node.handle is not None
                info = visited.node.handle.stat(name)
            else:
                return None
        except OSError as error:
            self.notices.pass_over((*visited.parts, name), error)
            return None
        work.spent += LOOK
        return info if (S_ISDIR if is_directory else S_ISREG)(info.st_mode) else None

    def has(self, visited: VisitedDirectory, name: str, *, is_directory: bool, work: Work) -> bool:
        """Return whether a name read from a directory is of this kind, and shared.

        Raises:
            OSError: the process can open no more files.
        """
        work.spent += NAME
        if name in visited.directory.links:
            return self.look(visited, name, is_directory=is_directory, work=work) is not None
        return visited.node.guard.admits(name, is_directory)

    def _scan(self, node: OpenNode, parts: Parts) -> DirectoryNames:
        assert node.handle is not None
        files: list[str] = []
        directories: list[str] = []
        links: list[str] = []
        admits_name = self._selection.admits_name
        with closing(node.handle.scan()) as entries:
            for number, entry in enumerate(entries):
                stop_if_cancelled()
                if number == MAX_ENTRIES:
                    raise OSError(errno.EFBIG, f"it has more than {MAX_ENTRIES:,} entries")
                if not admits_name(entry.name):
                    continue
                if entry.is_symlink():
                    links.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
        return DirectoryNames(sorted(files + links), sorted(directories + links), frozenset(links))
