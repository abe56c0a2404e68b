"""Commands for one named tool, prompt or skill of a server: their arguments, and the lookup."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from carrel.cli.client.connection import add_connection_options
from carrel.cli.options import Parser
from carrel.cli.target import ServerTarget
from carrel.errors import ConfigError, MethodNotFound, PeerError
from carrel.near_names import near

__all__ = ["find_named", "is_unknown", "missing", "named_parser", "unlisted"]

T = TypeVar("T")


def named_parser(
    command: str, summary: str, epilog: str, what: str, about: str, *, arguments: str | None = None
) -> Parser:
    """Return the parser of a command that takes TARGET and the name of a tool, prompt or skill.

    With ``arguments``, the help text for them, it also takes KEY=VALUE. Without, the name is optional.
    """
    reader = Parser(command, summary, epilog=epilog)
    add_connection_options(reader)
    if arguments is None:
        reader.add_argument(what, metavar=what.upper(), nargs="?", help=about)
    else:
        reader.add_argument(what, metavar=what.upper(), help=about)
        reader.add_argument("arguments", metavar="KEY=VALUE", nargs="*", help=arguments)
    return reader


def find_named(target: ServerTarget, kind: str, name: str, found: Mapping[str, T]) -> T:
    """Find a tool, prompt or skill by name.

    Raises:
        ConfigError: the name is unknown. The message suggests a similar name, or lists all names.
    """
    if name not in found:
        raise missing(target, kind, name, found)
    return found[name]


@contextmanager
def unlisted(target: ServerTarget, kind: str, name: str, found: Collection[str]) -> Iterator[None]:
    """Send a request with a name that may not be in the list of a server: servers accept other names, too.

    Raises:
        ConfigError: the name is not in the list, and the server says that it is unknown.
    """
    try:
        yield
    except (PeerError, MethodNotFound) as error:
        if name in found or (isinstance(error, PeerError) and not is_unknown(kind, error.message)):
            raise
        raise missing(target, kind, name, found) from error


def is_unknown(kind: str, message: str) -> bool:
    """Return whether the error message of a server says that a tool or prompt is unknown."""
    says = rf"\b(?:unknown|no such) {kind}\b|\b{kind}\b.*\b(?:not found|does not exist|is unknown)\b"
    return re.search(says, message, re.IGNORECASE) is not None


def missing(target: ServerTarget, kind: str, name: str, found: Collection[str]) -> ConfigError:
    return ConfigError(f"{target.name} has no {kind} {name!r}{near(name, found)}")
