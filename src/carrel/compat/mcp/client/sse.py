"""Client transport over HTTP+SSE."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from carrel.compat.streams import ClientStream
from carrel.transports.client.http_sse import HTTPSSETransport
from carrel.transports.client.options import HTTPOptions

__all__ = ["sse_client"]


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
    """Yield the streams of a server.

    Raises:
        ValueError: there is ``auth``.
    """
    if auth is not None:
        raise ValueError(
            "auth of httpx is not mirrored by carrel.compat: use carrel.Client with carrel.security.client"
        )
    options = HTTPOptions(headers=headers or {}, connect_timeout=timeout)
    stream = ClientStream(lambda: HTTPSSETransport(url, options))
    yield stream, stream
