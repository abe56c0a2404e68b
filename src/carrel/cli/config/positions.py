"""Positions of keys in a TOML document: line and column of each table, key and element of a list.

``tomllib`` returns values without positions, but error messages about a configuration file need them. The document has
already been parsed, so the scanner assumes that it is valid:

    [[sources]]               ("sources", 0)                 line 1, column 1
    url = "./docs"            ("sources", 0, "url")          line 2, column 1
    a.b = { c = 1 }           ("sources", 0, "a", "b", "c")  line 3, column 9
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from typing import NamedTuple, TypeAlias

__all__ = ["KeyPath", "Position", "find_positions"]

KeyPath: TypeAlias = tuple[str | int, ...]

# https://toml.io/en/v1.0.0
TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|\#[^\n]*)"
    r'|(?P<text>"""(?:[^"\\]|\\.|"(?!""))*"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\')'
    r"|(?P<mark>[\n\[\]{},=.])"
    r"|(?P<bare>[^\s\[\]{},=.#\"']+)",
    re.DOTALL,
)
END = frozenset("\n,]}")


class Position(NamedTuple):
    """Line and column, from 1."""

    line: int
    column: int


class TomlToken(NamedTuple):
    """Piece of the text and its start position."""

    text: str
    start: int


def find_positions(text: str) -> dict[KeyPath, Position]:
    """Return the position of each table, key and element of a valid TOML document, by its path."""
    scanner = Scanner(text)
    scanner.document()
    newlines = [match.start() for match in re.finditer("\n", text)]
    found: dict[KeyPath, Position] = {}
    for path, start in scanner.starts.items():
        line = bisect_left(newlines, start)
        found[path] = Position(line + 1, start - (newlines[line - 1] if line else -1))
    return found


class Scanner:
    """Recursive-descent scanner that records the start position of each path."""

    def __init__(self, text: str) -> None:
        self.starts: dict[KeyPath, int] = {}
        self._tokens = [TomlToken(match[0], match.start()) for match in TOKEN.finditer(text) if match["space"] is None]
        self._tokens.append(TomlToken("", len(text)))
        self._at = 0
        self._lengths: dict[KeyPath, int] = {}  # of arrays of tables

    @property
    def _next(self) -> str:
        return self._tokens[self._at].text

    def _take(self) -> TomlToken:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def document(self) -> None:
        """Scan the whole document."""
        table: KeyPath = ()
        while self._next:
            if self._next == "\n":
                self._take()
            elif self._next == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> KeyPath:
        """Scan ``[a.b]`` or ``[[a.b]]`` and return the path of the table."""
        start = self._take().start
        is_list = self._next == "["
        if is_list:
            self._take()
        *parents, last = self._key()
        path: KeyPath = ()
        for part in parents:
            path = self._inside((*path, part))
            self.starts.setdefault(path, start)
        path = (*path, last)
        if is_list:
            self.starts.setdefault(path, start)
            self._lengths[path] = self._lengths.get(path, 0) + 1
            path = self._inside(path)
        self.starts[path] = start
        while self._next == "]":
            self._take()
        return path

    def _inside(self, path: KeyPath) -> KeyPath:
        """Append the index of the last table if the path is an array of tables."""
        return (*path, self._lengths[path] - 1) if path in self._lengths else path

    def _key(self) -> list[str]:
        parts = [self._part()]
        while self._next == ".":
            self._take()
            parts.append(self._part())
        return parts

    def _part(self) -> str:
        text = self._take().text
        return str(tomllib.loads(f"key = {text}")["key"]) if text[:1] in ("'", '"') else text

    def _pair(self, table: KeyPath) -> None:
        start = self._tokens[self._at].start
        path = table
        for part in self._key():
            path = (*path, part)
            self.starts.setdefault(path, start)
        self._take()  # the equals sign
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        opened = self._take().text
        if opened not in ("[", "{"):
            while self._next and self._next not in END:
                self._take()
            return
        index = 0
        while self._next not in ("]", "}"):
            if self._next in (",", "\n"):
                self._take()
            elif opened == "{":
                self._pair(path)
            else:
                self.starts[(*path, index)] = self._tokens[self._at].start
                self._value((*path, index))
                index += 1
        self._take()
