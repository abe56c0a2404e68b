"""Parser for the challenges of WWW-Authenticate headers (Bearer and DPoP).

https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1, https://www.rfc-editor.org/rfc/rfc6750#section-3
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["Challenge", "choose_challenge", "read_challenges", "read_scope"]

#: Maximum number of characters of a header to parse.
MAX_HEADER = 16 * 1024

TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
#: Characters accepted in an unquoted value; more than the grammar allows, for unquoted URLs for example.
BARE = TOKEN | frozenset("/:@?=()[]{}<>\\")


class Challenge(NamedTuple):
    """A WWW-Authenticate challenge: its scheme and its parameters; scheme and parameter names are in lower case."""

    scheme: str
    parameters: Mapping[str, str]


def read_challenges(headers: Iterable[str]) -> list[Challenge]:
    """Return the challenges of all WWW-Authenticate headers. Skip challenges that cannot be parsed."""
    return [challenge for header in headers for challenge in _read(header[:MAX_HEADER])]


def choose_challenge(challenges: Iterable[Challenge]) -> Challenge | None:
    """Return the challenge that requires an access token (DPoP before Bearer), or None."""
    found = {one.scheme: one for one in reversed(list(challenges))}
    return found.get("dpop") or found.get("bearer")


def read_scope(text: str | None) -> frozenset[str]:
    """Return the scopes of a ``scope`` parameter."""
    return frozenset((text or "").split())


def _read(header: str) -> list[Challenge]:
    found: list[tuple[str, dict[str, str]]] = []
    position, end = 0, len(header)
    while position < end:
        if header[position] in " \t,":
            position += 1
            continue
        word, position = _take(header, position, TOKEN)
        if not word:
            position += 1  # no token starts here
            continue
        following = _skip_blanks(header, position)
        if following < end and header[following] == "=" and found:
            value, position = _value(header, _skip_blanks(header, following + 1))
            found[-1][1].setdefault(word.lower(), value)
        else:
            found.append((word.lower(), {}))
    return [Challenge(scheme, parameters) for scheme, parameters in found]


def _take(header: str, position: int, allowed: frozenset[str]) -> tuple[str, int]:
    start = position
    while position < len(header) and header[position] in allowed:
        position += 1
    return header[start:position], position


def _skip_blanks(header: str, position: int) -> int:
    while position < len(header) and header[position] in " \t":
        position += 1
    return position


def _value(header: str, position: int) -> tuple[str, int]:
    if header[position : position + 1] != '"':
        return _take(header, position, BARE)
    characters: list[str] = []
    position += 1
    while position < len(header) and header[position] != '"':
        if header[position] == "\\":
            position += 1
        characters.append(header[position : position + 1])
        position += 1
    return "".join(characters), position + 1
