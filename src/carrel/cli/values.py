"""Values on the command line: numbers, sizes and addresses, hints for misspelt names, URLs without passwords."""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH100, PTH111

from __future__ import annotations

import argparse
import math
import os

from carrel.errors import ConfigError

__all__ = [
    "folder",
    "glob",
    "header",
    "number",
    "positive",
    "read_address",
    "seconds",
    "shown_size",
    "size",
    "whole",
]

UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def size(text: str) -> int:
    """Parse a size such as 500000, 500k, 500KiB or 10MB; K, M and G are powers of 1,024."""
    digits = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = digits[-1:] if digits[-1:] in UNITS else ""
    try:
        value = float(digits.removesuffix(unit)) * UNITS[unit]
        if not 1 <= value < 2**53:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500KiB or 10MiB") from None
    return int(value)


def shown_size(value: int) -> str:
    """Return a size as ``size`` reads it."""
    for unit in ("g", "m", "k"):
        if value % UNITS[unit] == 0:
            return f"{value // UNITS[unit]}{unit.upper()}iB"
    return str(value)


def whole(text: str) -> int:
    """Parse a whole number."""
    try:
        return int(text) if text.isascii() and len(text) < 20 else int("")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def glob(text: str) -> str:
    """Validate a file name pattern. An invalid pattern would share or exclude the wrong files."""
    from carrel.sources.folder.patterns import Malformed, check_glob  # imported only when a pattern is given

    try:
        check_glob(text)
    except Malformed as problem:
        raise argparse.ArgumentTypeError(f"{text!r} {problem}") from None
    return text


def folder(text: str) -> str:
    """Return the absolute path of a folder."""
    return os.path.abspath(os.path.expanduser(text))


def positive(text: str) -> int:
    """Parse a whole number from 1 to 999,999,999."""
    if not text.isascii() or not text.isdigit() or int(text[:9]) < 1 or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 999999999")
    return int(text)


def number(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def seconds(text: str) -> float:
    """Parse a number of seconds, 0 or more."""
    if not 0 <= (value := number(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def read_address(text: str) -> tuple[str | None, int]:
    """Parse PORT or HOST:PORT; an IPv6 host is in brackets. The host is None if it is not given.

    Raises:
        ConfigError: the text has neither form.
    """
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"--http {text}: an address is [HOST:]PORT, an IPv6 host in brackets: [::1]:8000")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ConfigError(f"--http {text}: {port!r} is not a port (0 to 65535)")
    return host or None, int(port)


def header(text: str) -> tuple[str, str]:
    """Return the name and the value of a header given as NAME: VALUE.

    Raises:
        ConfigError: the text has another form.
    """
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise ConfigError("--header: a header is 'NAME: VALUE', for example 'Authorization: Bearer …'")
    return name.strip(), value.strip()
