"""Outline of a text: the lines above some lines that make them readable.

Of Markdown, these are the headings; of code, the lines of the class and the function around it; of a table, its header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from carrel.search.passages import MARKUP, PROSE

__all__ = ["Outline"]

TABLES = ("text/csv", "text/tab-separated-values")
#: Lines above that are looked at, and lines that are shown.
MAX_LOOKED_AT, MAX_SHOWN = 2000, 3
_HEADING = re.compile(r"(#{1,6})[ \t]+\S")
_FENCE = re.compile(r"[ \t]*(`{3}|~{3})")
_DEFINITION = re.compile(
    r"[ \t]*(?:[\w()]+[ \t]+)*?"
    r"(?:def|class|func|fn|function\*?|fun|impl|struct|enum|trait|interface|type|module|namespace|object)[ \t]+[\w$(]"
)


class Outline:
    """Outline of the lines of a resource, by their numbers from 1."""

    def __init__(self, lines: Mapping[int, str], mime_type: str | None, uri: str) -> None:
        self._lines = lines
        kind = (mime_type or "").lower().partition(";")[0]
        self._is_table = kind in TABLES
        self._is_markup = kind in MARKUP or (not kind and uri.endswith(".md"))
        self._is_code = not self._is_markup and kind not in (*PROSE, *TABLES, "")
        self._headings = self._find_headings() if self._is_markup else {}

    def above(self, first: int) -> list[int]:
        """Return the numbers of the lines above a line that make it readable, in order."""
        if self._is_table:
            return [1] if first > 1 else []
        if self._is_markup:
            return (self._headings_above(first) + self._table_header(first))[-MAX_SHOWN - 2 :]
        return self._definitions_above(first)[-MAX_SHOWN:] if self._is_code else []

    def _find_headings(self) -> dict[int, int]:
        """Return the levels of the headings by their lines."""
        found: dict[int, int] = {}
        fence = ""
        for number, line in self._lines.items():
            if (mark := _FENCE.match(line)) is not None:
                fence = "" if fence == mark[1] else fence or mark[1]
            elif not fence and (heading := _HEADING.match(line)) is not None:
                found[number] = len(heading[1])
        return found

    def _headings_above(self, first: int) -> list[int]:
        level = self._headings.get(first, 7)
        found: list[int] = []
        for number in reversed([number for number in self._headings if number < first]):
            if self._headings[number] < level:
                level = self._headings[number]
                found.insert(0, number)
        return found[-MAX_SHOWN:]

    def _table_header(self, first: int) -> list[int]:
        def is_row(number: int) -> bool:
            return self._lines.get(number, "").lstrip().startswith("|")

        if not (is_row(first) and is_row(first - 1)):
            return []
        top = first
        while top > max(1, first - MAX_LOOKED_AT) and is_row(top - 1):
            top -= 1
        return [number for number in (top, top + 1) if number < first]

    def _definitions_above(self, first: int) -> list[int]:
        level = _indent(self._lines.get(first, ""))
        found: list[int] = []
        for number in range(first - 1, max(0, first - MAX_LOOKED_AT), -1):
            line = self._lines.get(number, "")
            if not level:
                break
            if line.strip() and _indent(line) < level:
                level = _indent(line)
                if _DEFINITION.match(line) is not None:
                    found.insert(0, number)
        return found


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
