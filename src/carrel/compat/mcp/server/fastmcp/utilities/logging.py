"""Logging of servers to standard error."""

from __future__ import annotations

import logging
from typing import Literal

__all__ = ["configure_logging", "get_logger"]


def get_logger(name: str) -> logging.Logger:
    """Return a logger."""
    return logging.getLogger(name)


def configure_logging(level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO") -> None:
    """Log to standard error from a level up, unless the program has set up logging itself."""
    logging.basicConfig(level=level, format="%(message)s")
