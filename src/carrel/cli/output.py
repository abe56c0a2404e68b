"""Output of the commands that ask a server: text, JSON and tables on standard output."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import msgspec

from carrel.columns import aligned, width_of
from carrel.printable import printable

__all__ = ["bold", "duration", "table", "wrapped", "write_json", "write_text"]


def write_text(text: str, *, escape: bool = True) -> None:
    """Print text of a server. On a terminal, its control characters are escaped; in a pipe or a file, nothing is."""
    if escape and sys.stdout.isatty():
        text = "\n".join(printable(line.replace("\t", "    "), len(line) + 1) for line in text.splitlines())
    data = text if not text or text.endswith("\n") else f"{text}\n"
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(data.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def write_json(value: Any) -> None:
    """Print a value as indented JSON, as it is on the wire."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    write_text(text)


def table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Return rows as columns under a title, as wide as the terminal; an empty text without rows."""
    width = shutil.get_terminal_size().columns - 2 if sys.stdout.isatty() else None
    return "\n".join([bold(title), *(f"  {line}" for line in aligned(rows, width))]) if rows else ""


def wrapped(text: str, indent: str = "", later: str | None = None) -> list[str]:
    """Return a text as lines, broken between words at the width of the terminal; one line where there is none.

    ``later`` is the indent of all lines but the first, if it is another one.
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
    """Return a time for people: 1.50 s, 0.2 ms."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def bold(text: str) -> str:
    """Return a text in bold, where the output is a terminal that has it."""
    return (
        f"\x1b[1m{text}\x1b[0m"
        if sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        else text
    )
