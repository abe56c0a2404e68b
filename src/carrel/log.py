"""Logger that escapes text from peers, so that it cannot forge log records or control a terminal."""

from __future__ import annotations

import logging
from typing import Any

from carrel.printable import printable

__all__ = ["Log"]


class Log:
    """Logger whose message arguments are escaped by ``printable``; numbers stay numbers.

    Nothing is converted for a level that is not logged. Text from a peer is an argument, never part of the format.
    ``longest`` is the maximum number of characters of one argument.
    """

    __slots__ = ("_logger", "_longest")

    def __init__(self, name: str, longest: int = 1000) -> None:
        self._logger = logging.getLogger(name)
        self._longest = longest

    def _log(self, level: int, message: str, arguments: tuple[object, ...], exc_info: Any = None) -> None:
        if self._logger.isEnabledFor(level):
            shown = (each if isinstance(each, int | float) else printable(each, self._longest) for each in arguments)
            self._logger.log(level, message, *shown, exc_info=exc_info, stacklevel=3)

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Log a message at a level of ``logging``."""
        self._log(level, message, arguments)

    def debug(self, message: str, *arguments: object, exc_info: Any = None) -> None:
        """Log a debug message."""
        self._log(logging.DEBUG, message, arguments, exc_info)

    def info(self, message: str, *arguments: object) -> None:
        """Log an informational message."""
        self._log(logging.INFO, message, arguments)

    def warning(self, message: str, *arguments: object) -> None:
        """Log a warning."""
        self._log(logging.WARNING, message, arguments)

    def error(self, message: str, *arguments: object, exc_info: Any = None) -> None:
        """Log an error."""
        self._log(logging.ERROR, message, arguments, exc_info)

    def exception(self, message: str, *arguments: object) -> None:
        """Log an error with the traceback of the current exception."""
        self._log(logging.ERROR, message, arguments, exc_info=True)
