"""Logging of servers and clients."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["configure_logging", "get_logger"]


def get_logger(name: str) -> logging.Logger:
    """Return a logger below ``fastmcp``."""
    return logging.getLogger(name if name.startswith("fastmcp.") else f"fastmcp.{name}")


def configure_logging(level: Any = "INFO", logger: logging.Logger | None = None, **options: Any) -> None:
    """Log to standard error from a level up, unless the program has handlers of its own."""
    chosen = logger or logging.getLogger("fastmcp")
    chosen.setLevel(level)
    if not chosen.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        handler.addFilter(lambda record: not logging.root.handlers)
        chosen.addHandler(handler)
