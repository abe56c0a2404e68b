"""Transports to URLs: Streamable HTTP and HTTP+SSE."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import httpx

from carrel.compat.fastmcp.client.auth.bearer import BearerAuth
from carrel.compat.fastmcp.client.session import Session
from carrel.compat.fastmcp.client.transports.base import ClientTransport
from carrel.compat.fastmcp.server.dependencies import get_http_headers
from carrel.compat.mcp.client.sse import sse_client
from carrel.compat.mcp.client.streamable_http import streamablehttp_client
from carrel.compat.mcp.shared._httpx_utils import create_mcp_http_client
from carrel.errors import AuthorizationError

__all__ = ["HTTPClientTransport", "SSETransport", "StreamableHttpTransport", "status_errors"]


class HTTPClientTransport(ClientTransport):
    """Transport to a URL, with headers and credentials: a bearer token, "oauth", or an ``httpx.Auth``."""

    def __init__(
        self,
        url: Any,
        headers: dict[str, str] | None = None,
        auth: Any = None,
        sse_read_timeout: Any = None,
        httpx_client_factory: Any = None,
        verify: Any = None,
        **_: Any,
    ) -> None:
        self.url = str(url)
        self.headers = dict(headers or {})
        self.httpx_client_factory = httpx_client_factory
        self.set_verify(verify)
        self.auth: Any = None
        self.forward_incoming_headers = False
        self.set_auth(auth)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(url='{self.url}')>"

    def _sent_headers(self) -> dict[str, str]:
        """Return the headers of a request. They include the incoming headers if these are forwarded.

        A configured header replaces an incoming header of the same name in any case.
        """
        own = {name.lower() for name in self.headers}
        incoming = get_http_headers() if self.forward_incoming_headers else {}
        return {**{name: value for name, value in incoming.items() if name.lower() not in own}, **self.headers}

    def set_auth(self, auth: Any) -> None:
        """Set the credentials: a token, "oauth" for a login in the browser, or an ``httpx.Auth``."""
        if auth is None:
            return
        if auth == "oauth":
            from carrel.compat.fastmcp.client.auth.oauth import OAuth

            auth = OAuth(httpx_client_factory=self.httpx_client_factory)
        elif isinstance(auth, str):
            auth = BearerAuth(auth)
        bind = getattr(auth, "_bind", None)
        if bind is not None:
            bind(self.url)
        self.auth = auth

    _set_auth = set_auth

    def set_verify(self, verify: Any) -> None:
        """Set how certificates are checked, unless the transport has a factory of clients."""
        self.verify = verify
        if verify is not None and self.httpx_client_factory is None:
            self.httpx_client_factory = partial(_verified_client, verify=verify)


def _verified_client(
    headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None, *, verify: Any
) -> httpx.AsyncClient:
    client = create_mcp_http_client(headers, timeout, auth)
    return httpx.AsyncClient(headers=client.headers, auth=client.auth, timeout=client.timeout, verify=verify)


@contextlib.contextmanager
def status_errors(url: str) -> Iterator[None]:
    """Raise the errors of ``httpx`` that programs expect if a server rejects the credentials.

    Raises:
        HTTPStatusError: the server answered 401.
    """
    try:
        yield
    except AuthorizationError as error:
        if error.__cause__ is not None:  # a login failed in the program's own credentials
            raise error.__cause__ from error
        request = httpx.Request("POST", url)
        response = httpx.Response(401, request=request)
        message = f"Client error '401 Unauthorized' for url '{url}'"
        raise httpx.HTTPStatusError(message, request=request, response=response) from error


class StreamableHttpTransport(HTTPClientTransport):
    """Transport over Streamable HTTP."""

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[Session]:
        """Yield a session with the URL."""
        async with (
            streamablehttp_client(
                self.url, self._sent_headers(), auth=self.auth, httpx_client_factory=self.httpx_client_factory
            ) as (read, write, get_session_id),
            Session(read, write, **options) as session,
        ):
            self.get_session_id = get_session_id
            yield session


class SSETransport(HTTPClientTransport):
    """Transport over HTTP+SSE."""

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[Session]:
        """Yield a session with the URL."""
        async with (
            sse_client(
                self.url, self._sent_headers(), auth=self.auth, httpx_client_factory=self.httpx_client_factory
            ) as (read, write),
            Session(read, write, **options) as session,
        ):
            yield session
