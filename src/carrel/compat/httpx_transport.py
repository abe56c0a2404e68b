"""Client transports over HTTP that send their requests with an HTTP client of the program."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
from yarl import URL

from carrel.compat.mcp.client.auth.exceptions import OAuthFlowError
from carrel.errors import AuthorizationError, MCPError, TransportError
from carrel.printable import printable
from carrel.transports.client.http import HTTPTransport
from carrel.transports.client.http_errors import read_error_response
from carrel.transports.client.http_sse import HTTPSSETransport

__all__ = ["HTTPXSSETransport", "HTTPXTransport", "made_client"]

#: The longest body of an error response that is read, in bytes.
MAX_ERROR_BYTES = 1024 * 1024


class HTTPXTransport(HTTPTransport):
    """Streamable HTTP transport over an ``httpx`` or ``httpx2`` client, which is left open.

    The client's transport, credentials, headers, hooks, TLS and proxies are used.
    """

    def __init__(self, url: str, client: Any) -> None:
        super().__init__(url)
        self._endpoint: Any = HTTPXEndpoint(url, client, self._options.max_message)


class HTTPXSSETransport(HTTPSSETransport):
    """HTTP+SSE transport over an ``httpx`` or ``httpx2`` client, which is left open."""

    def __init__(self, url: str, client: Any) -> None:
        super().__init__(url)
        self._endpoint: Any = HTTPXEndpoint(url, client, self._options.max_message)


def made_client(factory: Any, headers: Mapping[str, str], timeout: float, reading: float, auth: Any) -> Any:
    """Return the client that a factory of the program makes, with timeouts in seconds."""
    library = sys.modules.get("httpx2", httpx)  # programs for mcp 2 import it
    return factory(headers=dict(headers), timeout=library.Timeout(timeout, read=reading), auth=auth)


class HTTPXResponse:
    """Response in the terms of aiohttp, as ``HTTPTransport`` reads it. It is its own ``content``."""

    connection = None

    def __init__(self, response: Any) -> None:
        self._response = response
        self._pieces: AsyncIterator[bytes] = response.aiter_bytes()
        self._ended = False
        self._closing: asyncio.Task[None] | None = None
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.url = URL(str(response.url))

    @property
    def content(self) -> HTTPXResponse:
        """The body."""
        return self

    async def readany(self) -> bytes:
        """Return the next piece of the body; empty at its end."""
        async for piece in self._pieces:
            if piece:
                return piece
        self._ended = True
        return b""

    def at_eof(self) -> bool:
        """Return whether the body was read to its end."""
        return self._ended

    def release(self) -> None:
        """Close the response, in a task."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._response.aclose())

    close = release


class HTTPXEndpoint:
    """Endpoint that is asked with a client of the program. It does what ``HTTPSession`` does for ``HTTPTransport``."""

    asking = 0

    def __init__(self, url: str, client: Any, max_message: int) -> None:
        self.name = printable(url.partition("?")[0], 200)
        self._url = url
        self._client = client
        self._max_message = max_message
        self._open: set[HTTPXResponse] = set()

    def start(self) -> None:
        """Do nothing: the client is open."""

    async def close(self) -> None:
        """Close the responses. The client belongs to the program."""
        for response in self._open:
            response.release()
        closing = [response._closing for response in self._open if response._closing is not None]
        if closing:
            await asyncio.wait(closing)

    async def ask(
        self, method: str, headers: dict[str, str], data: bytes | None = None, url: URL | None = None, **_: Any
    ) -> HTTPXResponse:
        """Send a request, and return the response as soon as its headers are received."""
        self._open = {response for response in self._open if response._closing is None or not response._closing.done()}
        options: dict[str, Any] = {}
        if method == "GET":  # a stream, on which nothing may happen for long
            options["timeout"] = {**self._client.timeout.as_dict(), "read": None}
        request = self._client.build_request(method, str(url or self._url), headers=headers, content=data, **options)
        response = HTTPXResponse(await self._client.send(request, stream=True))
        self._open.add(response)
        return response

    async def read(self, response: HTTPXResponse) -> bytes:
        """Return the body of a response.

        Raises:
            TransportError: it is longer than ``max_message``.
        """
        body = await self._read_some(response, self._max_message)
        if body is None:
            raise TransportError(f"The response of {self.name} is longer than {self._max_message} bytes")
        return body

    async def _read_some(self, response: HTTPXResponse, limit: int) -> bytes | None:
        pieces = bytearray()
        while piece := await response.readany():
            pieces += piece
            if len(pieces) > limit:
                return None
        return bytes(pieces)

    async def explain(self, response: HTTPXResponse) -> MCPError:
        """Return the exception for an HTTP error response, and release the response."""
        try:
            body = await self._read_some(response, MAX_ERROR_BYTES) or b""
        finally:
            response.release()
        return read_error_response(self.name, response.status, body, response.headers.get("Retry-After"))

    def translate(self, error: Exception) -> MCPError:
        """Convert an exception, such as one of the client, to an ``MCPError``."""
        if isinstance(error, MCPError):
            return error
        if isinstance(error, OAuthFlowError):
            failed = AuthorizationError(f"authorization failed: {error}")
            failed.__cause__ = error
            return failed
        why = printable(f"{type(error).__name__} {error}".rstrip(), 300)
        return TransportError(f"The connection to {self.name} failed: {why}")
