"""Logging in which text from a peer cannot forge records or drive a terminal."""

from __future__ import annotations

import logging
from typing import Any

from carrel.printable import printable

__all__ = ["Log"]


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
