"""HTTPS resources, fetched directly from the web with protection against SSRF, without asking the MCP server.

Such a URI is untrusted, so it may lead to the public Internet only, which is checked for every redirect and for the
resolved address of every connection. Requests carry no cookies, credentials or referrer. No proxy is used, because the
addresses behind one cannot be checked.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources#https%3A%2F%2F
https://cheatsheetseries.owasp.org/cheatsheets/Server_Side_Request_Forgery_Prevention_Cheat_Sheet.html
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from carrel.errors import (
    ConfigError,
    RequestTimeout,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.transports.addresses import public_connector
from carrel.wire.resources import BlobResourceContents, ResourceContents, TextResourceContents

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

__all__ = ["MAX_BYTES", "fetch"]

#: Default size limit of a page, in bytes.
MAX_BYTES = 16 * 1024 * 1024
MAX_URL = 8192
CHUNK = 64 * 1024

REDIRECTS = (301, 302, 303, 307, 308)
HEADERS = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "User-Agent": "carrel"}

#: Media types besides text/* that are text, and the suffixes of such types.
TEXTUAL = frozenset(
    f"application/{name}"
    for name in (
        *("ecmascript", "graphql", "javascript", "json", "jsonl", "ndjson", "sql", "toml", "x-javascript"),
        *("x-ndjson", "x-sh", "x-toml", "x-yaml", "xhtml", "xml", "yaml"),
    )
)
TEXTUAL_ENDINGS = ("+json", "+xml", "+yaml")
#: Byte order marks (BOM) and their encodings; UTF-32 before UTF-16, whose marks are prefixes.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: Python codecs that are not character encodings of pages. Some of them decode in quadratic time.
NOT_ENCODINGS = frozenset(("idna", "mbcs", "oem", "punycode", "rawunicodeescape", "undefined", "unicodeescape", "utf7"))


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
        max_redirects: how many redirects are followed, only to https: on the public Internet.
        allowed: hosts that may have any address, because the user has named them.
        ssl: SSL context with the trusted certificates; those of the system if None.

    Raises:
        ResourceNotFound: there is no such page.
        ResourceForbidden: the URL, or one that it redirects to, may not be fetched; or the web server denies access.
        ResourceTooLarge: the page has more than ``max_bytes``.
        ResourceError: the page cannot be fetched for another reason.
        RequestTimeout: the fetch timed out.
        ConfigError: aiohttp is not installed.
    """
    try:
        import aiohttp
    except ImportError:
        raise ConfigError("Fetching from the web needs the package aiohttp: pip install 'carrel[client]'") from None
    place = check(url, url)
    connector = public_connector(allowed, proxies=False, force_close=True, **({} if ssl is None else {"ssl": ssl}))
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=HEADERS,
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
        auto_decompress=False,
    )
    try:
        async with asyncio.timeout(timeout), session:
            for _ in range(max_redirects + 1):
                found = await visit(session, place, url, max_bytes)
                if isinstance(found, list):
                    return found
                place = check(found, url)
            raise ResourceError(url, f"The page redirects more than {max_redirects} times")
    except TimeoutError:
        raise RequestTimeout(f"{url} did not come within {timeout:g} seconds") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EACCES:  # the address is not public
            raise ResourceForbidden(url, f"The page may not be fetched: {error.strerror}") from None
        reason = str(error)[:200] or type(error).__name__
        raise ResourceError(url, f"The page cannot be fetched: {reason}") from None


def check(place: str | URL, url: str) -> URL:
    """Parse a URL and check that its text allows fetching it. ``url`` is the original URL, for errors.

    Raises:
        ResourceForbidden: the URL may not be fetched.
    """
    from yarl import URL

    try:
        parsed = URL(place)
        host = parsed.raw_host
        _ = parsed.port
    except ValueError:
        raise ResourceForbidden(url[:MAX_URL], "This is not a URL that can be fetched") from None
    text = str(place)
    if "@" in text.partition("//")[2].partition("/")[0].partition("?")[0].partition("#")[0]:
        # The userinfo is not repeated in the error.
        raise ResourceForbidden(f"https://{host}", "URLs with a user name or a password are not fetched")
    if len(text) > MAX_URL or any(character <= " " or character in "\\\x7f" for character in text):
        raise ResourceForbidden(url[:MAX_URL], "This is not a URL that can be fetched")
    if parsed.scheme != "https" or not host:
        raise ResourceForbidden(url, f"Only https: is fetched, and not {parsed.scheme or 'this'}:")
    return parsed.with_fragment(None)


