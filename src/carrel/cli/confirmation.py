"""Questions of commands that write into files: what would change is printed, and confirmed on the terminal."""

from __future__ import annotations

import sys

from carrel.errors import ConfigError

__all__ = ["confirmed", "say"]


def confirmed(question: str, otherwise: str) -> bool:
    """Ask for confirmation on the terminal, and return whether it was given.

    Raises:
        ConfigError: standard input is not a terminal; ``otherwise`` says what to do then.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(f"there is no terminal to ask on; {otherwise}")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def say(text: str) -> None:
    """Print a text, escaping characters that the encoding of the terminal does not have."""
    if text:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
