"""Texts of servers and models made safe for a terminal: no control character of theirs ever reaches it."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

import msgspec

from carrel.columns import truncate
from carrel.printable import printable

__all__ = ["arguments_line", "characters", "clean", "clean_line", "first_lines", "size_text"]

#: Joins emoji to one; it is invisible by itself, and so are the others.
INVISIBLE = "\u200d\u2060\ufeff\u200b\u200c"


def clean(text: str) -> str:
    """Return a text with its line breaks and without control characters, which become escapes such as ``\\x1b``.

    Spaces of any kind become plain ones, invisible characters are left out.
    """
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    return "".join(letter if letter == "\n" or letter.isprintable() else _safe(letter) for letter in text)


def _safe(letter: str) -> str:
    if letter in INVISIBLE:
        return ""
    return " " if unicodedata.category(letter) == "Zs" else ascii(letter)[1:-1]


def clean_line(text: object, longest: int = 200) -> str:
    """Return a text as one line of at most about ``longest`` characters; see ``clean``."""
    return printable(" ".join(clean(str(text)).split()), longest)


def first_lines(text: str, most: int, width: int) -> list[str]:
    """Return the first lines of a text, none wider than ``width``, and a line that says how many are left out."""
    lines = [line.rstrip() for line in clean(text).split("\n") if line.strip()]
    shown = [truncate(line, width) for line in lines[:most]]
    left = len(lines) - most
    return [*shown, f"… {left:,} more line{'' if left == 1 else 's'}"] if left > 0 else shown


def arguments_line(arguments: Mapping[str, Any], longest: int) -> str:
    """Return the arguments of a tool call in one line: ``query="lamp" limit=5``."""
    parts = [f"{name}={msgspec.json.encode(value).decode()}" for name, value in arguments.items()]
    return clean_line("  ".join(parts), longest)


def characters(count: int) -> str:
    """Return a number of characters for a reader."""
    return f"{count:,} character{'' if count == 1 else 's'}"


def size_text(count: int) -> str:
    """Return a number of bytes for a reader."""
    for unit, size in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
