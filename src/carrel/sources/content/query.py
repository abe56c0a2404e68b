"""Parameters in the query of a URI."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from carrel.errors import InvalidParams
from carrel.uri.parse import UriError, percent_decode

__all__ = ["invalid_parameter", "read_number", "read_parameters"]


def read_parameters(
    query: str, known: Collection[str], decode: Callable[[str], str] = percent_decode
) -> dict[str, str]:
    """Return the parameters of a query, decoded.

    Raises:
        InvalidParams: a parameter is unknown, has no value, is repeated, or cannot be decoded.
    """
    found: dict[str, str] = {}
    for pair in query.split("&") if query else ():
        written, equals, value = pair.partition("=")
        try:
            name, value = decode(written), decode(value)
        except UriError as error:
            raise InvalidParams(f"Invalid params: {error}", parameter="uri") from None
        if name not in known:
            raise invalid_parameter(name[:50] or "uri", f"it is not known; there are {', '.join(known) or 'none here'}")
        if name in found:
            raise invalid_parameter(name, "it is given twice")
        if not equals or "\0" in value:
            raise invalid_parameter(name, "NUL is not possible" if equals else "it has no value")
        found[name] = value
    return found


def read_number(given: Mapping[str, str], name: str, most: int, otherwise: int) -> int:
    """Return a parameter that is a number from 1 to ``most``; ``otherwise``, or ``most``, where it is not given.

    Raises:
        InvalidParams: it is another number, or none.
    """
    text = given.get(name)
    if text is None:
        return min(otherwise, most)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise invalid_parameter(name, f"{text[:50]!r} is not a number from 1 to {most:,}")
    return int(text)


def invalid_parameter(name: str, reason: str) -> InvalidParams:
    """Return the error for a parameter."""
    return InvalidParams(f"Invalid params: {name}: {reason}", parameter=name)
