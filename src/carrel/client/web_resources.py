"""HTTPS resources, fetched directly from the web with protection against SSRF, without asking the MCP server.

Such a URI is untrusted, so it may lead to the public Internet only. This is checked for every redirect, and for the
resolved address of every connection. Requests contain no cookies, credentials or referrer. No proxy is used, because
the addresses behind a proxy cannot be checked.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources#https%3A%2F%2F
https://cheatsheetseries.owasp.org/cheatsheets/Server_Side_Request_Forgery_Prevention_Cheat_Sheet.html
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from carrel.errors import ConfigError, ResourceError, ResourceForbidden, ResourceNotFound
from carrel.transports.client.fetch import Fetch, https_url
from carrel.transports.client.response_text import decode, is_textual, read_type
from carrel.wire.resources import BlobResourceContents, ResourceContents, TextResourceContents

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["MAX_BYTES", "fetch"]

#: Default size limit of a page, in bytes.
MAX_BYTES = 16 * 1024 * 1024


async def fetch(
    url: str,
    *,
    max_bytes: int = MAX_BYTES,
    timeout: float = 30.0,
    max_redirects: int = 5,
    allowed: Iterable[str] = (),
    ssl: SSLContext | None = None,
) -> list[ResourceContents]:
    """Fetch an ``https:`` URL and return its contents, one text or one blob, as reading a resource does.

    Args:
        max_bytes: size limit of the page, before and after decompression.
        timeout: seconds for the whole fetch, with redirects.
        max_redirects: maximum number of redirects to follow, only to https: on the public Internet.
        allowed: hosts that may have any address, because the user has named them.
        ssl: SSL context with the trusted certificates; None for the system's certificates.

    Raises:
        ResourceNotFound: there is no such page.
        ResourceForbidden: the URL, or one that it redirects to, may not be fetched; or the web server denies access.
        ResourceTooLarge: the page has more than ``max_bytes``.
        ResourceError: the page cannot be fetched for another reason.
        RequestTimeout: the fetch timed out.
        ConfigError: aiohttp is not installed.
    """
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        raise ConfigError("Fetching from the web needs the package aiohttp: pip install 'carrel[client]'") from None
    parsed = https_url(url, url)
    async with (
        Fetch(
            timeout=timeout, max_bytes=max_bytes, hosts=tuple(allowed), max_redirects=max_redirects, ssl=ssl
        ) as pages,
        pages.request("GET", str(parsed)) as response,
    ):
        status = response.status
        if status in (404, 410):
            raise ResourceNotFound(url, "There is no such page")
        if status in (401, 403, 407):
            raise ResourceForbidden(url, f"The web server denies access with status {status}")
        if not 200 <= status < 300 or status == 206:
            raise ResourceError(url, f"The web server responds with status {status}")
        data = await response.read()
        return [contents_of(url, data, *read_type(response.headers.get("Content-Type", "")))]


def contents_of(url: str, data: bytes, kind: str, charset: str) -> ResourceContents:
    """Return text contents if the media type is textual and the bytes can be decoded, and a blob otherwise."""
    text = decode(data, charset) if is_textual(kind) else None
    if text is not None and not (kind == "" and "\0" in text):
        return TextResourceContents(url, text, mime_type=kind or None)
    return BlobResourceContents(url, data, mime_type=kind or None)
