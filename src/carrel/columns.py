"""Columns of text on a terminal: the width of characters, cutting, and tables that fit."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import category, east_asian_width

__all__ = ["aligned", "truncate", "width_of"]

#: Width to which a column is filled at most where there is no terminal, and at least on a narrow one.
WIDE = 100
NARROW = 12


def width_of(text: str) -> int:
    """Return how many columns a line takes: two for a wide character (CJK, emoji), none for a combining accent."""
    return len(text) if text.isascii() else sum(map(_width_of, text))


def _width_of(letter: str) -> int:
    if east_asian_width(letter) in "WF":
        return 2
    return 0 if category(letter) in ("Mn", "Me") else 1


def truncate(text: str, width: int) -> str:
    """Return a line of at most ``width`` columns; end it with an ellipsis if it is truncated."""
    if width_of(text) <= width:
        return text
    room, end = width - 1, 0
    for letter in text:
        room -= _width_of(letter)
        if room < 0:
            break
        end += 1
    return f"{text[:end]}…"


def aligned(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return the lines of a table, of at most ``width`` columns; without it, each row is one line of any length.

    If the rows do not fit, the widest column but the last becomes narrower, a longer cell of it gets a separate line
    (so that a URI can be copied), and the last column is truncated.
    """
    if not rows:
        return []
    *sizes, last = (max(map(width_of, column)) for column in zip(*rows, strict=True))
    if width is None:
        sizes = [min(size, WIDE) for size in sizes]
    elif sizes:
        over = sum(sizes) + 2 * len(sizes) + min(last, width // 4) - width
        widest = sizes.index(max(sizes))
        sizes[widest] = min(sizes[widest], max(NARROW, sizes[widest] - over))
    return [line for row in rows for line in _lines_of(row, sizes, width)]


def _lines_of(row: Sequence[str], sizes: Sequence[int], width: int | None) -> list[str]:
    lines, line, end = [], "", 0
    for cell, size in zip(row[:-1], sizes, strict=True):
        line += " " * (end - width_of(line)) + cell
        end += size
        if width is None:
            end = max(end, width_of(line))
        elif width_of(line) > end:
            lines.append(line.rstrip())
            line = ""
        end += 2
    if width is not None and lines and not line:  # below a cell with a separate line, there is room before it
        end = min(end, max(4, width - width_of(row[-1])))
    line += " " * (end - width_of(line)) + row[-1]
    return [*lines, (line if width is None else truncate(line, width)).rstrip()] if line.strip() or not lines else lines
