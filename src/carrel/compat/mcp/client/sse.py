"""Client transport over HTTP+SSE."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from carrel.compat.credentials import credentials_of
from carrel.compat.httpx_transport import HTTPXSSETransport, made_client
from carrel.compat.mcp.shared._httpx_utils import McpHttpClientFactory, create_mcp_http_client
from carrel.compat.streams import ClientStream
from carrel.transports.client.http_sse import HTTPSSETransport
from carrel.transports.client.options import HTTPOptions

__all__ = ["McpHttpClientFactory", "create_mcp_http_client", "sse_client"]


@asynccontextmanager
async def sse_client(
    url: str,
    headers: Mapping[str, Any] | None = None,
    timeout: float = 5,
    sse_read_timeout: float = 300,
    httpx_client_factory: Any = None,
    auth: Any = None,
    on_session_created: Callable[[str], None] | None = None,
) -> AsyncIterator[tuple[ClientStream, ClientStream]]:
    """Yield the streams of a server. ``auth`` is an ``httpx.Auth``, or a user and a password."""

    if httpx_client_factory is not None:
        async with made_client(httpx_client_factory, headers or {}, timeout, sse_read_timeout, auth) as client:
            stream = ClientStream(lambda: HTTPXSSETransport(url, client))
            yield stream, stream
        return
    options = HTTPOptions(auth=credentials_of(auth), headers=headers or {}, connect_timeout=timeout)
    stream = ClientStream(lambda: HTTPSSETransport(url, options))
    yield stream, stream
