"""Discovery of Agent Skills in a folder: its skill directories, their files, frontmatter and manifests.

A directory is a skill if it has a SKILL.md whose frontmatter names it. Skills may be nested in directories, and in one
another. The folder may be a skill itself. Files that a shared folder excludes (hidden files, files that git ignores,
links that lead out of the folder) are not part of a skill. Neither are files that are reached only by a link to a
directory, because they are listed at their real path.

https://agentskills.io/specification
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH119

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import islice
from time import time_ns
from typing import Any, NamedTuple, TypeAlias

from carrel.errors import ConfigError
from carrel.protocol.extensions.frontmatter import MAX_FRONTMATTER, FrontmatterError, check_skill, read_frontmatter
from carrel.protocol.extensions.skills import MAX_BYTES, MAX_FILES, SKILL_FILE
from carrel.sources.folder.describe import display
from carrel.sources.folder.position import START, Parts, TreePosition
from carrel.sources.folder.sandbox import OpenNode
from carrel.sources.folder.shared import SharedFolder
from carrel.sources.folder.tree import TreeEntry, VisitedDirectory
from carrel.sources.folder.work import WHOLE, Work
from carrel.sources.packages import needed
from carrel.sources.skills.options import SkillsOptions
from carrel.threads import stop_if_cancelled

__all__ = ["FileDigest", "SkillFolder", "Stop", "read_chunks"]

MAX_KEPT = 100_000  # entries in each cache
SETTLED = 2_100_000_000  # nanoseconds: a file modified this recently may change again with the same timestamp
CHUNK = 1024 * 1024

# Work, in microseconds per byte
PARSE = 1.0
HASH = 0.003

Key: TypeAlias = tuple[int, int, int, int, int]


class Stop(NamedTuple):
    """A skill directory visited by a walk; ``frontmatter`` is set if it is the root of a skill."""

    visited: VisitedDirectory
    frontmatter: dict[str, Any] | None


class FileDigest(NamedTuple):
    """A file, its SHA-256 digest in hexadecimal, and its size in bytes."""

    parts: Parts
    digest: str
    size: int


class SkillFolder(SharedFolder):
    """A folder of skills, or one skill. All methods block, and are thread-safe."""

    def __init__(self, path: str | os.PathLike[str], options: SkillsOptions) -> None:
        super().__init__(path, options)
        self.name = ""
        """The name of the folder if it is a skill itself; otherwise empty."""
        self._heads: dict[Key, dict[str, Any] | str] = {}  # frontmatter, or the error in it
        self._digests: dict[Key, str] = {}

    def inspect(self) -> None:
        """Check the folder, and whether it is a skill itself.

        Raises:
            ConfigError: it does not exist, is not a folder, or may not be read; or PyYAML is not installed.
        """
        with needed("Skills", "skills"):
            import yaml  # type: ignore[import-untyped]  # noqa: F401
        super().inspect()
        if self.is_file:
            raise ConfigError(f"{display(self.path)} is not a folder of skills, nor one skill in a folder")
        try:
            with self.tree.open(()) as node:
                visited = VisitedDirectory((), node, self.tree.directory(node, ()))
                if SKILL_FILE in visited.directory.files and self._has(visited, SKILL_FILE, is_directory=False):
                    self.name = os.path.basename(self.path)
        except OSError as error:
            raise ConfigError(f"{display(self.path)} cannot be shared: {error.strerror}") from None

    def forget(self) -> None:
        """Clear the caches."""
        super().forget()
        self._heads.clear()
        self._digests.clear()

    def tops(self) -> list[str]:
        """Return the top-level directory names under which skills may be; the same list object while unchanged.

        Raises:
            OSError: the process can open no more files.
        """
        try:
            with self.tree.open_on_way(()) as node:
                if self.name:
                    return [self.name]
                visited = VisitedDirectory((), node, self.tree.directory(node, ()))
                names, links = visited.directory.directories, visited.directory.links
                return [name for name in names if name not in links or self._has(visited, name)] if links else names
        except OSError as error:
            self.tree.notices.pass_over((), error)
            return []

    def _has(self, visited: VisitedDirectory, name: str, *, is_directory: bool = True) -> bool:
        return self.tree.has(visited, name, is_directory=is_directory, work=Work())

    # Detection of skills

    def skill_at(self, parts: Parts, work: Work | None = None) -> dict[str, Any] | None:
        """Return the frontmatter of the skill in a directory; None if it is no valid skill; the reason is logged once.

        Raises:
            OSError: the process can open no more files.
        """
        name = parts[-1] if parts else self.name
        if not name:
            return None
        try:
            with self.tree.open((*parts, SKILL_FILE), work) as node:
                found = self._head(node, work)
        except OSError as error:
            self.tree.notices.pass_over((*parts, SKILL_FILE), error)
            return None
        if isinstance(found, str):
            self._complain(parts, found)
            return None
        try:
            check_skill(found, name)
        except FrontmatterError as error:
            self._complain(parts, str(error))
            return None
        return found

    def _head(self, node: OpenNode, work: Work | None) -> dict[str, Any] | str:
        if node.handle is not None:
            return f"{SKILL_FILE} is a directory"
        key = key_of(node.info)
        kept = self._heads.get(key)
        if kept is not None:
            return kept
        found: dict[str, Any] | str
        data = b"".join(read_chunks(node.descriptor, MAX_FRONTMATTER))
        if work is not None:
            work.spent += PARSE * len(data)
        try:
            found = read_frontmatter(data)
        except FrontmatterError as error:
            found = str(error)
        keep(self._heads, key, found)
        return found

    def in_skill(self, parts: Parts) -> bool:
        """Return whether a path is a skill or inside one, whether or not it exists."""
        return any(self.skill_at(parts[:depth]) is not None for depth in range(not self.name, len(parts) + 1))

    def is_directory(self, parts: Parts) -> bool:
        """Return whether a path is a real directory: not a file, and not a link to elsewhere in the folder.

        Raises:
            OSError: it is not there, or not shared.
        """
        with self.tree.open(parts) as node:
            return node.handle is not None and node.parts == parts

    def _complain(self, parts: Parts, problem: str) -> None:
        self.tree.notices.warn(parts, f"is not served as a skill: {problem}")

    # Files of skills

    def walk(
        self, after: TreePosition = START, work: Work | None = None, within: Parts = ()
    ) -> Generator[Stop, None, None]:
        """Visit the directories of skills after a position, in order, limited to the directories in ``within``.

        When the work limit is reached, the walk ends, and ``work.position`` is the position to resume from.

        Raises:
            OSError: the process can open no more files.
        """
        work = work or Work()
        begin = after.parts[:-1] if after.kind == "file" else after.parts
        above = (begin[:depth] for depth in range(len(begin)))
        outer = next((parts for parts in above if self.skill_at(parts, work) is not None), None)
        with closing(self.tree.walk(after, work, within)) as walk:
            for visited in walk:
                frontmatter = self.skill_at(visited.parts, work) if SKILL_FILE in visited.directory.files else None
                if outer is not None and visited.parts[: len(outer)] != outer:
                    outer = None
                if outer is None and frontmatter is not None:
                    outer = visited.parts
                if outer is not None:
                    yield Stop(visited, frontmatter)

    def manifest(self, parts: Parts, work: Work | None = None) -> list[FileDigest] | None:
        """Return the manifest of a skill: all of its files, SKILL.md first; None if they are over the limits.

        Raises:
            OSError: the process can open no more files.
        """
        own = Work(WHOLE)
        entries: list[TreeEntry] = []
        with closing(self.tree.walk(TreePosition("directory", parts), own, parts)) as walk:
            for visited in walk:
                entries += islice(self.tree.files(visited, own), MAX_FILES + 1)
                if len(entries) > MAX_FILES:
                    break
        if work is not None:
            work.spent += own.spent
        if len(entries) > MAX_FILES:
            self._complain(parts, f"it has more than {MAX_FILES} files")
            return None
        if own.position is not None:
            self._complain(parts, "it takes too long to find all of its files")
            return None
        if sum(entry.info.st_size for entry in entries) > MAX_BYTES:
            self._complain(parts, f"it has more than {MAX_BYTES:,} bytes")
            return None
        entries.sort(key=lambda entry: entry.parts != (*parts, SKILL_FILE))
        return [digest for entry in entries if (digest := self._digest(entry, work)) is not None]

    def _digest(self, entry: TreeEntry, work: Work | None) -> FileDigest | None:
        key = key_of(entry.info)
        kept = self._digests.get(key)
        if kept is not None:
            return FileDigest(entry.parts, kept, entry.info.st_size)
        total, digest = 0, sha256()
        try:
            with self.tree.open(entry.parts, work) as node:
                if node.handle is not None:
                    return None
                for chunk in read_chunks(node.descriptor, MAX_BYTES + 1):
                    digest.update(chunk)
                    total += len(chunk)
                unchanged = key_of(os.fstat(node.descriptor)) == key
        except OSError as error:
            self.tree.notices.pass_over(entry.parts, error)
            return None
        if work is not None:
            work.spent += HASH * total
        if unchanged and total == entry.info.st_size:
            keep(self._digests, key, digest.hexdigest())
        return FileDigest(entry.parts, digest.hexdigest(), total)


def read_chunks(descriptor: int, limit: int) -> Iterator[bytes]:
    """Read an open file in chunks, up to ``limit`` bytes."""
    while limit > 0 and (chunk := os.read(descriptor, min(limit, CHUNK))):
        stop_if_cancelled()
        limit -= len(chunk)
        yield chunk


def key_of(info: os.stat_result) -> Key:
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def keep(memory: dict[Key, Any], key: Key, value: Any) -> None:
    """Cache a value for a file, unless it was modified so recently that it could change again unnoticed."""
    if time_ns() - max(key[3], key[4]) > SETTLED:
        if len(memory) >= MAX_KEPT:
            memory.clear()
        memory[key] = value
