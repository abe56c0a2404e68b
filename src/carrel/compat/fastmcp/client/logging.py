"""Log messages of servers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from carrel.compat.mcp.types import LoggingMessageNotificationParams
from carrel.log import Log

__all__ = ["LogHandler", "LogMessage", "default_log_handler"]

LogMessage: TypeAlias = LoggingMessageNotificationParams
LogHandler: TypeAlias = Callable[[LogMessage], Awaitable[None]]

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
logger = Log("fastmcp.client.from_server")


async def default_log_handler(message: LogMessage) -> None:
    """Log a message of a server."""
    logger.log(LEVELS.get(message.level, logging.CRITICAL), "%s: %s", message.logger or "server", message.data)
