"""A folder of skills: which of its directories are skills, and what belongs to them.

A directory is a skill if it has a SKILL.md whose frontmatter names it. Skills may be in directories of directories, and
in one another. The folder may be a skill itself. What is left out of a folder that is shared (hidden files, what git
ignores, links that lead out) is no part of a skill either; nor is what only a link to a directory leads to, because its
files are listed where they are.

https://agentskills.io/specification
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH100, PTH111, PTH116, PTH118, PTH119

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from stat import S_ISDIR, S_ISREG
from time import time_ns
from typing import Any, NamedTuple, TypeAlias

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.protocol.extensions.skills import MAX_BYTES, MAX_FILES, SKILL_FILE
from carrel.protocol.frontmatter import MAX_FRONTMATTER, FrontmatterError, check_skill, read_frontmatter
from carrel.sources.root import Node, Parts, Root
from carrel.sources.selection import Selection
from carrel.sources.tree import START, Entry, Position, Tree, Visit
from carrel.threads import stop_if_cancelled

__all__ = ["FileDigest", "SkillFolder", "Stop", "read_chunks"]

MAX_KEPT = 100_000  # digests that are remembered
SETTLED = 2_100_000_000  # nanoseconds: what changed this recently may change again without a new time stamp
CHUNK = 1024 * 1024

log = Log("carrel.sources")

Key: TypeAlias = tuple[int, int, int, int, int]


class Stop(NamedTuple):
    """A directory in a skill, on a walk; ``frontmatter`` is that of the skill of which it is the root, if it is one."""

    visit: Visit
    frontmatter: dict[str, Any] | None


class FileDigest(NamedTuple):
    """A file, the SHA-256 of its bytes in hexadecimal digits, and how many bytes it has."""

    parts: Parts
    digest: str
    size: int


class SkillFolder:
    """A folder of skills, or one skill. All methods block, and may be called from several threads.

    The options are those of ``FilesSource``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        exclude: Iterable[str] = (),
        hidden: bool = False,
        follow_symlinks: bool = False,
        gitignore: bool = True,
    ) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self.name = ""
        """What the folder is called as a skill, if it is one itself."""
        self._selection = Selection((), exclude, hidden=hidden, gitignore=gitignore)
        self.tree = Tree(Root(self.path, follow_links=follow_symlinks), self._selection)
        self._heads: dict[Key, dict[str, Any] | str] = {}  # frontmatter, or what is wrong with it
        self._digests: dict[Key, str] = {}
        self._told: set[tuple[Parts, str]] = set()

    def inspect(self) -> None:
        """Look at the folder.

        Raises:
            ConfigError: it is not there, is no folder, or may not be read; or PyYAML is not installed.
        """
        try:
            import yaml  # type: ignore[import-untyped]  # noqa: F401
        except ImportError:
            raise ConfigError("Skills need PyYAML: pip install 'carrel[skills]'") from None
        shown = os.fsencode(self.path).decode("utf-8", "replace")
        try:
            if not S_ISDIR(os.stat(self.path).st_mode):
                raise ConfigError(f"{shown} is not a folder of skills, nor one skill in a folder")
            self._selection.look_above(self.path)
            with self.tree.open(()) as node:
                if SKILL_FILE in self.tree.directory(node, ()).files:
                    self.name = os.path.basename(self.path)
        except FileNotFoundError:
            raise ConfigError(f"There is no {shown}") from None
        except OSError as error:
            raise ConfigError(f"{shown} cannot be shared: {error.strerror}") from None

    def forget(self) -> None:
        """Let go of what is in memory."""
        self.tree.forget()
        self._heads.clear()
        self._digests.clear()
        self._told.clear()

    def tops(self) -> list[str]:
        """Return the names with which the paths of skills begin; the same list as before if nothing changed."""
        try:
            with self.tree.open(()) as node:
                return [self.name] if self.name else self.tree.directory(node, ()).directories
        except OSError:
            return []

    # What is a skill

    def skill_at(self, parts: Parts) -> dict[str, Any] | None:
        """Return the frontmatter of the skill in a directory; None if there is none. Why not is logged, once."""
        name = parts[-1] if parts else self.name
        if not name:
            return None
        try:
            with self.tree.open((*parts, SKILL_FILE)) as node:
                found = self._head(node)
        except OSError:
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

    def _head(self, node: Node) -> dict[str, Any] | str:
        if node.place is not None:
            return f"{SKILL_FILE} is a directory"
        key = key_of(node.info)
        kept = self._heads.get(key)
        if kept is not None:
            return kept
        found: dict[str, Any] | str
        try:
            found = read_frontmatter(b"".join(read_chunks(node.descriptor, MAX_FRONTMATTER)))
        except FrontmatterError as error:
            found = str(error)
        keep(self._heads, key, found)
        return found

    def in_skill(self, parts: Parts) -> bool:
        """Say whether a path is a skill, or in one; whether or not it is there."""
        return any(self.skill_at(parts[:depth]) is not None for depth in range(not self.name, len(parts) + 1))

    def is_directory(self, parts: Parts) -> bool:
        """Say whether a path is a directory by itself: no file, and no link to somewhere else in the folder.

        Raises:
            OSError: it is not there, or not shared.
        """
        with self.tree.open(parts) as node:
            return node.place is not None and node.parts == parts

    def _complain(self, parts: Parts, problem: str) -> None:
        if (parts, problem) not in self._told and len(self._told) < MAX_KEPT:
            self._told.add((parts, problem))
            shown = os.fsencode(os.path.join(self.path, *parts)).decode("utf-8", "replace")
            log.warning("%s is not served as a skill: %s", shown, problem)

    # What belongs to skills

    def walk(self, after: Position = START) -> Iterator[Stop]:
        """Visit the directories that belong to skills after a position, in order."""
        outer: Parts | None = None
        for visit in self.tree.walk(after):
            frontmatter = self.skill_at(visit.parts) if SKILL_FILE in visit.directory.files else None
            if outer is not None and visit.parts[: len(outer)] != outer:
                outer = None
            if outer is None and frontmatter is not None:
                outer = visit.parts
            if outer is not None:
                yield Stop(visit, frontmatter)

    def files(self, visit: Visit) -> Iterator[Entry]:
        """Yield the files of a directory on a walk, from where the walk begins in it."""
        for name in visit.directory.files[visit.start :]:
            stop_if_cancelled()
            parts = (*visit.parts, name)
            try:
                if name in visit.directory.links:
                    with self.tree.open(parts) as node:
                        info = node.info
                elif visit.node.guard.admits(name, False):
                    assert visit.node.place is not None
                    info = visit.node.place.stat(name)
                else:
                    continue
            except OSError:
                continue
            if S_ISREG(info.st_mode):
                yield Entry(parts, info)

    def manifest(self, parts: Parts) -> list[FileDigest] | None:
        """Return all files of the skill in a directory, its SKILL.md first; None if they are too many or too much."""
        entries: list[Entry] = []
        for visit in self.tree.walk(Position("directory", parts) if parts else START):
            if visit.parts[: len(parts)] == parts:
                entries += self.files(visit)
                if len(entries) > MAX_FILES:
                    self._complain(parts, f"it has more than {MAX_FILES} files")
                    return None
            elif visit.parts != parts[: len(visit.parts)]:
                break
        if sum(entry.info.st_size for entry in entries) > MAX_BYTES:
            self._complain(parts, f"it has more than {MAX_BYTES:,} bytes")
            return None
        entries.sort(key=lambda entry: entry.parts != (*parts, SKILL_FILE))
        return [digest for entry in entries if (digest := self._digest(entry)) is not None]

    def _digest(self, entry: Entry) -> FileDigest | None:
        key = key_of(entry.info)
        kept = self._digests.get(key)
        if kept is not None:
            return FileDigest(entry.parts, kept, entry.info.st_size)
        total, digest = 0, sha256()
        try:
            with self.tree.open(entry.parts) as node:
                if node.place is not None:
                    return None
                for chunk in read_chunks(node.descriptor, MAX_BYTES + 1):
                    digest.update(chunk)
                    total += len(chunk)
                unchanged = key_of(os.fstat(node.descriptor)) == key
        except OSError:
            return None
        if unchanged and total == entry.info.st_size:
            keep(self._digests, key, digest.hexdigest())
        return FileDigest(entry.parts, digest.hexdigest(), total)


def read_chunks(descriptor: int, limit: int) -> Iterator[bytes]:
    """Yield what an open file begins with, up to ``limit`` bytes."""
    while limit > 0 and (chunk := os.read(descriptor, min(limit, CHUNK))):
        stop_if_cancelled()
        limit -= len(chunk)
        yield chunk


def key_of(info: os.stat_result) -> Key:
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def keep(memory: dict[Key, Any], key: Key, value: Any) -> None:
    """Remember something about a file, if it has not changed so recently that it could change again unnoticed."""
    if time_ns() - max(key[3], key[4]) > SETTLED:
        if len(memory) >= MAX_KEPT:
            memory.clear()
        memory[key] = value
