"""Selection of the files under a root that are shared, for listing, reading, completion, search and watching alike.

Excluded by default: names that begin with a dot, and files excluded by .gitignore files and .git/info/exclude. Always
excluded: ``.git`` itself, search indexes, files that ``exclude`` matches, files that ``include`` does not match,
and names with a backslash, which have no URI. Patterns have the .gitignore syntax: ``*.md`` matches anywhere,
``/notes`` or ``docs/**`` at the root, ``build/`` a directory.
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH113, PTH116, PTH118, PTH120

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from carrel.sources.folder.notices import Notices, check_exhausted
from carrel.sources.folder.patterns import MAX_WEIGHT, WEIGHT, Patterns, TooMany, read_globs, read_lines
from carrel.sources.folder.position import Parts
from carrel.sources.folder.sandbox import FILE, Excluded, OpenDirectory
from carrel.sources.folder.work import Work
from carrel.sources.sized_cache import SizedCache

__all__ = ["IGNORE_FILE", "INDEX_FOLDER", "FileSelection", "IgnoreRule", "SelectionGuard"]

IGNORE_FILE = ".gitignore"
#: Beginning of the name of a folder with an index of the search, which has text of everything that is shared.
INDEX_FOLDER = ".carrel-index-"
MAX_IGNORE_FILE = 131_072  # bytes
MAX_KEPT = 5 * MAX_WEIGHT  # weight of the patterns that are cached
LEAST = 100  # weight of an ignore file without patterns there

# Work, in microseconds
READ = 0.3  # to read a byte of an ignore file
DECIDE = 1.5  # to decide whether a name is excluded

TOO_LARGE = f"has more than {MAX_IGNORE_FILE:,} bytes"
TOO_MANY = f"has too many patterns: more than {MAX_WEIGHT:,}, or {MAX_WEIGHT // WEIGHT:,} that are not simple"
TOGETHER = "has too many patterns, together with the directories above"
UNREADABLE = "cannot be read"

Key: TypeAlias = tuple[int, int, int, int, int]


class Unusable(Exception):
    """An ignore file cannot be applied. The excluded files are unknown, so its directory is not shared."""


class IgnoreRule(NamedTuple):
    """Patterns of one ignore file: in a directory ``depth`` levels below the root, or above it by ``prefix``."""

    depth: int
    prefix: str
    patterns: Patterns


class FileSelection:
    """Rules that select the shared files of a root. ``include`` and ``exclude`` are patterns as in .gitignore.

    Raises:
        ConfigError: a pattern is not valid.
    """

    def __init__(
        self,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        *,
        hidden: bool = False,
        gitignore: bool = True,
    ) -> None:
        self.include = read_globs("include", include)
        self.exclude = read_globs("exclude", exclude)
        self.hidden = hidden
        self.gitignore = gitignore
        self._above: list[tuple[str, str]] = []  # ignore files above the root, and the path from there to the root
        self._kept: SizedCache[str | Key, tuple[Key, Patterns | str | None]] = SizedCache(MAX_KEPT)

    def look_above(self, path: str) -> None:
        """Find the ignore files above the root, if it is in a git repository."""
        if not self.gitignore:
            return
        above: list[tuple[str, str]] = []
        directory, prefix = path, ""
        while True:
            git = os.path.join(directory, ".git")
            if os.path.lexists(git):
                above.append((exclude_file(git), prefix))
                self._above = above[::-1]
                return
            parent, name = os.path.split(directory)
            if parent == directory:
                return
            directory, prefix = parent, f"{name}/{prefix}"
            above.append((os.path.join(directory, IGNORE_FILE), prefix))

    def admits_name(self, name: str) -> bool:
        """Return whether a name is not excluded by itself: as a dot file, as ``.git``, or for a backslash."""
        if name[0] == ".":
            return self.hidden and name.lower() != ".git" and not name.lower().startswith(INDEX_FOLDER)
        return "\\" not in name

    def passage(self, work: Work, notices: Notices) -> SelectionGuard:
        """Return the guard for one walk down from the root."""
        return SelectionGuard(self, work, notices)

    def patterns_above(self, work: Work) -> Iterable[tuple[str, str, Patterns]]:
        """Yield the ignore files above the root, the path from there to the root, and their patterns.

        Raises:
            Unusable: one of them cannot be applied.
            OSError: the process cannot open more files.
        """
        for path, prefix in self._above:
            try:
                info = os.stat(path)
                patterns = self._read(path, info, path, None, work)
            except OSError as error:
                check_absent(error, path)
            else:
                if patterns is not None:
                    yield path, prefix, patterns

    def patterns_in(self, handle: OpenDirectory, work: Work) -> Patterns | None:
        """Return the patterns of the .gitignore in a directory, cached until it changes.

        Raises:
            Unusable: they cannot be applied.
            OSError: the directory does not allow lookups, or the process can open no more files.
        """
        if not self.gitignore:
            return None
        try:
            info = handle.stat(IGNORE_FILE)
        except FileNotFoundError:
            return None
        try:
            return self._read(fingerprint(info), info, IGNORE_FILE, handle, work)
        except OSError as error:
            check_absent(error, IGNORE_FILE)
            return None

    def _read(
        self, name: str | Key, info: os.stat_result, path: str, handle: OpenDirectory | None, work: Work
    ) -> Patterns | None:
        if not stat.S_ISREG(info.st_mode):  # git does not follow a link in a directory either
            return None
        key = fingerprint(info)
        kept = self._kept.get(name)
        if kept is None or kept[0] != key:
            data = read_file(os.open(path, FILE) if handle is None else handle.open(path))
            work.spent += READ * len(data)
            found = read_patterns(data)
            kept = key, found
            self._kept.put(name, kept, LEAST + (found.weight if isinstance(found, Patterns) else 0))
        if isinstance(kept[1], str):
            raise Unusable(f"{path} {kept[1]}")
        return kept[1]


class SelectionGuard:
    """Guard of one walk down from the root, with the rules of the ignore files on the way."""

    __slots__ = ("_notices", "_parts", "_rules", "_selection", "_weight", "_work")

    def __init__(self, selection: FileSelection, work: Work, notices: Notices) -> None:
        self._selection = selection
        self._rules: tuple[IgnoreRule, ...] = ()
        self._weight = 0
        self._parts: Parts = ()
        self._work = work
        self._notices = notices

    def enter(self, handle: OpenDirectory, parts: Parts) -> None:
        """Record that the walk has entered a directory, and read its ignore file.

        Raises:
            Excluded: its ignore file cannot be applied.
            OSError: its ignore file cannot be looked up.
        """
        self._parts = parts
        try:
            if not parts:
                for path, prefix, patterns in self._selection.patterns_above(self._work):
                    self._add(IgnoreRule(0, prefix, patterns), path)
            inside = self._selection.patterns_in(handle, self._work)
            if inside is not None:
                self._add(IgnoreRule(len(parts), "", inside), IGNORE_FILE)
        except Unusable as problem:
            self._notices.warn(parts, f"is not shared, because {problem}")
            raise Excluded(errno.EACCES, f"not shared, because {problem}") from None

    def _add(self, rule: IgnoreRule, path: str) -> None:
        self._weight += rule.patterns.weight
        if self._weight > MAX_WEIGHT:
            raise Unusable(f"{path} {TOGETHER}")
        self._rules = (*self._rules, rule)

    @property
    def admits_all(self) -> bool:
        """Whether there are no patterns, so that names alone decide."""
        selection = self._selection
        return not (self._rules or selection.exclude or selection.include)

    def admits(self, name: str, is_directory: bool) -> bool:
        """Return whether a name in the current directory is shared."""
        if not self._selection.admits_name(name):
            return False
        if self.admits_all:
            return True
        include = self._selection.include
        if include and not is_directory:
            path = "/".join((*self._parts, name))
            self._work.spent += include.cost(len(path)) * (1 + len(self._parts))
            if not include.cover(path):
                return False
        return self._admits(name, is_directory)

    def admits_link(self, name: str) -> bool:
        """Return whether a link in the current directory is shared, provided that its target is."""
        return self._selection.admits_name(name) and (self.admits_all or self._admits(name, False))

    def _admits(self, name: str, is_directory: bool) -> bool:
        parts = (*self._parts, name)
        path = "/".join(parts)
        exclude, work = self._selection.exclude, self._work
        work.spent += DECIDE + exclude.cost(len(path))
        if exclude.decide(path, is_directory):
            return False
        for rule in reversed(self._rules):
            inside = "/".join(parts[rule.depth :]) if rule.depth else rule.prefix + path
            work.spent += rule.patterns.cost(len(inside))
            ignored = rule.patterns.decide(inside, is_directory)
            if ignored is not None:
                return not ignored
        return True


def read_patterns(data: bytes) -> Patterns | str | None:
    """Parse an ignore file; return its patterns, None if it has none, or the reason why they cannot be applied."""
    if len(data) > MAX_IGNORE_FILE:
        return TOO_LARGE
    try:
        return read_lines(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n")) or None
    except TooMany:
        return TOO_MANY


def read_file(descriptor: int) -> bytes:
    """Read an ignore file, up to one byte over the limit, and close it; empty if it is no longer a regular file."""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        data = b""
        while len(data) <= MAX_IGNORE_FILE and (chunk := os.read(descriptor, MAX_IGNORE_FILE + 1 - len(data))):
            data += chunk
        return data
    finally:
        os.close(descriptor)


def check_absent(error: OSError, path: str) -> None:
    """Ignore an error that means there is no ignore file; a link in its place is ignored.

    Raises:
        Unusable: the ignore file exists, and cannot be read.
        OSError: the process can open no more files.
    """
    check_exhausted(error)
    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
        raise Unusable(f"{path} {UNREADABLE}")


def exclude_file(git: str) -> str:
    """Return the path of info/exclude for a ``.git``, which is a directory, or a file that names one (gitdir)."""
    directory = git
    try:
        if os.path.isfile(git):
            named = read_file(os.open(git, FILE))[:4096].decode("utf-8", "surrogateescape")
            directory = os.path.join(os.path.dirname(git), named.removeprefix("gitdir:").strip())
        common = read_file(os.open(os.path.join(directory, "commondir"), FILE))[:4096]
        directory = os.path.join(directory, common.decode("utf-8", "surrogateescape").strip())
    except (OSError, ValueError):  # the latter for a NUL in a name
        pass
    return os.path.join(directory, "info", "exclude")


def fingerprint(info: os.stat_result) -> Key:
    return info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size
