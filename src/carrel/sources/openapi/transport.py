"""Requests to an API: over HTTP by ``carrel.transports.client.fetch``, or to an ASGI application in memory by httpx."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from carrel.errors import RequestTimeout, ResourceError, ResourceForbidden, ResourceTooLarge
from carrel.sources.packages import needed
from carrel.transports.client.fetch import Fetch

__all__ = ["ApiOverASGI", "ApiOverHTTP", "ApiResponse", "ApiTransport"]

ACCEPT = "application/json, application/*;q=0.9, text/*;q=0.8, */*;q=0.5"


class ApiResponse(NamedTuple):
    """Response of an API. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ApiTransport(Protocol):
    """Way to send requests to one API."""

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> ApiResponse:
        """Send a request and return the response; redirects are responses like others.

        Raises:
            ResourceError: no response arrived, or it is too large. The error does not contain the query.
            RequestTimeout: it does not come in time.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


def shown(url: str) -> str:
    """Return a URL without its query, in which credentials may be."""
    return url.partition("?")[0]


class ApiOverHTTP:
    """Requests over HTTP. ``hosts`` may have any address; all others have to be on the public Internet."""

    def __init__(self, timeout: float, max_bytes: int, hosts: Collection[str]) -> None:
        with needed("APIs", "openapi"):
            import aiohttp  # noqa: F401
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._fetch = Fetch(timeout=timeout, max_bytes=max_bytes, hosts=hosts, accept=ACCEPT)

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> ApiResponse:
        """Send a request and return the response."""
        location = shown(url)
        try:
            async with self._fetch.request(method, url, data=body, headers=headers) as response:
                data = await response.read()
                return ApiResponse(response.status, {key.lower(): one for key, one in response.headers.items()}, data)
        except ResourceTooLarge:
            raise too_large(location, self._max_bytes) from None
        except ResourceForbidden:
            raise ResourceForbidden(location, "The address of the API is not on the public Internet") from None
        except ResourceError as error:
            raise ResourceError(location, error.message.replace(url, location)) from None
        except RequestTimeout:
            raise RequestTimeout(
                f"{location} did not answer within {self._timeout:g} seconds (request_timeout)"
            ) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._fetch.close()


class ApiOverASGI:
    """Requests to an ASGI application in this process."""

    def __init__(self, app: Any, timeout: float, max_bytes: int) -> None:
        with needed("applications in memory", "openapi"):
            import httpx
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False),
            headers={"Accept": ACCEPT, "User-Agent": "carrel"},
            follow_redirects=False,
            trust_env=False,
        )

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> ApiResponse:
        """Send a request and return the response."""
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._client.request(method, url, headers=dict(headers), content=body)
        except TimeoutError:
            raise RequestTimeout(
                f"{shown(url)} did not answer within {self._timeout:g} seconds (request_timeout)"
            ) from None
        self._client.cookies.clear()
        if len(response.content) > self._max_bytes:
            raise too_large(shown(url), self._max_bytes)
        return ApiResponse(response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.content)

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()


def too_large(url: str, most: int) -> ResourceTooLarge:
    return ResourceTooLarge(
        url,
        f"The response has more than {most:,} bytes, which is the limit (max_response_size); "
        "ask for less, for example with the parameters for pages",
    )
