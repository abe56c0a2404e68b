"""Loggers with the names that the modules have in the package, for programs that set their levels."""

from __future__ import annotations

import logging

__all__ = ["get_logger"]


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module."""
    return logging.getLogger(name.replace("carrel.compat.mcp2", "mcp", 1))
