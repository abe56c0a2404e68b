"""Failures of statements, with messages that clients may see: without values, users and passwords."""

from __future__ import annotations

import re
from typing import Any

from carrel.errors import ConfigError, SourceUnavailable
from carrel.printable import printable

__all__ = ["BadValue", "Failed", "Refused", "TookTooLong", "Unreachable", "not_opened", "translate", "unreachable"]

MAX_MESSAGE = 500
#: Messages of the databases for a statement that a limit has ended.
ENDED = re.compile(
    r"statement timeout|interrupt|max_statement_time|maximum statement execution time|query execution was"
    r"|canceling statement|QueryCanceled",
    re.IGNORECASE,
)
#: Errors of MySQL and MariaDB for a wrong user or password; SQL states that begin with 28 say it elsewhere.
LOGIN_REFUSED = (1044, 1045, 1698)


class Failed(Exception):
    """The database reported an error; the text is its message."""


class BadValue(Failed):
    """A value cannot be read as the type of its column."""


class TookTooLong(Failed):
    """The statement was ended at the time limit."""


class Unreachable(Failed):
    """There is no connection to the database. ``reason`` says why, to the operator of the server and not to clients."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class Refused(Exception):
    """The statement is not one that is run; the text says why, and what is possible."""


def not_opened(base: str, failure: Failed) -> ConfigError:
    """Return the error for a database that cannot be opened at the start."""
    message = f"{base} cannot be opened: {failure}"
    if isinstance(failure, Unreachable):
        return SourceUnavailable(f"{message} ({failure.reason})" if failure.reason else message)
    return ConfigError(message)


def unreachable(error: Exception) -> Unreachable:
    """Return the failure for an error of a driver while connecting. Its reason does not name the user."""
    original: Any = getattr(error, "orig", None) or error
    number = next(iter(getattr(original, "args", ())), None)
    refused = str(getattr(original, "sqlstate", None) or "").startswith("28") or number in LOGIN_REFUSED
    reason = "the login is refused" if refused else message_of(original)
    return Unreachable("the database cannot be reached", reason)


def translate(error: Exception, limit: float) -> Failed:
    """Return the failure for an error of SQLAlchemy or a driver; ``limit`` is the time limit in seconds."""
    original: Any = getattr(error, "orig", None) or error
    text = message_of(original)
    kind = f"{type(original).__name__} {type(getattr(original, '__cause__', None)).__name__}"
    if ENDED.search(text) or ENDED.search(kind):
        return TookTooLong(
            f"the statement took longer than {limit:g} seconds, and was ended by the time limit (option time_limit); "
            "ask for less, or by an indexed column"
        )
    if getattr(error, "connection_invalidated", False) or isinstance(original, OSError):
        return Unreachable("the database cannot be reached")
    state = str(getattr(original, "sqlstate", None) or "")
    if type(error).__name__ == "DataError" or state[:2] == "22" or "ConversionException" in kind:
        return BadValue(text)
    return Failed(text)


def message_of(error: Any) -> str:
    """Return the first line of the message of a driver, without the number and the name of its class."""
    arguments: tuple[Any, ...] = getattr(error, "args", ())
    text = str(arguments[1]) if len(arguments) == 2 and isinstance(arguments[0], int) else str(error)
    text = re.sub(r"^<class '[^']*'>: ", "", text)
    return printable(text.strip().partition("\n")[0], MAX_MESSAGE)
