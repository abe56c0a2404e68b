"""Transport to a server in this process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from carrel.compat.fastmcp.client.session import Session
from carrel.compat.fastmcp.client.transports.base import ClientTransport
from carrel.compat.streams import ClientStream
from carrel.transports.memory import MemoryTransport

__all__ = ["FastMCPTransport"]


class FastMCPTransport(ClientTransport):
    """Transport to a server in this process."""

    def __init__(self, mcp: Any, raise_exceptions: bool = False) -> None:
        self.server = mcp
        self.raise_exceptions = raise_exceptions

    def __repr__(self) -> str:
        return f"<FastMCPTransport(server='{self.server.name}')>"

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[Session]:
        """Yield a session with the server, within its lifespan."""
        server = self.server
        low_level = server._mcp_server if hasattr(server, "_mcp_server") else server._lowlevel_server
        app = low_level.application(raise_exceptions=self.raise_exceptions)
        stream = ClientStream(lambda: MemoryTransport(app))
        async with Session(stream, stream, **options) as session:
            yield session
