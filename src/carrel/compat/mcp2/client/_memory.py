"""Client transport to a server in the same process."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from carrel.compat.streams import ClientStream
from carrel.transports.memory import MemoryTransport

__all__ = ["InMemoryTransport"]


class InMemoryTransport:
    """Transport to a server, which may be an ``MCPServer``."""

    def __init__(self, server: Any, *, raise_exceptions: bool = False) -> None:
        low_level = getattr(server, "_lowlevel_server", server)
        self._app = low_level.application(raise_exceptions=raise_exceptions)

    async def __aenter__(self) -> tuple[ClientStream, ClientStream]:
        stream = ClientStream(lambda: MemoryTransport(self._app))
        return stream, stream

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: the server stops with the session."""
