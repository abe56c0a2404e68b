"""Document: the return type and the failures of the formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from carrel.sources.documents.messages import Failure

__all__ = ["DocumentFailed", "OpenDocument", "cell", "sectioned", "sections_of", "table"]

#: Characters of a section of a document that has no pages.
SECTION = 4000
_FENCE = re.compile(r"(`{3,}|~{3,})")


class OpenDocument(NamedTuple):
    """Open document: the number of pages, and a function that returns a page as Markdown, counted from 1."""

    pages: int
    page: Callable[[int], str]
    facts: dict[str, str | int | float] | None = None


class DocumentFailed(Exception):
    """The document has no text; ``failure`` is the reason, with a ``detail``."""

    def __init__(self, failure: Failure, detail: str = "") -> None:
        super().__init__(failure)
        self.failure: Failure = failure
        self.detail = detail


def sectioned(text: str) -> OpenDocument:
    """Return the document of a text without pages: its pages are its sections."""
    text = text.strip("\n") + "\n"
    sections = sections_of(text)
    return OpenDocument(len(sections), lambda number: sections[number - 1])


def sections_of(text: str) -> list[str]:
    """Cut Markdown into sections of about 4,000 characters; together they are the text.

    A section begins at a heading where there is one, else after a blank line, and never within fenced code unless that
    is very long.
    """
    found: list[str] = []
    begin = position = 0
    fence = ""
    blank = True
    for line in text.splitlines(keepends=True):
        size = position - begin
        is_heading = blank and not fence and line.startswith("#")
        if size and (
            (is_heading and size >= SECTION // 2) or (blank and not fence and size >= SECTION) or size >= SECTION * 4
        ):
            found.append(text[begin:position])
            begin = position
        marked = _FENCE.match(line)
        if marked is not None and (not fence or marked[1].startswith(fence)):
            fence = "" if fence else marked[1]
        blank = not line.strip()
        position += len(line)
    return [*found, text[begin:]]


def cell(text: str) -> str:
    """Return text as the cell of a table in Markdown."""
    return " ".join(text.replace("|", "\\|").split())


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a table in Markdown, the first row as its head."""
    if not rows:
        return ""
    width = max(map(len, rows))
    lines = ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines) + "\n"
