"""Snapshot of the names that a folder shares, and the changes found by comparing it with the file system.

File system events are only hints where to scan: they may be duplicated, out of order, or missing. So changes are found
by scanning and comparing with the snapshot. If a file is written under a temporary name and renamed over another file,
only the other file is reported as changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import sleep
from typing import Literal, NamedTuple, TypeAlias

from carrel.sources.folder.position import Parts
from carrel.sources.folder.sandbox import OpenNode
from carrel.sources.folder.tree import Tree

__all__ = ["PathChanges", "Snapshot"]

Kind: TypeAlias = Literal["created", "changed", "removed"]

PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds to wait while the process can open no more files
MANY = 64  # touched names from which on a directory is listed, instead of one lookup for each


class SharedNames(NamedTuple):
    """Shared names of a directory: directories that are walked, and everything else."""

    directories: set[str]
    others: set[str]


class PathChanges(dict[Parts, Kind]):
    """Accumulated changes: the net kind of change for each path."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: dict[Parts, set[Parts]] = {}
        """Changed paths by directory: its entries, and the contents of new and removed directories."""

    def note(self, kind: Kind, parts: Parts) -> None:
        before = self.get(parts)
        if before == "created" and kind == "removed":
            del self[parts]
        elif before == "removed" and kind == "created":
            self[parts] = "changed"
        elif before is None or kind == "removed":
            self[parts] = kind

    def note_in(self, kind: Kind, parts: Parts) -> None:
        """Record a change of an entry, and that the contents of its directory have changed."""
        self.note(kind, parts)
        if not parts:
            return
        directory = parts[:-1]
        self.inside.setdefault(directory, set()).add(parts)
        while directory and self.get(directory, "changed") != "changed":
            directory = directory[:-1]
            self.inside.setdefault(directory, set()).add(parts)
        self.note("changed", parts[:-1])


class Snapshot:
    """Shared names under a root, as of the last scan.

    A scan ends early once ``stopping`` returns True.
    """

    def __init__(self, tree: Tree, stopping: Callable[[], bool]) -> None:
        self._tree = tree
        self._stopping = stopping
        self.known: dict[Parts, SharedNames] = {}
        self._outside: dict[tuple[int, int], Parts] = {}  # directories outside of the root, and the paths to them
        self.version = 0
        """Incremented when directories appear or disappear."""

    def look(self, parts: Parts, changes: PathChanges) -> None:
        """Rescan a directory recursively."""
        waiting = [parts]
        while waiting and not self._stopping():
            here = waiting.pop()
            now = self._names(here)
            before = self.known.get(here)
            if now is None:
                if before is not None:
                    self._remove_directory(here, changes)
                continue
            if before is None:
                changes.note_in("created", here)
                before = SharedNames(set(), set())
                self.version += 1
            for name in before.directories - now.directories:
                self._remove_directory((*here, name), changes)
            for name in before.others - now.others:
                changes.note_in("removed", (*here, name))
            for name in now.others - before.others:
                changes.note_in("created", (*here, name))
            self.known[here] = now
            waiting += [(*here, name) for name in now.directories]

    def look_at(self, parts: Parts, names: Collection[str], changes: PathChanges) -> None:
        """Rescan some names in a known directory; new directories recursively."""
        before = self.known[parts]
        now = self._names(parts, names)
        if now is None:
            self._remove_directory(parts, changes)
            return
        for name in names:
            there = (*parts, name)
            was_directory, was_other = name in before.directories, name in before.others
            if was_directory and name not in now.directories:
                self._remove_directory(there, changes)
            if name in now.others:
                before.others.add(name)
                changes.note_in("changed" if was_other else "created", there)
            elif was_other:
                before.others.discard(name)
                changes.note_in("removed", there)
            if name in now.directories and not was_directory:
                before.directories.add(name)
                self.look(there, changes)

    def look_for_writes(self, since: int, changes: PathChanges) -> None:
        """Record files changed after ``since`` (by ``st_ctime_ns``, nanoseconds since 1970)."""
        for parts, names in self.known.items():
            try:
                node = self._tree.open(parts)
            except OSError:
                continue
            with node:
                assert node.handle is not None
                for name in names.others:
                    try:
                        if node.handle.stat(name, follow=True).st_ctime_ns >= since:
                            changes.note_in("changed", (*parts, name))
                    except OSError:
                        continue

    def _remove_directory(self, parts: Parts, changes: PathChanges) -> None:
        """Record that a directory is gone, and everything in it."""
        waiting = [parts]
        while waiting:
            here = waiting.pop()
            names = self.known.pop(here, None)
            self.version += 1
            changes.note_in("removed", here)
            if names is not None:
                for name in names.others:
                    changes.note_in("removed", (*here, name))
                waiting += [(*here, name) for name in names.directories]
        above = self.known.get(parts[:-1]) if parts else None
        if above is not None:
            above.directories.discard(parts[-1])

    def _names(self, parts: Parts, wanted: Collection[str] | None = None) -> SharedNames | None:
        """Return the shared names of a directory, of all or of ``wanted``; or None if it does not exist or is not
        shared.

        While the process can open no more files, the names of the last scan are returned.
        """
        for pause in PAUSES:
            try:
                return self._look_up(parts, wanted)
            except OSError:
                sleep(pause)
        before = self.known.get(parts)
        self._tree.notices.warn(parts, "could not be looked at: changes in it may have been missed")
        if before is None:
            return None
        if wanted is None:
            return SharedNames(set(before.directories), set(before.others))
        return SharedNames(before.directories.intersection(wanted), before.others.intersection(wanted))

    def _look_up(self, parts: Parts, wanted: Collection[str] | None) -> SharedNames | None:
        try:
            with self._tree.open(parts) as node:
                if node.handle is None or node.parts != parts or (node.outside and self._is_elsewhere(node)):
                    return None
                if wanted is not None and len(wanted) < MANY:
                    return self._ask(node, parts, wanted)
                found = self._tree.directory(node, parts)
                names = self._ask(node, parts, found.links)
                admits = node.guard.admits
                names.directories.update(
                    name for name in found.directories if name not in found.links and admits(name, True)
                )
                names.others.update(name for name in found.files if name not in found.links and admits(name, False))
                return names
        except OSError as error:
            self._tree.notices.pass_over(parts, error)
            return None

    def _is_elsewhere(self, node: OpenNode) -> bool:
        """Return whether a directory outside of the root is scanned by the path of another link to it.

        Otherwise links that branch again and again would make more paths than can be scanned.
        """
        first = self._outside.setdefault((node.info.st_dev, node.info.st_ino), node.parts)
        if first != node.parts and first not in self.known:
            self._outside[(node.info.st_dev, node.info.st_ino)] = first = node.parts
        return first != node.parts

    def _ask(self, node: OpenNode, parts: Parts, wanted: Collection[str]) -> SharedNames:
        names = SharedNames(set(), set())
        for name in wanted:
            kind = self._tree.kind(node, parts, name)
            if kind is not None:
                (names.directories if kind == "directory" else names.others).add(name)
        return names
