"""Progress of requests."""

from __future__ import annotations

from typing import TypeAlias

from carrel.compat.mcp.shared.session import ProgressFnT
from carrel.log import Log

__all__ = ["ProgressHandler", "default_progress_handler"]

ProgressHandler: TypeAlias = ProgressFnT
logger = Log("fastmcp.client.progress")


async def default_progress_handler(progress: float, total: float | None, message: str | None) -> None:
    """Log progress at the level debug."""
    logger.debug("%s of %s %s", progress, total, message or "")
