"""Loggers with the names that the modules have in the package, for programs that set their levels."""

from __future__ import annotations

import logging
import re

from carrel.log import Log

__all__ = ["get_logger"]


def get_logger(name: str) -> Log:
    """Return the logger of a module.

    The logger with the module's own name is its parent: a program may use the ``__name__`` of the module as well.
    """
    original = re.sub(r"^carrel\.compat\.mcp2?\b", "mcp", name)
    if original != name:
        put_above(logging.getLogger(name), logging.getLogger(original))
    return Log(original)


def put_above(upper: logging.Logger, logger: logging.Logger) -> None:
    """Make a logger the parent of another one, unless it is above the other one already."""
    for each in (upper, logger):  # a logger that is created later looks for the loggers below it
        parts = each.name.split(".")
        for end in range(1, len(parts)):
            logging.getLogger(".".join(parts[:end]))
    above = logger.parent
    while above is not None and above is not upper:
        above = above.parent
    if above is None:
        upper.parent, logger.parent = logger.parent, upper
