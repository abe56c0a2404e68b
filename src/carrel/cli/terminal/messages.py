"""Messages of commands to users: whole lines on standard output and standard error.

The lines may contain untrusted text from configuration files, file names and servers. Each argument becomes exactly one
line: line breaks, escape sequences and bidirectional controls are escaped, and secrets in URLs are hidden.
"""

from __future__ import annotations

import sys
from typing import TextIO

from carrel.errors import ConfigError
from carrel.printable import printable
from carrel.redaction import without_secrets

__all__ = ["ask", "confirmed", "pass_on", "print_stderr", "say", "show"]


def say(*lines: str) -> None:
    """Print lines on standard output."""
    _write(sys.stdout, "".join(f"{_escaped(line)}\n" for line in lines))


def print_stderr(*lines: str) -> None:
    """Print lines on standard error."""
    _write(sys.stderr, "".join(f"{_escaped(line)}\n" for line in lines))


def show(*lines: str) -> None:
    """Print lines on standard error without hiding parts of URLs, which the user may have to open."""
    _write(sys.stderr, "".join(f"{printable(line, len(line))}\n" for line in lines))


def ask(question: str) -> None:
    """Print a prompt on standard error, without a line break."""
    _write(sys.stderr, _escaped(question))


def confirmed(question: str, otherwise: str) -> bool:
    """Ask for confirmation on the terminal and return the answer. Input typed before the prompt is discarded.

    Raises:
        ConfigError: standard input is not a terminal. ``otherwise`` is the hint in the message.
    """
    from carrel.typed import discard_typed

    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(f"standard input is not a terminal; {otherwise}")
    discard_typed(sys.stdin.fileno())
    ask(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def pass_on(line: str) -> None:
    """Print a line of another program on standard error. Control characters are escaped only on a terminal."""
    _write(sys.stderr, f"{_escaped(line) if sys.stderr.isatty() else without_secrets(line)}\n")


def _escaped(line: str) -> str:
    line = without_secrets(line)
    return printable(line, len(line))


def _write(stream: TextIO, text: str) -> None:
    """Write text, escaping characters that the encoding of the stream cannot represent."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
