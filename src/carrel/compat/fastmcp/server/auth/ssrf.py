"""Requests to URLs that clients name: public addresses and https only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from carrel.errors import ConfigError
from carrel.security.fetch import Fetcher, check_url
from carrel.security.server.bearer import Unverifiable
from carrel.transports.addresses import is_public

__all__ = ["SSRFError", "SSRFFetchError", "SSRFFetchResponse", "is_ip_allowed", "ssrf_safe_fetch"]


class SSRFError(Exception):
    """The URL must not be requested."""


class SSRFFetchError(Exception):
    """The request failed."""


@dataclass
class SSRFFetchResponse:
    """Response to a checked request."""

    content: bytes
    status_code: int
    headers: dict[str, str]


def is_ip_allowed(ip_str: str) -> bool:
    """Return whether an IP address is on the public Internet."""
    return is_public(ip_str.strip("[]"))


async def ssrf_safe_fetch_response(
    url: str, *, max_size: int = 5120, timeout: float = 10.0, **_: Any
) -> SSRFFetchResponse:
    """Return the response for a URL on the public Internet. Redirects are not followed.

    Raises:
        SSRFError: the URL is not https, or is inside of a network.
        SSRFFetchError: there is no response, or it is too large.
    """
    if not url.startswith("https://"):
        raise SSRFError(f"URL must use HTTPS: {url}")
    try:
        check_url(url, "url", found_at="https://elsewhere.invalid")
    except ConfigError as error:
        raise SSRFError(str(error)) from None
    try:
        async with Fetcher(timeout=timeout, hosts=()) as fetcher:
            found = await fetcher.ask("GET", url)
    except Unverifiable as error:
        raise SSRFFetchError(str(error)) from None
    if len(found.body) > max_size:
        raise SSRFFetchError(f"Response too large: more than {max_size} bytes")
    return SSRFFetchResponse(found.body, found.status, dict(found.headers))


async def ssrf_safe_fetch(url: str, **options: Any) -> bytes:
    """Return the body of a document on the public Internet.

    Raises:
        SSRFError: the URL is not https, or is inside of a network.
        SSRFFetchError: there is no such document, or it is too large.
    """
    found = await ssrf_safe_fetch_response(url, **options)
    if found.status_code != 200:
        raise SSRFFetchError(f"HTTP {found.status_code} from {url}")
    return found.content
