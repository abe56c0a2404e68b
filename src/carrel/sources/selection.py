"""Which of the files under a root are shared: one decision for listing, reading, completing, searching and watching.

Left out unless asked for: names that begin with a dot, and what .gitignore files and .git/info/exclude leave out.
Always left out: ``.git`` itself, what ``exclude`` matches, files that ``include`` does not match, and names with a
backslash, which have no URI. Patterns are those of .gitignore: ``*.md`` is anywhere, ``/notes`` or ``docs/**`` at the
root, ``build/`` a directory.
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH113, PTH116, PTH118, PTH120, PTH123

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from carrel.sources.patterns import Patterns
from carrel.sources.root import Parts, Place

__all__ = ["IGNORE_FILE", "Passage", "Rule", "Selection"]

IGNORE_FILE = ".gitignore"
MAX_IGNORE_FILE = 1_048_576  # bytes
MAX_KEPT = 512  # ignore files whose patterns are kept

Key: TypeAlias = tuple[int, int, int, int]


class Rule(NamedTuple):
    """The patterns of one ignore file: of the directory ``depth`` names below the root, or ``prefix`` above it."""

    depth: int
    prefix: str
    patterns: Patterns


class Selection:
    """What is shared of a root. ``include`` and ``exclude`` are patterns as in .gitignore."""

    def __init__(
        self,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        *,
        hidden: bool = False,
        gitignore: bool = True,
    ) -> None:
        self.include = Patterns(include)
        self.exclude = Patterns(exclude)
        self.hidden = hidden
        self.gitignore = gitignore
        self._above: list[tuple[str, str]] = []  # ignore files above the root, and the root as seen from them
        self._kept: dict[str | Key, tuple[Key, Patterns | None]] = {}

    def look_above(self, path: str) -> None:
        """Take note of the ignore files of the git repository that the root is in, if it is in one."""
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
        """Say whether a name alone is no reason to leave something out."""
        if name[0] == ".":
            return self.hidden and name.lower() != ".git"
        return "\\" not in name

    def passage(self) -> Passage:
        """Return what decides on one walk down from the root."""
        rules: tuple[Rule, ...] = ()
        for path, prefix in self._above:
            patterns = self._patterns_above(path)
            if patterns is not None:
                rules = (*rules, Rule(0, prefix, patterns))
        return Passage(self, rules)

    def patterns_in(self, place: Place) -> Patterns | None:
        """Return the patterns of the .gitignore in a directory, read again only if it has changed."""
        if not self.gitignore:
            return None
        try:
            info = place.stat(IGNORE_FILE)
            if not stat.S_ISREG(info.st_mode):  # git does not follow a link here either
                return None
            key = fingerprint(info)
            kept = self._kept.get(key)
            if kept is not None:
                return kept[1]
            descriptor = place.open(IGNORE_FILE)
        except OSError:
            return None
        return self._keep(key, key, read_patterns(descriptor))

    def _patterns_above(self, path: str) -> Patterns | None:
        try:
            key = fingerprint(os.stat(path))
            kept = self._kept.get(path)
            if kept is not None and kept[0] == key:
                return kept[1]
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            return None
        return self._keep(path, key, read_patterns(descriptor))

    def _keep(self, name: str | Key, key: Key, patterns: Patterns | None) -> Patterns | None:
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[name] = key, patterns
        return patterns


class Passage:
    """One walk down from the root, and the ignore files met on it."""

    __slots__ = ("_parts", "_rules", "_selection")

    def __init__(self, selection: Selection, rules: tuple[Rule, ...]) -> None:
        self._selection = selection
        self._rules = rules
        self._parts: Parts = ()

    def enter(self, place: Place, parts: Parts) -> None:
        """Take note that the walk is in a directory now."""
        self._parts = parts
        patterns = self._selection.patterns_in(place)
        if patterns is not None:
            self._rules = (*self._rules, Rule(len(parts), "", patterns))

    @property
    def admits_all(self) -> bool:
        """Whether there is nothing to decide by but names."""
        selection = self._selection
        return not (self._rules or selection.exclude or selection.include)

    def admits(self, name: str, is_directory: bool) -> bool:
        """Say whether a name in the directory of the walk is shared."""
        if not self._selection.admits_name(name):
            return False
        if self.admits_all:
            return True
        include = self._selection.include
        if include and not is_directory and not include.cover("/".join((*self._parts, name))):
            return False
        return self._admits(name, is_directory)

    def admits_link(self, name: str) -> bool:
        """Say whether a link in the directory of the walk is shared, if what it leads to is."""
        return self._selection.admits_name(name) and (self.admits_all or self._admits(name, False))

    def _admits(self, name: str, is_directory: bool) -> bool:
        parts = (*self._parts, name)
        path = "/".join(parts)
        if self._selection.exclude.decide(path, is_directory):
            return False
        for rule in reversed(self._rules):
            inside = "/".join(parts[rule.depth :]) if rule.depth else rule.prefix + path
            ignored = rule.patterns.decide(inside, is_directory)
            if ignored is not None:
                return not ignored
        return True


def read_patterns(descriptor: int) -> Patterns | None:
    """Read an ignore file, and close it. None if it has no patterns."""
    with open(descriptor, "rb") as file:
        data = file.read(MAX_IGNORE_FILE)
    return Patterns(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n")) or None


def exclude_file(git: str) -> str:
    """Return the info/exclude of a repository whose ``.git`` this is: a directory, or a file that names one."""
    directory = git
    try:
        if os.path.isfile(git):
            with open(git, encoding="utf-8", errors="surrogateescape") as file:
                directory = os.path.join(os.path.dirname(git), file.read(4096).removeprefix("gitdir:").strip())
            with open(os.path.join(directory, "commondir"), encoding="utf-8", errors="surrogateescape") as file:
                directory = os.path.join(directory, file.read(4096).strip())
    except OSError:
        pass
    return os.path.join(directory, "info", "exclude")


def fingerprint(info: os.stat_result) -> Key:
    return info.st_dev, info.st_ino, info.st_mtime_ns, info.st_size
