"""Values on the command line: numbers and sizes."""

from __future__ import annotations

import argparse

__all__ = ["glob", "number", "positive", "shown_size", "size", "whole"]

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
    """Check a pattern of file names: an invalid one would share or exclude the wrong files."""
    from carrel.sources.folder.patterns import Malformed, check_glob  # imported only when a pattern is given

    try:
        check_glob(text)
    except Malformed as problem:
        raise argparse.ArgumentTypeError(f"{text!r} {problem}") from None
    return text


def positive(text: str) -> int:
    """Parse a whole number from 1 up."""
    if not text.isascii() or not text.isdigit() or int(text[:9]) < 1 or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def number(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
