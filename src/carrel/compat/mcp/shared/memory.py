"""Client and server in one process, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio

from carrel.compat.mcp.client.session import Callback, ClientSession
from carrel.compat.mcp.shared.message import SessionMessage
from carrel.compat.mcp.types.base import Implementation
from carrel.compat.streams import ClientStream
from carrel.transports.memory import MemoryTransport

__all__ = ["create_client_server_memory_streams", "create_connected_server_and_client_session"]


@asynccontextmanager
async def create_client_server_memory_streams() -> AsyncIterator[tuple[tuple[Any, Any], tuple[Any, Any]]]:
    """Yield connected pairs of read and write streams for a client and a server."""
    to_client = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    to_server = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    async with to_client[0], to_client[1], to_server[0], to_server[1]:
        yield (to_client[1], to_server[0]), (to_server[1], to_client[0])


@asynccontextmanager
async def create_connected_server_and_client_session(
    server: Any,
    read_timeout_seconds: timedelta | None = None,
    sampling_callback: Callback | None = None,
    list_roots_callback: Callback | None = None,
    logging_callback: Callback | None = None,
    message_handler: Callback | None = None,
    client_info: Implementation | None = None,
    raise_exceptions: bool = False,
    elicitation_callback: Callback | None = None,
) -> AsyncIterator[ClientSession]:
    """Yield an initialized session with a server, which may be a ``FastMCP``."""
    low_level = getattr(server, "_mcp_server", server)
    app = low_level.application(raise_exceptions=raise_exceptions)
    stream = ClientStream(lambda: MemoryTransport(app))
    async with ClientSession(
        stream,
        stream,
        read_timeout_seconds=read_timeout_seconds,
        sampling_callback=sampling_callback,
        list_roots_callback=list_roots_callback,
        logging_callback=logging_callback,
        message_handler=message_handler,
        client_info=client_info,
        elicitation_callback=elicitation_callback,
    ) as session:
        await session.initialize()
        yield session
