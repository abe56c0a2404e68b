"""Client transport over Streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

from carrel.compat.credentials import credentials_of, library_of
from carrel.compat.streams import ClientStream
from carrel.transports.client.http import HTTPTransport
from carrel.transports.client.options import HTTPOptions

__all__ = ["streamable_http_client", "streamablehttp_client"]

Streams = tuple[ClientStream, ClientStream, Callable[[], str | None]]

#: Headers that an HTTP client sets by itself, and that belong to the transport here.
OWN = frozenset(("accept", "accept-encoding", "connection", "content-type", "host", "user-agent"))


@asynccontextmanager
async def streamable_http_client(
    url: str, *, http_client: Any = None, terminate_on_close: bool = True
) -> AsyncIterator[Streams]:
    """Yield the streams of a server, and a function that returns the id of its session.

    The headers and the credentials of the client are used, and the client sends the requests of an authorization.
    """
    headers: dict[str, str] = {}
    auth = connect = None
    if http_client is not None:
        headers = {name: value for name, value in http_client.headers.items() if name.lower() not in OWN}
        auth = http_client.auth
        if auth is not None and isinstance(http_client, library_of(auth).AsyncClient):
            connect = partial(nullcontext, http_client)
    async with _connect(url, headers, auth=auth, connect=connect) as streams:
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
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    async with _connect(url, headers or {}, seconds, auth, httpx_client_factory) as streams:
        yield streams


@asynccontextmanager
async def _connect(
    url: str, headers: Mapping[str, str], timeout: float = 30.0, auth: Any = None, connect: Any = None
) -> AsyncIterator[Streams]:
    opened: list[HTTPTransport] = []

    def open() -> HTTPTransport:
        credentials = credentials_of(auth, connect)
        opened.append(HTTPTransport(url, HTTPOptions(auth=credentials, headers=headers, connect_timeout=timeout)))
        return opened[-1]

    stream = ClientStream(open)
    yield stream, stream, lambda: opened[-1].session_id if opened else None
