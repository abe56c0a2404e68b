"""Checks of what authors pass to a server: names, functions, and options by keyword."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from carrel.errors import ConfigError

__all__ = ["check_options", "name_of"]

#: https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-names
NAME = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")


def name_of(kind: str, function: object, name: str | None) -> str:
    """Return the name under which a function is registered as a "tool" or a "prompt": its own if none is given.

    Raises:
        ConfigError: it is no function, or the name is not valid.
    """
    if not callable(function):
        raise ConfigError(f"A {kind} is a function, not {function!r:.80} ({type(function).__name__})")
    own = str(getattr(function, "__name__", type(function).__name__))
    if name is None and own == "<lambda>":
        raise ConfigError(f"A lambda has no name; give the {kind} one with name=")
    found = own if name is None else name
    if kind == "tool" and (not isinstance(found, str) or NAME.fullmatch(found) is None):
        raise ConfigError(
            f"{found!r:.160} is not the name of a tool: it has 1 to 128 letters (A-Z, a-z), digits, and any of _ - . /"
        )
    if not isinstance(found, str) or not found or not found.isprintable():
        raise ConfigError(f"{found!r:.160} is not the name of a {kind}: it has to be printable text")
    return found


def check_options(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Check the names of options by keyword. ``where`` takes them, such as "@app.tool".

    Raises:
        ConfigError: one is not known; the message has the nearest name.
    """
    for name in given:
        if name not in known:
            from carrel.near_names import did_you_mean

            names = sorted(known)
            hint = did_you_mean(name, names)
            raise ConfigError(f"{where} has no option {name!r}{hint or '; the options are ' + ', '.join(names)}")
