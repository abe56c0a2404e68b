"""Text from a peer made safe to show: in a log, on a terminal, in a message of an exception.

A name or an error of a peer may hold a line break that forges a log record, an escape sequence that drives a terminal,
or a control that turns the direction of text round, and it may be as long as a message.
"""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["Log", "printable", "printable_lines"]

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


class Log:
    """The logger of a name, which shows arguments of messages by ``printable``; numbers stay numbers.

    Nothing is converted for a level that is not logged. Text from a peer is an argument, never part of the format.
    ``longest`` is the number of characters that are shown of one argument.
    """

    __slots__ = ("_logger", "_longest")

    def __init__(self, name: str, longest: int = 1000) -> None:
        self._logger = logging.getLogger(name)
        self._longest = longest

    def _log(self, level: int, message: str, arguments: tuple[object, ...], exc_info: Any = None) -> None:
        if self._logger.isEnabledFor(level):
            shown = (each if isinstance(each, int | float) else printable(each, self._longest) for each in arguments)
            self._logger.log(level, message, *shown, exc_info=exc_info, stacklevel=3)

    def debug(self, message: str, *arguments: object, exc_info: Any = None) -> None:
        """Log what helps to find an error."""
        self._log(logging.DEBUG, message, arguments, exc_info)

    def info(self, message: str, *arguments: object) -> None:
        """Log what is as it should be."""
        self._log(logging.INFO, message, arguments)

    def warning(self, message: str, *arguments: object) -> None:
        """Log what may be wrong."""
        self._log(logging.WARNING, message, arguments)

    def error(self, message: str, *arguments: object, exc_info: Any = None) -> None:
        """Log what has failed."""
        self._log(logging.ERROR, message, arguments, exc_info)

    def exception(self, message: str, *arguments: object) -> None:
        """Log what has failed, with the exception that is being handled."""
        self._log(logging.ERROR, message, arguments, exc_info=True)
