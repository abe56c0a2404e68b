"""HTTP requests to URLs that documents and servers name, with protection against SSRF and limits on time and size.

Requests carry no cookies and no credentials of this user, for example from ~/.netrc. Every host, also after a redirect,
is checked by its resolved addresses, and the connection goes to a checked address (``carrel.transports.addresses``).
The size of a response is limited before and after decompression.

https://cheatsheetseries.owasp.org/cheatsheets/Server_Side_Request_Forgery_Prevention_Cheat_Sheet.html
"""

from __future__ import annotations

import asyncio
import errno
import zlib
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from carrel.errors import ConfigError, RequestTimeout, ResourceError, ResourceForbidden, ResourceTooLarge
from carrel.transports.addresses import public_connector
from carrel.transports.client.proxies import find_proxy

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

__all__ = ["Fetch", "FetchResponse", "https_url"]

#: The longest URL that is fetched.
MAX_URL = 8192
#: Maximum number of concurrent connections.
MAX_CONNECTIONS = 20
CHUNK = 64 * 1024
REDIRECTS = (301, 302, 303, 307, 308)


class FetchResponse:
    """HTTP response whose body is not read yet. Headers are case-insensitive."""

    def __init__(self, response: ClientResponse, url: str, max_bytes: int) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._url = url
        self._max_bytes = max_bytes

    async def read(self) -> bytes:
        """Read and decompress the body, with bounded memory.

        Raises:
            ResourceTooLarge: it has more bytes than the limit, before or after decompression.
            ResourceError: its content encoding is not supported, or the compressed data is invalid.
        """
        url, most = self._url, self._max_bytes
        too_large = ResourceTooLarge(url, f"The response has more than {most:,} bytes, which is the limit")
        if (self._response.content_length or 0) > most:
            raise too_large
        encoding = self.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
            raise ResourceError(url, f"The response is compressed with {encoding[:100]}, which is not supported")
        inflate = None if encoding in ("identity", "") else Inflation(deflate=encoding == "deflate")
        received, body = 0, bytearray()
        async for piece in self._response.content.iter_chunked(CHUNK):
            received += len(piece)
            try:
                body += piece if inflate is None else inflate.take(piece, most - len(body) + 1)
            except zlib.error:
                raise ResourceError(url, f"The response is not valid {encoding}, as its header says") from None
            if max(received, len(body)) > most:
                raise too_large
        if inflate is not None and received and not inflate.complete:
            raise ResourceError(url, "The response ends too early")
        return bytes(body)


class Fetch:
    """HTTP client with a connection pool; an async context manager.

    Args:
        timeout: seconds for a whole request, with redirects and reading the response.
        max_bytes: size limit of a response, before and after decompression.
        hosts: hosts that may have any address; all other hosts must have public addresses. None allows all hosts.
        accept: the Accept header.
        proxies: whether the proxies of the environment are used. Behind one, resolved addresses cannot be checked.
        max_redirects: maximum number of redirects to follow, only to https:; None to return them like other responses.
        ssl: SSL context with the trusted certificates; None for the system's certificates.
    """

    def __init__(
        self,
        *,
        timeout: float,
        max_bytes: int,
        hosts: Collection[str] | None = (),
        accept: str = "*/*",
        proxies: bool = False,
        max_redirects: int | None = None,
        ssl: SSLContext | None = None,
    ) -> None:
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._hosts = hosts
        self._accept = accept
        self._proxies = proxies
        self._max_redirects = max_redirects
        self._ssl = ssl
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Fetch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def request(
        self, method: str, url: str, *, data: Any = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[FetchResponse]:
        """Send a request and open its response.

        Raises:
            ResourceForbidden: the URL, or one that it redirects to, may not be fetched.
            ResourceError: there is no response.
            RequestTimeout: the request timed out.
        """
        import aiohttp
        from yarl import URL

        if self._session is None:
            self._session = self._open()
        hops = 0
        try:
            target = URL(url)
            async with asyncio.timeout(self._timeout):
                while True:
                    proxy = find_proxy(str(target)) if self._proxies else None
                    async with self._session.request(
                        method, target, data=data, headers=headers, proxy=proxy, allow_redirects=False
                    ) as response:
                        location = response.headers.get("Location")
                        if self._max_redirects is None or response.status not in REDIRECTS or location is None:
                            yield FetchResponse(response, url, self._max_bytes)
                            return
                    hops += 1
                    if hops > self._max_redirects:
                        raise ResourceError(url, f"The page redirects more than {self._max_redirects} times")
                    target = redirected(target, location, url)
        except TimeoutError:
            raise RequestTimeout(f"{url} did not answer within {self._timeout:g} seconds") from None
        except (aiohttp.ClientError, ConfigError, OSError, ValueError, RuntimeError) as error:  # RuntimeError: closing
            if isinstance(error, OSError) and error.errno == errno.EACCES:  # the address is not public
                raise ResourceForbidden(url, f"The URL may not be fetched: {error.strerror}") from None
            reason = str(error)[:200] or type(error).__name__
            raise ResourceError(url, f"The URL cannot be fetched: {reason}") from None

    def _open(self) -> ClientSession:
        import aiohttp

        options: dict[str, Any] = {"limit": MAX_CONNECTIONS} if self._ssl is None else {"ssl": self._ssl}
        if self._hosts is None:
            connector = aiohttp.TCPConnector(**options)
        else:
            connector = public_connector(self._hosts, proxies=self._proxies, **options)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": self._accept, "Accept-Encoding": "gzip, deflate", "User-Agent": "carrel"},
            timeout=aiohttp.ClientTimeout(total=None),  # asyncio.timeout covers the whole request
            trust_env=False,
            auto_decompress=False,
        )


