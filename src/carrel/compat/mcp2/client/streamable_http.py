"""Client transport over Streamable HTTP, as a pair of streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from carrel.compat.mcp.client.streamable_http import streamable_http_client as connect
from carrel.compat.mcp2.shared._httpx_utils import create_mcp_http_client
from carrel.compat.streams import ClientStream

__all__ = ["create_mcp_http_client", "streamable_http_client"]


@asynccontextmanager
async def streamable_http_client(
    url: str, *, http_client: Any = None, terminate_on_close: bool = True
) -> AsyncIterator[tuple[ClientStream, ClientStream]]:
    """Yield the streams of a server. The HTTP client sets the headers."""
    async with connect(url, http_client=http_client, terminate_on_close=terminate_on_close) as streams:
        yield streams[0], streams[1]
