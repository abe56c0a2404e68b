"""Loggers with the names that the modules have in the package, for programs that set their levels."""

from __future__ import annotations

import re

from carrel.log import Log

__all__ = ["get_logger"]


def get_logger(name: str) -> Log:
    """Return the logger of a module."""
    return Log(re.sub(r"^carrel\.compat\.mcp2?\b", "mcp", name))