def redirected(target: URL, location: str, url: str) -> URL:
    """Return the URL that a redirect leads to. ``url`` is the original URL, for errors.

    Raises:
        ResourceForbidden: it may not be fetched.
    """
    from yarl import URL

    try:
        joined = target.join(URL(location))
    except ValueError:
        raise ResourceForbidden(url, "The page redirects to an invalid URL") from None
    return https_url(joined, url)


def https_url(target: str | URL, url: str) -> URL:
    """Parse a URL and check that its text allows fetching it. ``url`` is the original URL, for errors.

    Raises:
        ResourceForbidden: it is not an https: URL, or has a user name or password.
    """
    from yarl import URL

    try:
        parsed = URL(target)
        host = parsed.raw_host
        _ = parsed.port
    except ValueError:
        raise ResourceForbidden(url[:MAX_URL], "This is not a URL that can be fetched") from None
    text = str(target)
    if "@" in text.partition("//")[2].partition("/")[0].partition("?")[0].partition("#")[0]:
        # The userinfo is not repeated in the error.
        raise ResourceForbidden(f"https://{host}", "URLs with a user name or a password are not fetched")
    if len(text) > MAX_URL or any(character <= " " or character in "\\\x7f" for character in text):
        raise ResourceForbidden(url[:MAX_URL], "This is not a URL that can be fetched")
    if parsed.scheme != "https" or not host:
        raise ResourceForbidden(url, f"Only https: is fetched, and not {parsed.scheme or 'this'}:")
    return parsed.with_fragment(None)


class Inflation:
    """Incremental gzip and deflate decompression with limited output, against decompression bombs."""

    def __init__(self, *, deflate: bool) -> None:
        self._deflate = deflate
        self._stream = zlib.decompressobj(zlib.MAX_WBITS if deflate else zlib.MAX_WBITS | 16)
        self._begun = False

    @property
    def complete(self) -> bool:
        """Whether the end of the compressed stream was reached."""
        return self._stream.eof

    def take(self, piece: bytes, most: int) -> bytes:
        """Decompress a piece to at most ``most`` bytes; output beyond that is dropped.

        Raises:
            zlib.error: the data is invalid.
        """
        if not self._begun and self._deflate and piece and piece[0] & 15 != 8:
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)  # raw deflate, as some servers send
        self._begun = True
        found = bytearray()
        while piece and len(found) < most:
            if self._stream.eof:
                if self._deflate:
                    raise zlib.error("more after the end")
                self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)  # gzip may have several members
            found += self._stream.decompress(piece, most - len(found))
            piece = self._stream.unconsumed_tail or self._stream.unused_data
        return bytes(found)
