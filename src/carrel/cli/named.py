"""Commands about one thing of a server, by its name: their arguments, and finding it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from carrel.cli.options import Parser
from carrel.cli.target import Asked, add_connection_options, near
from carrel.errors import ConfigError

__all__ = ["find_named", "named_parser"]

T = TypeVar("T")


def named_parser(
    command: str, summary: str, epilog: str, what: str, about: str, *, arguments: str | None = None
) -> Parser:
    """Return the parser of a command that takes TARGET and the name of a tool, prompt or skill.

    With ``arguments``, their explanation, it takes KEY=VALUE too; without, the name may be left out.
    """
    reader = Parser(command, summary, epilog=epilog)
    add_connection_options(reader)
    if arguments is None:
        reader.add_argument(what, metavar=what.upper(), nargs="?", help=about)
    else:
        reader.add_argument(what, metavar=what.upper(), help=about)
        reader.add_argument("arguments", metavar="KEY=VALUE", nargs="*", help=arguments)
    return reader


def find_named(whom: Asked, kind: str, name: str, found: Mapping[str, T]) -> T:
    """Return what a server has under a name.

    Raises:
        ConfigError: there is nothing of that name; the message has a near one, or all.
    """
    if name not in found:
        raise ConfigError(f"{whom.name} has no {kind} {name!r}{near(name, list(found))}")
    return found[name]
