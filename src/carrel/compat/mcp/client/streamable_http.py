"""Client transport over Streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from carrel.compat.streams import ClientStream
from carrel.transports.client.http import HTTPTransport
from carrel.transports.client.options import HTTPOptions

__all__ = ["streamable_http_client", "streamablehttp_client"]

Streams = tuple[ClientStream, ClientStream, Callable[[], str | None]]

#: Headers that an HTTP client sets by itself, and that belong to the transport here.
OWN = frozenset(("accept", "accept-encoding", "connection", "content-type", "host", "user-agent"))
NO_AUTH = "auth of httpx is not mirrored by carrel.compat: use carrel.Client with carrel.security.client"


@asynccontextmanager
async def streamable_http_client(
    url: str, *, http_client: Any = None, terminate_on_close: bool = True
) -> AsyncIterator[Streams]:
    """Yield the streams of a server, and a function that returns the id of its session. Headers are the client's.

    Raises:
        ValueError: the client authenticates by itself.
    """
    headers: dict[str, str] = {}
    if http_client is not None:
        if getattr(http_client, "auth", None) is not None:
            raise ValueError(NO_AUTH)
        headers = {name: value for name, value in http_client.headers.items() if name.lower() not in OWN}
    async with _connect(url, headers) as streams:
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

    Raises:
        ValueError: there is ``auth``.
    """
    if auth is not None:
        raise ValueError(NO_AUTH)
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    async with _connect(url, headers or {}, seconds) as streams:
        yield streams


@asynccontextmanager
async def _connect(url: str, headers: Mapping[str, str], timeout: float = 30.0) -> AsyncIterator[Streams]:
    opened: list[HTTPTransport] = []

    def open() -> HTTPTransport:
        opened.append(HTTPTransport(url, HTTPOptions(headers=headers, connect_timeout=timeout)))
        return opened[-1]

    stream = ClientStream(open)
    yield stream, stream, lambda: opened[-1].session_id if opened else None
