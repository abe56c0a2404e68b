"""Escaping of untrusted text from peers, for logs, terminals and exception messages.

Text from a peer may contain a line break that forges a log record, an escape sequence that controls a terminal, or a
bidirectional control character, and it may be as long as a message.
"""

from __future__ import annotations

import re

__all__ = ["printable", "printable_json", "printable_lines", "single_line"]

#: Maximum number of characters shown of text from a peer.
MAX_SHOWN = 300
#: Maximum number of lines of multi-line text.
MAX_LINES = 100
#: Control characters, bidirectional controls and lone surrogates.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(value: object, longest: int = MAX_SHOWN) -> str:
    r"""Escape ``value`` to one line of at most about ``longest`` characters, without control characters.

    Line breaks, escape sequences, bidirectional controls, zero-width characters and lone surrogates become escapes
    such as ``\n`` and ``\u202e``. Long text is shortened in the middle, because reasons often come last.
    """
    text = value if isinstance(value, str) else str(value)
    if len(text) > longest:
        text = f"{text[: longest * 2 // 3]} … {text[-(longest // 3) :]}"
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def single_line(text: str, longest: int) -> str:
    """Return the beginning of ``text`` on one line, for a page that people and models read.

    Line breaks become spaces. Control characters, bidirectional controls and lone surrogates become U+FFFD.
    """
    return _CONTROLS.sub("\ufffd", " ".join(text[: longest * 4].split())[:longest])


def printable_lines(text: str, longest: int = MAX_SHOWN) -> str:
    """Escape each line of a text by ``printable``; only the last lines are kept."""
    return "\n".join(printable(line, longest) for line in text.split("\n")[-MAX_LINES:])


def printable_json(text: str) -> str:
    r"""Escape JSON to one line of the same meaning without control characters, all of it.

    Characters that are not printable can only be in strings, where ``\u202e`` has the same meaning, or between values,
    where they are whitespace.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _json_escape(letter) for letter in text)


def _json_escape(letter: str) -> str:
    if letter in "\n\r\t":
        return " "
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
