"""Confirmation prompts of commands that change files: the change is printed and confirmed on the terminal."""

from __future__ import annotations

import sys

from carrel.cli.messages import ask
from carrel.errors import ConfigError
from carrel.typed import discard_typed

__all__ = ["confirmed"]


def confirmed(question: str, otherwise: str) -> bool:
    """Ask for confirmation on the terminal and return the answer. Input typed before the prompt is discarded.

    Raises:
        ConfigError: standard input is not a terminal. ``otherwise`` is the hint in the message.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(f"standard input is not a terminal; {otherwise}")
    discard_typed(sys.stdin.fileno())
    ask(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
