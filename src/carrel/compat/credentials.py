"""Credentials of ``httpx`` for the HTTP transports of Carrel."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any

import httpx

from carrel.compat.mcp.shared._httpx_utils import create_mcp_http_client
from carrel.errors import AuthorizationError
from carrel.transports.client.transport import AuthorizationRejection

__all__ = ["HTTPXCredentials", "credentials_of"]

Connect = Callable[[], AbstractAsyncContextManager[Any]]

#: Headers of the transport, which credentials do not set.
TRANSPORT = frozenset(("accept", "accept-encoding", "connection", "content-length", "host", "user-agent"))


class HTTPXCredentials:
    """Credentials that an ``httpx.Auth`` adds to requests. Implements ``transport.Credentials``.

    The requests of its flow, such as token requests, are sent with ``httpx``. The response of the server is shown to
    the flow with status and challenges only, and only a rejected request is repeated.
    """

    extensions: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def __init__(self, auth: Any) -> None:
        self._auth = auth
        self._library = library_of(auth)
        self._connect: Connect = create_mcp_http_client if self._library is httpx else self._library.AsyncClient
        self._renewed: Mapping[str, str] | None = None
        self.principal = f"httpx {id(auth)}"

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        """Return the headers that the flow adds to a request.

        Raises:
            AuthorizationError: the flow failed.
        """
        renewed, self._renewed = self._renewed, None
        if renewed is not None:
            return renewed
        request = self._library.Request(method, url)
        flow = self._auth.async_auth_flow(request)
        try:
            return _added(await self._reach(flow, request, None))
        finally:
            await flow.aclose()

    async def rejected(self, rejection: AuthorizationRejection) -> bool:
        """Show a 401 or 403 response to the flow, and return whether it sends the request again.

        Raises:
            AuthorizationError: the flow failed.
        """
        request = self._library.Request("POST", rejection.url)
        if rejection.revision is not None:
            request.headers["mcp-protocol-version"] = rejection.revision
        flow = self._auth.async_auth_flow(request)
        try:
            before = _added(await self._reach(flow, request, None))
            if rejection.sent is not None and dict(rejection.sent) != dict(before):
                self._renewed = before  # another request has renewed them meanwhile
                return True
            challenges = [("www-authenticate", value) for value in rejection.challenges]
            response = self._library.Response(rejection.status, headers=challenges, request=request, content=b"")
            again = await self._reach(flow, request, response)
        except StopAsyncIteration:
            return False
        finally:
            await flow.aclose()
        self._renewed = _added(again)
        return True

    async def _reach(
        self, flow: AsyncGenerator[httpx.Request, httpx.Response], request: httpx.Request, response: Any
    ) -> httpx.Request:
        """Send the requests of a flow until it yields the request itself.

        Raises:
            StopAsyncIteration: the flow ended before.
            AuthorizationError: the flow failed.
        """
        try:
            asked = await flow.asend(response)
            if asked is not request:
                async with self._connect() as client:
                    while asked is not request:
                        answer = await client.send(asked, auth=None, follow_redirects=False)
                        asked = await flow.asend(answer)
        except (StopAsyncIteration, AuthorizationError):
            raise
        except Exception as error:
            raise AuthorizationError(f"authorization failed: {error}") from error
        return request

    async def close(self) -> None:
        """Do nothing: no connection is kept."""


def _added(request: httpx.Request) -> Mapping[str, str]:
    return {name: value for name, value in request.headers.items() if name.lower() not in TRANSPORT}


def credentials_of(auth: Any) -> HTTPXCredentials | None:
    """Return the credentials of an argument ``auth`` of ``httpx``: an ``httpx.Auth``, or a user and a password.

    Raises:
        TypeError: it is neither.
    """
    if auth is None:
        return None
    if isinstance(auth, tuple):
        auth = httpx.BasicAuth(*auth)
    return HTTPXCredentials(auth)


def library_of(auth: Any) -> Any:
    """Return the library whose credentials these are: ``httpx`` or ``httpx2``.

    Raises:
        TypeError: they are of neither.
    """
    for name in ("httpx", "httpx2"):
        library = sys.modules.get(name)
        if library is not None and isinstance(auth, library.Auth):
            return library
    raise TypeError(f"auth must be an httpx.Auth, not {type(auth).__name__}")
