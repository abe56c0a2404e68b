"""LogLevels: sets the log level of a remote server to the lowest level that a client has set."""

from __future__ import annotations

import asyncio

from carrel.client.client import Client
from carrel.errors import MCPError
from carrel.log import Log
from carrel.wire.base import LoggingLevel
from carrel.wire.utilities import SEVERITY

__all__ = ["LogLevels"]

log = Log("carrel.host")

#: Seconds for which a log level stays in effect after the last call with it.
KEPT = 600.0
LEVELS: tuple[LoggingLevel, ...] = tuple(SEVERITY)  # type: ignore[arg-type]


class LogLevels:
    """Log levels set by the clients of a remote server. Each client receives only messages that match its level.

    https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#setting-log-level
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._wanted: dict[int, float] = {}
        self._set: int | None = None

    async def want(self, severity: int) -> None:
        """Record the log level of a calling client, and set the lowest level on the server if it has changed."""
        now = asyncio.get_running_loop().time()
        self._wanted[severity] = now
        if self._client.session.stateless:
            return  # each request has its log level
        lowest = min(level for level, at in self._wanted.items() if at > now - KEPT)
        before, self._set = self._set, lowest
        if lowest == before:
            return
        try:
            await self._client.set_log_level(LEVELS[lowest])
        except MCPError as error:
            self._set = before
            log.debug("%s: its log level is not set: %s", self._client.session.server_name, error)
