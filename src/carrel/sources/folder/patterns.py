"""Matching of .gitignore patterns with git's semantics, in time linear in the path.

Patterns come with the files that are shared, so they may be hostile, and a regular expression that backtracks between
ten asterisks would take hours for one name. The expressions here do not backtrack: after an asterisk, the first match
of the rest is as good as any other, so an atomic group is used. The only difference from git: a character is a Unicode
character, while git matches bytes of UTF-8.

https://git-scm.com/docs/gitignore#_pattern_format
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from operator import methodcaller
from typing import NamedTuple

from carrel.errors import ConfigError

__all__ = ["MAX_WEIGHT", "WEIGHT", "Malformed", "Patterns", "TooMany", "check_glob", "read_globs", "read_lines"]

# On case-insensitive file systems, git ignores case too.
LOOSE = sys.platform in ("darwin", "win32")
FLAGS = re.DOTALL | (re.IGNORECASE if LOOSE else 0)

CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r"\ \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\t-\r\ ",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}

STAR = "[^/]*"
DEEPER = "(?:[^/]+/)*"
MAGIC = frozenset("*?[\\")

# Weight of patterns: expressions take time to compile, and memory.
WEIGHT = 25
MAX_WEIGHT = 10_000
# Cost of patterns, in microseconds.
COMPILE = 250.0
MATCH = 0.3
SEARCH = 0.5
BACKWARDS = 0.003  # for each character of an expression with an asterisk, times each of the text to match


class Malformed(ValueError):
    """A pattern is not valid; the message is the reason."""


class TooMany(ValueError):
    """The patterns exceed the limit on their weight."""


class Expression(NamedTuple):
    """A regular expression that is compiled on first use."""

    text: str


class GlobPattern(NamedTuple):
    """One pattern: its verdict, whether it matches the path or only the name, and whether it matches directories only.

    ``test`` is a literal name or path, a predicate, or a regular expression.
    """

    verdict: bool
    in_full: bool
    directories_only: bool
    test: str | Callable[[str], object] | Expression
    weight: int
    cost: float = 0.0
    slope: float = 0.0


class Patterns:
    """Ordered list of patterns. The last matching pattern decides.

    Patterns match one file or directory, not the entries inside it: check its parent directories first.
    ``weight`` counts them; a pattern with ``?``, brackets or more than one asterisk counts as many.

    Raises:
        TooMany: their weight exceeds ``MAX_WEIGHT``.
    """

    __slots__ = ("_compiling", "_cost", "_others", "_slope", "_spelled", "_tests", "weight")

    def __init__(self, patterns: Iterable[GlobPattern]) -> None:
        # Literal patterns, for any kind and for directories only: names, and paths with a leading slash.
        self._spelled: tuple[dict[str, tuple[int, bool]], dict[str, tuple[int, bool]]] = {}, {}
        self._others: list[tuple[int, GlobPattern]] = []
        self._tests: list[tuple[int, Callable[[str], object], bool, bool, bool]] | None = None
        self._cost = self._slope = self._compiling = 0.0
        self.weight = 0
        for index, pattern in enumerate(patterns):
            self.weight += pattern.weight
            if self.weight > MAX_WEIGHT:
                raise TooMany
            if isinstance(pattern.test, str):
                key = "/" + pattern.test if pattern.in_full else pattern.test
                self._spelled[pattern.directories_only][key] = index, pattern.verdict
            else:
                self._others.append((index, pattern))
                self._cost += pattern.cost
                self._slope += pattern.slope
                self._compiling += COMPILE * isinstance(pattern.test, Expression)
        self._others.reverse()

    def __bool__(self) -> bool:
        return self.weight > 0

    def decide(self, path: str, is_directory: bool) -> bool | None:
        """Return the verdict on a path, relative to where the patterns apply; None if no pattern matches it."""
        path = path.lower() if LOOSE else path
        name = path[path.rfind("/") + 1 :]
        last, verdict = -1, None
        for spelled in self._spelled[: 1 + is_directory]:
            if spelled:
                for key in (name, "/" + path):
                    found = spelled.get(key)
                    if found is not None and found[0] > last:
                        last, verdict = found
        tests = self._compile() if self._tests is None else self._tests
        for index, test, says, in_full, directories_only in tests:
            if index < last:
                break
            if (is_directory or not directories_only) and test(path if in_full else name):
                return says
        return verdict

    def _compile(self) -> list[tuple[int, Callable[[str], object], bool, bool, bool]]:
        tests = []
        for index, (verdict, in_full, directories_only, test, *_) in self._others:
            if isinstance(test, Expression):
                test = re.compile(test.text, FLAGS).fullmatch
            assert not isinstance(test, str)
            tests.append((index, test, verdict, in_full, directories_only))
        self._tests = tests  # two threads may do this at once, with the same result
        return tests

    def cover(self, path: str) -> bool:
        """Return whether a file, or one of its parent directories, is matched."""
        end = path.find("/")
        while end >= 0:
            if self.decide(path[:end], True):
                return True
            end = path.find("/", end + 1)
        return self.decide(path, False) is True

    def cost(self, length: int) -> float:
        """Return the approximate maximum cost, in microseconds, of matching a path of this length."""
        compiling, self._compiling = self._compiling, 0.0
        return MATCH + self._cost + self._slope * length + compiling


def read_lines(lines: Iterable[str]) -> Patterns:
    """Parse the lines of an ignore file. Skip the lines that git skips.

    Raises:
        TooMany: they exceed the limit on patterns.
    """

    def read() -> Iterator[GlobPattern]:
        for line in lines:
            try:
                pattern = read_pattern(line)
            except Malformed:
                continue
            if pattern is not None:
                yield pattern

    return Patterns(read())


def read_globs(option: str, globs: Iterable[str]) -> Patterns:
    """Parse patterns given by the author of a server as ``option``.

    Raises:
        ConfigError: a pattern is not valid, or cannot match a file that could be shared, or there are too many
            patterns.
    """
    if isinstance(globs, str | bytes):
        raise ConfigError(f"{option} is a list of patterns, not one: [{globs!r}]")
    globs = list(globs)
    for glob in globs:
        try:
            check_glob(glob)
        except Malformed as problem:
            raise ConfigError(f"{option} {glob!r} {problem}") from None
    try:
        return read_lines(globs)
    except TooMany:
        raise ConfigError(f"{option} has too many patterns") from None


def check_glob(glob: str) -> None:
    """Check that a pattern given by the author of a server is valid and can match something.

    Invalid lines of ignore files are skipped, as git does. Here, a skipped pattern would share files that were meant to
    be excluded, or all files.

    Raises:
        Malformed: the pattern is not valid, or cannot match.
    """
    if not isinstance(glob, str):
        raise Malformed("is not text")
    if not glob.strip():
        raise Malformed("is empty")
    if glob[0].isspace():
        raise Malformed("begins with a blank; write a backslash before it if it is part of the name")
    if glob.startswith("#"):
        raise Malformed(r"is a comment; write \# for a name that begins with #")
    if glob.startswith("!"):
        raise Malformed(r"cannot negate another pattern; write \! for a name that begins with !")
    if any(character in glob for character in "\n\r\0"):
        raise Malformed("has a line break or a NUL in it; give each pattern by itself")
    escaped = ESCAPE.search(glob)
    if escaped is not None:
        raise Malformed(f"has a backslash before {escaped[1]!r}; names in a path are separated by slashes")
    names = glob.rstrip(" ").removeprefix("/").removesuffix("/").split("/")
    if not all(name.strip() for name in names):
        raise Malformed("has no name before or after a slash")
    if any(name in (".", "..") for name in names):
        raise Malformed("has a . or .. segment, and matches nothing; patterns are relative to the shared folder")
    if read_pattern(glob) is None:
        raise Malformed("is no pattern")


ESCAPE = re.compile(r"(?s)\\([^\\*?\[\]!#^ -])")


def read_pattern(line: str) -> GlobPattern | None:
    """Parse one line. Return None if the line contains no pattern.

    Raises:
        Malformed: the pattern is not valid.
    """
    line = line.removesuffix("\r")
    if line.startswith("#"):
        return None
    while line.endswith(" ") and not is_escaped(line, len(line) - 1):
        line = line[:-1]
    verdict = not line.startswith("!")
    line = line.removeprefix("!")
    directories_only = line.endswith("/")
    line = line.removesuffix("/")
    in_full = "/" in line
    if not line:
        return None
    line = line.removeprefix("/") if in_full else line
    weight = 1 + len(line) // 64
    folded = line.lower() if LOOSE else line
    if MAGIC.isdisjoint(line):
        return GlobPattern(verdict, in_full, directories_only, folded, weight)
    begin, star, end = folded.partition("*")
    if star and MAGIC.isdisjoint(begin) and MAGIC.isdisjoint(end):
        return GlobPattern(verdict, in_full, directories_only, around(begin, end, in_full), weight, cost=MATCH)
    expression = Expression(translate_path(line) if in_full else translate_name(line))
    slope = BACKWARDS * len(line) if star else 0.0
    weight = WEIGHT + len(line) // 4
    return GlobPattern(verdict, in_full, directories_only, expression, weight, cost=SEARCH, slope=slope)


def around(begin: str, end: str, in_full: bool) -> Callable[[str], object]:
    """Return a predicate for a pattern with one asterisk."""
    if not begin and not in_full:
        return methodcaller("endswith", end)
    length = len(begin) + len(end)

    def matches(text: str) -> bool:
        return (
            text.startswith(begin)
            and text.endswith(end)
            and len(text) >= length
            and "/" not in text[len(begin) : len(text) - len(end)]
        )

    return matches


def is_escaped(line: str, index: int) -> bool:
    """Return whether the character at an index has an odd number of backslashes before it."""
    before = line[:index]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def translate_path(pattern: str) -> str:
    """Translate a pattern with slashes into a regular expression; ``**`` between them is any number of directories."""
    chunks: list[list[str]] = [[]]
    for name in pattern.split("/"):
        if len(name) > 1 and not name.strip("*"):
            chunks.append([])
        else:
            chunks[-1].append(translate_name(name))
    if len(chunks) == 1:
        return "/".join(chunks[0])
    first, *middle, last = ("/".join(chunk) for chunk in chunks)
    # At the end ``**`` matches everything inside; elsewhere, zero or more directories.
    expression = f"{first}/" if first else ""
    expression += "".join(f"(?>{DEEPER}?{chunk}/)" for chunk in middle if chunk)
    return expression + (DEEPER + last if last else ".+")


def translate_name(pattern: str) -> str:
    """Translate a pattern without slashes into a regular expression.

    Raises:
        Malformed: it cannot match anything.
    """
    chunks = [""]
    index = 0
    while index < len(pattern):
        character = pattern[index]
        index += 1
        if character == "*":
            chunks.append("")
            while pattern.startswith("*", index):  # several are as good as one
                index += 1
        elif character == "?":
            chunks[-1] += "[^/]"
        elif character == "[":
            translated, index = translate_class(pattern, index)
            chunks[-1] += translated
        elif character == "\\":
            if index == len(pattern):
                raise Malformed("ends with a backslash")
            chunks[-1] += re.escape(pattern[index])
            index += 1
        else:
            chunks[-1] += re.escape(character)
    if len(chunks) == 1:
        return chunks[0]
    first, *middle, last = chunks
    return first + "".join(f"(?>{STAR}?{chunk})" for chunk in middle) + STAR + last


def translate_class(pattern: str, index: int) -> tuple[str, int]:
    """Translate a bracket expression whose contents begin at ``index``, and return it with the index after it.

    Raises:
        Malformed: the bracket is not closed, or names an unknown character class.
    """
    negated = pattern[index : index + 1] in ("!", "^")
    index += negated
    members = ""
    start = index
    while True:
        if index >= len(pattern):
            raise Malformed("has a bracket that is not closed")
        if pattern[index] == "]" and index > start:
            break
        if pattern.startswith("[:", index) and (end := pattern.find(":]", index)) > 0:
            if pattern[index + 2 : end] not in CLASSES:
                raise Malformed(f"has an unknown character class: [:{pattern[index + 2 : end]}:]")
            members += CLASSES[pattern[index + 2 : end]]
            index = end + 2
            continue
        low, index = read_member(pattern, index)
        members += re.escape(low)
        if pattern[index : index + 1] == "-" and pattern[index + 1 : index + 2] not in ("", "]"):
            high, index = read_member(pattern, index + 1)
            if low <= high:
                members += f"{re.escape(low)}-{re.escape(high)}"
    return (f"[^/{members}]" if negated else f"(?!/)[{members}]"), index + 1


def read_member(pattern: str, index: int) -> tuple[str, int]:
    if pattern[index] == "\\":
        index += 1
        if index >= len(pattern):
            raise Malformed("has a bracket that is not closed")
    return pattern[index], index + 1
