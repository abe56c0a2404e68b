"""Failures of statements. Their messages may be sent to clients: they contain no values, users or passwords."""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH112

from __future__ import annotations

import os
import re
import socket
from typing import Any

from carrel.errors import ConfigError, SourceUnavailable
from carrel.printable import printable

__all__ = [
    "BadValue",
    "DatabaseFailed",
    "QueryTimeout",
    "StatementRejected",
    "TooMuch",
    "Unreachable",
    "not_opened",
    "translate",
    "unreachable",
    "why_not_a_file",
]

MAX_MESSAGE = 500
#: Database error messages for a statement that exceeded a limit.
ENDED = re.compile(
    r"statement timeout|interrupt|max_statement_time|maximum statement execution time|query execution was"
    r"|canceling statement|QueryCanceled",
    re.IGNORECASE,
)
ANY = re.compile("")
#: Message of SQLite for a column that the authorizer denies.
PROHIBITED = re.compile(r"access to (.+)\.[^.]* is prohibited")
NO_ROLE = re.compile(r"role .* does not exist|parameter \"role\"|invalid role", re.IGNORECASE)
NOT_FROM_HERE = re.compile("pg_hba|no encryption", re.IGNORECASE)
#: SQLSTATE prefixes and error numbers, a pattern of the messages, and the kind of mistake.
CAUSES = (
    (("28", "22023", "0P000", "1959"), NO_ROLE, "the server has no such role: check the user and the option role"),
    (("28000",), NOT_FROM_HERE, "the server accepts no such login from this address (pg_hba.conf)"),
    (("28", "1045", "1698"), ANY, "the server rejected the login: check the user and the password (option password)"),
    (("3D000", "1049"), ANY, "the server has no database of that name"),
    (("42501", "1044", "1142"), ANY, "the user may not use this database: grant the rights to connect and to read"),
)
UNKNOWN_HOST = re.compile(
    r"getaddrinfo|name or service not known|nodename nor servname|failure in name resolution", re.IGNORECASE
)


class DatabaseFailed(Exception):
    """The database reported an error; the text is its message."""


class BadValue(DatabaseFailed):
    """A value cannot be read as the type of its column."""


class QueryTimeout(DatabaseFailed):
    """The statement exceeded the time limit."""


class Unreachable(DatabaseFailed):
    """The database cannot be reached. ``reason`` is for the operator of the server, and is not sent to clients.

    ``is_down`` is true if the server does not respond. Otherwise the address, the login or the file is wrong.
    """

    def __init__(self, message: str, reason: str = "", is_down: bool = True) -> None:
        super().__init__(message, reason, is_down)
        self.reason = reason
        self.is_down = is_down

    def __str__(self) -> str:
        return str(self.args[0])


class TooMuch(Exception):
    """The rows exceed the byte limit. The first ``fitting`` rows are within the limit."""

    def __init__(self, fitting: int) -> None:
        super().__init__(fitting)
        self.fitting = fitting


class StatementRejected(Exception):
    """The statement is rejected. The message gives the reason and the alternatives."""


def not_opened(base: str, failure: DatabaseFailed) -> ConfigError:
    """Return the error for a database that cannot be opened at the start."""
    if not isinstance(failure, Unreachable):
        return ConfigError(f"{base} cannot be opened: {failure}")
    reason = f"{failure} ({failure.reason})" if failure.is_down and failure.reason else failure.reason or str(failure)
    return SourceUnavailable(f"{base} cannot be opened: {reason}", is_down=failure.is_down)


def unreachable(error: Exception) -> Unreachable:
    """Return the failure for a driver error while connecting. Its reason does not contain the user name."""
    original: Any = getattr(error, "orig", None) or error
    number = next(iter(getattr(original, "args", ())), None)
    found = (str(getattr(original, "sqlstate", None)), str(number))
    text = message_of(original)
    for codes, words, reason in CAUSES:
        if words.search(text) and any(code.startswith(codes) for code in found):
            return Unreachable("the database cannot be reached", reason, is_down=False)
    if isinstance(original, socket.gaierror) or UNKNOWN_HOST.search(text):
        return Unreachable("the database cannot be reached", "the host of the URL has no address", is_down=False)
    return Unreachable("the database cannot be reached", text)


def translate(error: Exception, limit: float) -> DatabaseFailed:
    """Return the failure for an error of SQLAlchemy or a driver; ``limit`` is the time limit in seconds."""
    original: Any = getattr(error, "orig", None) or error
    text = message_of(original)
    if hidden := PROHIBITED.search(text):
        return DatabaseFailed(f"there is no shared table {hidden[1]}")
    kind = f"{type(original).__name__} {type(getattr(original, '__cause__', None)).__name__}"
    if ENDED.search(text) or ENDED.search(kind):
        return QueryTimeout(
            f"the statement took longer than {limit:g} seconds, and was stopped by the time limit (option time_limit); "
            "ask for less, or by an indexed column"
        )
    if getattr(error, "connection_invalidated", False) or isinstance(original, OSError):
        return Unreachable("the database cannot be reached")
    state = str(getattr(original, "sqlstate", None) or "")
    if type(error).__name__ == "DataError" or state[:2] == "22" or "ConversionException" in kind:
        return BadValue(text)
    return DatabaseFailed(text)


def why_not_a_file(path: str) -> str:
    """Return the reason why a path is not a readable file, or an empty string."""
    if not os.path.lexists(path):
        return f"there is no file {path}"
    if os.path.isdir(path):
        return f"{path} is a folder"
    return "" if os.access(path, os.R_OK) else f"the file {path} may not be read"


def message_of(error: Any) -> str:
    """Return the first line of a driver's error message, without the error number and the class name."""
    arguments: tuple[Any, ...] = getattr(error, "args", ())
    text = str(arguments[1]) if len(arguments) == 2 and isinstance(arguments[0], int) else str(error)
    text = re.sub(r"^<class '[^']*'>: ", "", text)
    return printable(text.strip().partition("\n")[0], MAX_MESSAGE)
