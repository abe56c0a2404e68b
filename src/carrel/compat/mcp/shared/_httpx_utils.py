"""HTTP clients of programs, and credentials that follow redirects within an origin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import httpx

__all__ = [
    "MCP_DEFAULT_SSE_READ_TIMEOUT",
    "MCP_DEFAULT_TIMEOUT",
    "McpHttpClientFactory",
    "RedirectAwareAuth",
    "create_mcp_http_client",
    "next_request_within_origin",
    "redirect_location",
    "redirect_note",
]

MCP_DEFAULT_TIMEOUT = 30.0
MCP_DEFAULT_SSE_READ_TIMEOUT = 300.0

#: Maximum number of redirects of one request.
MAX_REDIRECTS = 5


class McpHttpClientFactory(Protocol):
    """Function that returns an HTTP client."""

    def __call__(self, headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any: ...


def create_mcp_http_client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    """Return an ``httpx.AsyncClient`` with the usual timeouts."""
    usual = httpx.Timeout(MCP_DEFAULT_TIMEOUT, read=MCP_DEFAULT_SSE_READ_TIMEOUT)
    return httpx.AsyncClient(headers=headers, auth=auth, timeout=usual if timeout is None else timeout)


def next_request_within_origin(response: httpx.Response) -> httpx.Request | None:
    """Return the request of a redirect that keeps the method and the origin, or upgrades it to https; None for others.

    A redirect that adds a user and a password is not followed.
    """
    following = response.next_request
    if following is None:
        return None
    sent, url = response.request.url, following.url
    upgraded = (sent.scheme, sent.port, url.scheme, url.port) == ("http", None, "https", None)
    same = sent.host == url.host and (upgraded or (sent.scheme, sent.port) == (url.scheme, url.port))
    known = not url.userinfo or url.userinfo == sent.userinfo
    return following if same and known and following.method == response.request.method else None


def redirect_location(response: httpx.Response) -> httpx.URL | None:
    """Return where a response redirects to, for messages: without user, query and fragment. None without redirect."""
    following = response.next_request
    return None if following is None else following.url.copy_with(userinfo=b"", query=None, fragment=None)


def redirect_note(response: httpx.Response) -> str:
    """Return a note about a redirect that was not followed; empty without redirect."""
    location = redirect_location(response)
    return "" if location is None else f" (redirected to {location}; not followed)"


if TYPE_CHECKING or find_spec("httpx2") is None:
    AnyAuth = httpx.Auth
else:

    class AnyAuth(httpx.Auth, import_module("httpx2").Auth):
        """Credentials of both libraries: programs for ``mcp`` 2 give them to clients of ``httpx2``."""


def _like(request: httpx.Request, made: httpx.Request) -> httpx.Request:
    """Return a request of a flow in the library of the client's request: ``httpx`` or ``httpx2``."""
    kind: Any = type(request)
    if type(made) is kind:
        return made
    found: httpx.Request = kind(made.method, str(made.url), headers=made.headers, content=made.content)
    return found


class RedirectAwareAuth(ABC, AnyAuth):
    """Credentials whose own requests follow redirects within their origin, and no others."""

    @abstractmethod
    def _auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Yield the requests of the flow, as ``async_auth_flow`` of ``httpx.Auth`` does."""

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Yield the requests of the flow, and the redirects of these requests."""
        flow = self._auth_flow(request)
        try:
            asked = await anext(flow)
            while True:
                response = yield asked if asked is request else _like(request, asked)
                for _ in range(0 if asked is request else MAX_REDIRECTS):
                    following = next_request_within_origin(response)
                    if following is None:
                        break
                    response = yield following
                asked = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()
