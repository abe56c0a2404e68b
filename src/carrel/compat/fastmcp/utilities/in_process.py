"""Servers over HTTP in this process, without a socket, for tests of programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from carrel.compat.fastmcp.client.client import Client
from carrel.compat.fastmcp.client.transports import SSETransport, StreamableHttpTransport
from carrel.compat.fastmcp.http_library import httpx

__all__ = ["ASGIServer", "asgi_client", "asgi_server"]

ORIGIN = "http://127.0.0.1"
#: Module of the installed package with its transport from ``httpx2`` to an application.
TRANSPORT = "fastmcp.utilities.asgi_transport"


@dataclass
class ASGIServer:
    """Server that is reached through its application."""

    url: str
    app: Any
    transport_type: str = "http"

    def http_client(
        self, headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None, **options: Any
    ) -> Any:
        """Return an HTTP client of the application."""
        options.setdefault("base_url", ORIGIN)
        transport = import_module(TRANSPORT).StreamingASGITransport(self.app)
        return httpx.AsyncClient(
            transport=transport, headers=headers, auth=auth, timeout=timeout or httpx.Timeout(30.0), **options
        )

    def transport(self, **options: Any) -> StreamableHttpTransport | SSETransport:
        """Return a transport of clients to the application."""
        options.setdefault("httpx_client_factory", self.http_client)
        kind = SSETransport if self.transport_type == "sse" else StreamableHttpTransport
        return kind(self.url, **options)

    def client(self, *, headers: dict[str, str] | None = None, auth: Any = None, **options: Any) -> Client[Any]:
        """Return a client of the server."""
        return Client(self.transport(headers=headers, auth=auth), **options)


@asynccontextmanager
async def asgi_server(
    server: Any, transport: str = "http", path: str | None = None, **http_app_kwargs: Any
) -> AsyncIterator[ASGIServer]:
    """Yield a server over HTTP, within its lifespan."""
    path = path or ("/sse" if transport == "sse" else "/mcp")
    app = server.http_app(transport=transport, path=path, **http_app_kwargs)
    async with import_module(TRANSPORT).run_asgi_lifespan(app):
        yield ASGIServer(f"{ORIGIN}{path}", app, transport)


@asynccontextmanager
async def asgi_client(
    server: Any,
    transport: str = "http",
    path: str | None = None,
    *,
    headers: dict[str, str] | None = None,
    auth: Any = None,
    **options: Any,
) -> AsyncIterator[Client[Any]]:
    """Yield a connected client of a server over HTTP."""
    async with (
        asgi_server(server, transport, path) as running,
        running.client(headers=headers, auth=auth, **options) as client,
    ):
        yield client
