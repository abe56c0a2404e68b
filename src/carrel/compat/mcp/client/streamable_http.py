"""Client transport over Streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

from carrel.compat.credentials import credentials_of
from carrel.compat.httpx_transport import HTTPXTransport, made_client
from carrel.compat.mcp.shared._httpx_utils import McpHttpClientFactory, create_mcp_http_client
from carrel.compat.streams import ClientStream
from carrel.transports.client.http import HTTPTransport
from carrel.transports.client.options import HTTPOptions

__all__ = ["McpHttpClientFactory", "create_mcp_http_client", "streamable_http_client", "streamablehttp_client"]

Streams = tuple[ClientStream, ClientStream, Callable[[], str | None]]


@asynccontextmanager
async def streamable_http_client(
    url: str, *, http_client: Any = None, terminate_on_close: bool = True
) -> AsyncIterator[Streams]:
    """Yield the streams of a server, and a function that returns the id of its session.

    ``http_client`` is an ``httpx.AsyncClient`` that sends the requests, and is left open.
    """
    opening = _connect(url, {}) if http_client is None else _opened(lambda: HTTPXTransport(url, http_client))
    async with opening as streams:
        yield streams


@asynccontextmanager
async def streamablehttp_client(
    url: str,
    headers: Mapping[str, str] | None = None,
    timeout: float | timedelta = 30,
    sse_read_timeout: float | timedelta = 300,
    terminate_on_close: bool = True,
    httpx_client_factory: Any = None,
    auth: Any = None,
) -> AsyncIterator[Streams]:
    """Yield the streams of a server, and a function that returns the id of its session.

    ``auth`` is an ``httpx.Auth``, or a user and a password.
    """
    seconds, reading = (
        each.total_seconds() if isinstance(each, timedelta) else each for each in (timeout, sse_read_timeout)
    )
    if httpx_client_factory is not None:
        async with (
            made_client(httpx_client_factory, headers or {}, seconds, reading, auth) as client,
            _opened(lambda: HTTPXTransport(url, client)) as streams,
        ):
            yield streams
        return
    async with _connect(url, headers or {}, seconds, auth) as streams:
        yield streams


def _connect(
    url: str, headers: Mapping[str, str], timeout: float = 30.0, auth: Any = None
) -> AbstractAsyncContextManager[Streams]:
    options = HTTPOptions(auth=credentials_of(auth), headers=headers, connect_timeout=timeout)
    return _opened(lambda: HTTPTransport(url, options))


@asynccontextmanager
async def _opened(transport: Callable[[], HTTPTransport]) -> AsyncIterator[Streams]:
    opened: list[HTTPTransport] = []

    def open() -> HTTPTransport:
        opened.append(transport())
        return opened[-1]

    stream = ClientStream(open)
    yield stream, stream, lambda: opened[-1].session_id if opened else None