async def visit(session: ClientSession, place: URL, url: str, max_bytes: int) -> list[ResourceContents] | URL:
    """Send one GET request, and return the contents or the URL that it redirects to."""
    from yarl import URL

    async with session.get(place, allow_redirects=False) as response:
        status = response.status
        if status in REDIRECTS and "Location" in response.headers:
            try:
                return place.join(URL(response.headers["Location"]))
            except ValueError:
                raise ResourceForbidden(url, "The page redirects to what is no URL") from None
        if status in (404, 410):
            raise ResourceNotFound(url, "There is no such page")
        if status in (401, 403, 407):
            raise ResourceForbidden(url, f"The web server refuses with {status}")
        if not 200 <= status < 300 or status == 206:
            raise ResourceError(url, f"The web server answers {status}")
        data = await read_body(response, url, max_bytes)
        return [contents_of(url, data, *read_type(response.headers.get("Content-Type", "")))]


async def read_body(response: ClientResponse, url: str, max_bytes: int) -> bytes:
    """Read and decompress the body of a response, with bounded memory.

    Raises:
        ResourceTooLarge: it has more than ``max_bytes``.
        ResourceError: its content encoding is not supported, or the compressed data is invalid.
    """
    too_large = ResourceTooLarge(url, f"The page has more than {max_bytes:,} bytes, which is the limit")
    if (response.content_length or 0) > max_bytes:
        raise too_large
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise ResourceError(url, f"The page is compressed with {encoding[:100]}, which is not known here")
    inflate = None if encoding in ("identity", "") else Inflation(deflate=encoding == "deflate")
    received, body = 0, bytearray()
    async for piece in response.content.iter_chunked(CHUNK):
        received += len(piece)
        try:
            body += piece if inflate is None else inflate.take(piece, max_bytes - len(body) + 1)
        except zlib.error:
            raise ResourceError(url, f"The page is not compressed with {encoding}, although it says so") from None
        if max(received, len(body)) > max_bytes:
            raise too_large
    if inflate is not None and received and not inflate.complete:
        raise ResourceError(url, "The page ends too early")
    return bytes(body)


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


def read_type(header: str) -> tuple[str, str]:
    """Return the media type and the charset of a Content-Type header, each empty if missing."""
    kind, *parameters = header.split(";")
    kind = kind.strip().lower()
    if (
        kind.count("/") != 1
        or not kind.isascii()
        or any(character <= " " or character in '"<>\\' for character in kind)
    ):
        kind = ""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return kind, value.strip().strip("\"'").lower()
    return kind, ""


def contents_of(url: str, data: bytes, kind: str, charset: str) -> ResourceContents:
    """Return text contents if the media type is textual and the bytes can be decoded, and a blob otherwise."""
    text = decode(data, charset) if is_textual(kind) else None
    if text is not None and not (kind == "" and "\0" in text):
        return TextResourceContents(url, text, mime_type=kind or None)
    return BlobResourceContents(url, data, mime_type=kind or None)


def is_textual(kind: str) -> bool:
    """Return whether a media type is textual; an empty one may be."""
    return kind == "" or kind.startswith("text/") or kind in TEXTUAL or kind.endswith(TEXTUAL_ENDINGS)


def decode(data: bytes, charset: str) -> str | None:
    """Decode bytes by their byte order mark, by ``charset``, or as UTF-8. None if they cannot be decoded."""
    encoding = charset if charset and is_encoding(charset) else "utf-8"
    for mark, name in MARKS:
        if data.startswith(mark):
            data, encoding = data[len(mark) :], name
            break
    try:
        return data.decode(encoding)
    except (UnicodeError, LookupError):
        return None


def is_encoding(charset: str) -> bool:
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return False
    return name.replace("-", "").replace("_", "") not in NOT_ENCODINGS
