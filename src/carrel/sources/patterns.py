"""The patterns of .gitignore: what they say about a path, as git understands them, in time linear in the path.

Patterns come with the files that are shared, so they may be hostile, and a regular expression that goes back and forth
between ten asterisks would take hours for one name. The ones here never do: after an asterisk the first place where
what follows fits is as good as any other, and an atomic group keeps to it. One thing differs from git: a character is a
character here, and a byte of UTF-8 there.

https://git-scm.com/docs/gitignore#_pattern_format
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import TypeAlias

__all__ = ["Patterns"]

# Where the file system takes one spelling for another, git does too.
FLAGS = re.DOTALL | (re.IGNORECASE if sys.platform in ("darwin", "win32") else 0)

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

Pattern: TypeAlias = tuple[Callable[[str], re.Match[str] | None], bool, bool, bool]
"""What matches, what to say then (no, for a ``!``), whether to look at the path or only at the name, and whether the
pattern is about directories only."""

STAR = "[^/]*"
DEEPER = "(?:[^/]+/)*"


class Malformed(ValueError):
    """A pattern that git takes as one that matches nothing."""


class Patterns:
    """Patterns in the order in which they were written. The last one that matches decides.

    They are about one file or directory, not about what is in it: ask about the directories on the way first.
    """

    __slots__ = ("_patterns",)

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [pattern for line in lines if (pattern := read_pattern(line)) is not None][::-1]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def decide(self, path: str, is_directory: bool) -> bool | None:
        """Say whether a path, from where the patterns hold, is matched; None if no pattern says anything about it."""
        name = path[path.rfind("/") + 1 :]
        for match, verdict, in_full, directories_only in self._patterns:
            if (is_directory or not directories_only) and match(path if in_full else name) is not None:
                return verdict
        return None

    def cover(self, path: str) -> bool:
        """Say whether a file, or a directory that it is in, is matched."""
        end = path.find("/")
        while end >= 0:
            if self.decide(path[:end], True):
                return True
            end = path.find("/", end + 1)
        return self.decide(path, False) is True


def read_pattern(line: str) -> Pattern | None:
    """Read one line. None if there is no pattern in it, or one that cannot match."""
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
    try:
        expression = translate_path(line.removeprefix("/")) if in_full else translate_name(line)
    except Malformed:
        return None
    return (re.compile(expression, FLAGS).fullmatch, verdict, in_full, directories_only) if line else None


def is_escaped(line: str, index: int) -> bool:
    """Say whether the character at an index has an odd number of backslashes before it."""
    before = line[:index]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def translate_path(pattern: str) -> str:
    """Translate a pattern with slashes; ``**`` between them is any number of directories."""
    chunks: list[list[str]] = [[]]
    for name in pattern.split("/"):
        if len(name) > 1 and not name.strip("*"):
            chunks.append([])
        else:
            chunks[-1].append(translate_name(name))
    if len(chunks) == 1:
        return "/".join(chunks[0])
    first, *middle, last = ("/".join(chunk) for chunk in chunks)
    # At the end ``**`` is everything that is inside; before that, directories, of which there may be none.
    expression = f"{first}/" if first else ""
    expression += "".join(f"(?>{DEEPER}?{chunk}/)" for chunk in middle if chunk)
    return expression + (DEEPER + last if last else ".+")


def translate_name(pattern: str) -> str:
    """Translate a pattern without slashes.

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
                raise Malformed
            chunks[-1] += re.escape(pattern[index])
            index += 1
        else:
            chunks[-1] += re.escape(character)
    if len(chunks) == 1:
        return chunks[0]
    first, *middle, last = chunks
    return first + "".join(f"(?>{STAR}?{chunk})" for chunk in middle) + STAR + last


def translate_class(pattern: str, index: int) -> tuple[str, int]:
    """Translate what is in brackets from ``index`` on, and return it with the index after it.

    Raises:
        Malformed: the bracket is not closed, or names a class that there is not.
    """
    negated = pattern[index : index + 1] in ("!", "^")
    index += negated
    members = ""
    start = index
    while True:
        if index >= len(pattern):
            raise Malformed
        if pattern[index] == "]" and index > start:
            break
        if pattern.startswith("[:", index) and (end := pattern.find(":]", index)) > 0:
            if pattern[index + 2 : end] not in CLASSES:
                raise Malformed
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
            raise Malformed
    return pattern[index], index + 1
