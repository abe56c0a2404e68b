"""Client and server in one process, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio

from carrel.compat.mcp2.shared.message import SessionMessage

__all__ = ["MessageStream", "create_client_server_memory_streams"]

MessageStream: TypeAlias = tuple[Any, Any]


@asynccontextmanager
async def create_client_server_memory_streams() -> AsyncIterator[tuple[MessageStream, MessageStream]]:
    """Yield connected pairs of read and write streams for a client and a server."""
    to_client = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    to_server = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    async with to_client[0], to_client[1], to_server[0], to_server[1]:
        yield (to_client[1], to_server[0]), (to_server[1], to_client[0])
