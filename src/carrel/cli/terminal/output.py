"""Output of the commands that send requests to a server: text, JSON and tables on standard output."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import msgspec

from carrel.columns import aligned, width_of
from carrel.printable import printable, printable_json

__all__ = ["bold", "duration", "table", "wrapped", "write_json", "write_text"]


def write_text(text: str, *, escape: bool = True) -> None:
    """Print text of a server. Control characters are escaped on a terminal, but not in a pipe or a file."""
    if escape and sys.stdout.isatty():
        text = "\n".join(printable(line.replace("\t", "    "), len(line) + 1) for line in text.splitlines())
    data = text if not text or text.endswith("\n") else f"{text}\n"
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(data.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def write_json(value: Any) -> None:
    """Print a value as indented JSON, as it is on the wire."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    if sys.stdout.isatty():
        text = "\n".join(map(printable_json, text.split("\n")))
    write_text(text, escape=False)


def table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Format rows as columns under a title, as wide as the terminal. Without rows, return an empty string.

    Control characters in cells are escaped, so that a row stays on one line.
    """
    width = shutil.get_terminal_size().columns - 2 if sys.stdout.isatty() else None
    rows = [[printable(cell, len(cell)) for cell in row] for row in rows]
    return "\n".join([bold(printable(title)), *(f"  {line}" for line in aligned(rows, width))]) if rows else ""


def wrapped(text: str, indent: str = "", later: str | None = None) -> list[str]:
    """Wrap text at the width of the terminal. Without a terminal, return a single line.

    ``later`` is the indent of all lines except the first, if different.
    """
    if not sys.stdout.isatty():
        return [f"{indent}{text}".rstrip()]
    width = max(40, shutil.get_terminal_size().columns)
    if width_of(text) + len(indent) <= width:
        return [f"{indent}{text}".rstrip()]
    later = indent if later is None else later
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def duration(seconds: float) -> str:
    """Format a time: 1.50 s, 0.2 ms."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def bold(text: str) -> str:
    """Return text in bold if the output is a terminal that supports it."""
    return (
        f"\x1b[1m{text}\x1b[0m"
        if sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        else text
    )
