"""LogLevels: the log level that is asked of a remote server: the lowest that a client wants."""

from __future__ import annotations

import asyncio

from carrel.client.client import Client
from carrel.errors import MCPError
from carrel.log import Log
from carrel.wire.base import LoggingLevel
from carrel.wire.utilities import SEVERITY

__all__ = ["LogLevels"]

log = Log("carrel.host")

#: Seconds for which a client's level counts after its last call.
KEPT = 600.0
LEVELS: tuple[LoggingLevel, ...] = tuple(SEVERITY)  # type: ignore[arg-type]


class LogLevels:
    """Log levels that clients of a remote server want. Each message goes on only to a client that wants its level.

    https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#setting-log-level
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._wanted: dict[int, float] = {}
        self._set: int | None = None

    async def want(self, severity: int) -> None:
        """Record the level that a client that calls wants messages from, and set it on the server if it is new."""
        now = asyncio.get_running_loop().time()
        self._wanted[severity] = now
        if self._client.session.stateless:
            return  # its requests carry their levels
        lowest = min(level for level, at in self._wanted.items() if at > now - KEPT)
        before, self._set = self._set, lowest
        if lowest == before:
            return
        try:
            await self._client.set_log_level(LEVELS[lowest])
        except MCPError as error:
            self._set = before
            log.debug("%s: its log level is not set: %s", self._client.session.server_name, error)
