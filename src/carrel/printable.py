"""Text from a peer made safe to show: in a log, on a terminal, in a message of an exception.

A name or an error of a peer may hold a line break that forges a log record, an escape sequence that drives a terminal,
or a control that turns the direction of text round, and it may be as long as a message.
"""

from __future__ import annotations

__all__ = ["printable", "printable_lines"]

#: Characters of text from a peer that are shown.
MAX_SHOWN = 300
#: Lines of text that may have several.
MAX_LINES = 100


def printable(value: object, longest: int = MAX_SHOWN) -> str:
    r"""Return ``value`` as one line of about ``longest`` characters at most, without controls.

    Line breaks, escape sequences, bidirectional controls, characters of no width and lone surrogates become escapes
    such as ``\n`` and ``\u202e``. Of what is too long the middle is left out: reasons often come last.
    """
    text = value if isinstance(value, str) else str(value)
    if len(text) > longest:
        text = f"{text[: longest * 2 // 3]} … {text[-(longest // 3) :]}"
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def printable_lines(text: str, longest: int = MAX_SHOWN) -> str:
    """Return text of several lines, each one shown by ``printable``, and no more than the last ones."""
    return "\n".join(printable(line, longest) for line in text.split("\n")[-MAX_LINES:])
