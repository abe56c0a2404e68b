"""WebDAV servers, by aiohttp: ``webdav://HOST/PATH``, and ``webdavs://HOST/PATH`` over TLS.

https://www.rfc-editor.org/rfc/rfc4918
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from carrel.errors import ConfigError
from carrel.sources.packages import needed
from carrel.sources.stores.address import StoreAddress
from carrel.sources.stores.options import WebDAVOptions
from carrel.sources.stores.source import AddressedSource
from carrel.sources.stores.spelling import Spelling
from carrel.sources.stores.store import (
    AccessDenied,
    EntryPage,
    GetOptions,
    GetResult,
    InvalidStore,
    ListingIndex,
    ObjectNotFound,
    Store,
    StoreEntry,
    StoreError,
    Unreadable,
    VersionChanged,
)
from carrel.uri.parse import UriError, encode_path, percent_decode

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

__all__ = ["WebDAVSource", "WebDAVStore"]

SCHEMES = {"webdav": "http", "webdavs": "https"}
LOCAL = ("localhost", "127.0.0.1", "::1")
RESPONSE = "{DAV:}response"
MAX_ANSWER = 64 * 1024 * 1024  # bytes of the description of a directory
MAX_LEVEL = 100_000  # entries of a directory, which are put in order
MAX_ELEMENTS = 1000  # of the description of one of them
CHUNK, STEP = 262_144, 65_536  # bytes of a file, and of a description, that are taken at a time

ASKED = b"""<?xml version="1.0"?><propfind xmlns="DAV:"><prop>
<resourcetype/><getcontentlength/><getlastmodified/><getetag/></prop></propfind>"""


class WebDAVStore(Store):
    """Files below a collection of a WebDAV server. Redirects are not followed."""

    real_directories = True

    def __init__(self, address: StoreAddress, options: WebDAVOptions) -> None:
        self._address = address
        self._options = options
        self._session: ClientSession | None = None
        self._spelling = Spelling(len(address.prefix))
        host = f"[{address.host}]" if ":" in address.host else address.host
        port = "" if address.port is None else f":{address.port}"
        self._origin = f"{SCHEMES[address.scheme]}://{host}{port}"
        if options.password and address.scheme == "webdav" and address.host not in LOCAL:
            raise ConfigError("a password is sent over webdavs: only, where TLS hides it")

    def __repr__(self) -> str:
        return f"WebDAVStore({self._address.base!r})"

    async def open(self) -> None:
        with needed("webdav: URLs", "webdav"):
            import lxml.etree  # type: ignore[import-untyped]  # noqa: F401
            from aiohttp import ClientSession, ClientTimeout, DummyCookieJar
        options = self._options
        user = options.user or self._address.user
        headers = {"Accept-Encoding": "identity"}
        if user is not None:
            token = b64encode(f"{user}:{options.password or ''}".encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        timeout = ClientTimeout(total=None, sock_connect=options.timeout, sock_read=options.timeout)
        self._session = ClientSession(
            headers=headers,
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,  # a compressed body that was not requested is not decompressed
            timeout=timeout,
        )

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def _ask(self, method: str, key: str, headers: Mapping[str, str], data: bytes = b"") -> AsyncIterator[Any]:
        from aiohttp import ClientError
        from yarl import URL

        if self._session is None:
            raise StoreError("it is closed")
        url = URL(f"{self._origin}/{encode_path(key.split('/'))}", encoded=True)
        try:
            async with self._session.request(
                method, url, headers=dict(headers), data=data or None, allow_redirects=False
            ) as response:
                check(response)
                yield response
        except (ClientError, OSError) as error:
            raise StoreError(str(error) or type(error).__name__) from None

    async def _find(self, key: str, depth: str) -> list[StoreEntry]:
        """Return the entry of a file or a directory and, with depth 1, the entries inside it (PROPFIND)."""
        headers = {"Depth": depth, "Content-Type": "application/xml"}
        async with self._ask("PROPFIND", key, headers, ASKED) as response:
            if response.status != 207:
                raise StoreError(f"the server answered {response.status}, which is not what WebDAV servers answer")
            answer, size = MultiStatus(self._origin), 0
            async for data in response.content.iter_chunked(STEP):
                size += len(data)
                if size > MAX_ANSWER:
                    raise Unreadable(f"its description has more than {MAX_ANSWER:,} bytes")
                answer.feed(data)
                await asyncio.sleep(0)  # let other tasks run
        return answer.close()

    # Lists

    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> EntryPage:
        level = prefix[: prefix.rfind("/") + 1]
        entries = await self._entries(level)
        await self._check(level)
        page = ListingIndex(entries).level(prefix, after, limit)
        self._spelling.learn(entry.key for entry in page.entries)
        return page

    async def _entries(self, level: str) -> Collection[StoreEntry]:
        answer = await self._find(level, "1")
        if level and all(entry.key != level for entry in answer):
            raise ObjectNotFound(level)  # it is a file
        # Ignore entries that are not directly inside the directory.
        return {entry.key: entry for entry in answer if is_inside(entry.key, level)}.values()

    async def _check(self, key: str) -> None:
        await self._spelling.check(key, self._exists, self._entries)

    async def _exists(self, key: str) -> bool:
        try:
            return bool(await self._find(key, "0"))
        except ObjectNotFound:
            return False

    # Files

    async def head(self, key: str) -> StoreEntry:
        for entry in await self._find(key, "0"):
            if entry.key == key:
                await self._check(key)
                return entry
        raise ObjectNotFound(key)  # such as a directory, whose path ends with a slash

    async def get(self, key: str, wanted: GetOptions) -> GetResult | None:
        headers: dict[str, str] = {}
        if wanted.match is None:
            entry = await self.head(key)
            if not wanted.check(entry):
                return None
            if not entry.size:
                return GetResult(b"", entry)
        elif wanted.match.startswith('"'):
            headers["If-Match"] = wanted.match
        if wanted.range is not None:
            headers["Range"] = wanted.range
        async with self._ask("GET", key, headers) as response:
            entry = entry_of(key, response)
            if wanted.match is not None and entry.version != wanted.match:
                raise VersionChanged(key)
            skip = wanted.skip(response.status, response.headers.get("Content-Range", ""))
            data = await read_body(response, skip, wanted.limit + (wanted.first is None))
        return wanted.part(data, entry)


def is_inside(key: str, level: str) -> bool:
    name = key[len(level) :].removesuffix("/")
    return key.startswith(level) and name != "" and "/" not in name


async def read_body(response: ClientResponse, skip: int, count: int) -> bytes:
    """Return up to ``count`` bytes of a body, after the first ``skip`` ones."""
    parts: list[bytes] = []
    while count > 0 and (data := await response.content.read(CHUNK)):
        kept = data[skip:][:count]
        skip = max(skip - len(data), 0)
        count -= len(kept)
        parts.append(kept)
    return b"".join(parts)


def check(response: ClientResponse) -> None:
    """Check the status of a response.

    Raises:
        StoreError: it is an error, or a redirect.
    """
    status = response.status
    if status == 401:
        raise InvalidStore("the server rejected the login: use the options user and password")
    kinds = {403: AccessDenied, 404: ObjectNotFound, 405: ObjectNotFound, 410: ObjectNotFound, 412: VersionChanged}
    if status in kinds or not 200 <= status < 300:
        raise kinds.get(status, StoreError)(f"the server answered {status}")


class MultiStatus:
    """Parser of a multistatus response of an origin, part by part, that keeps no more than its entries.

    Raises:
        StoreError: (each method) it is not well-formed.
        Unreadable: (each method) it has more entries than can be put in order.
    """

    def __init__(self, origin: str) -> None:
        from lxml import etree

        self._host = urlsplit(origin).hostname

        self._parser = etree.XMLPullParser(
            events=("end",), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
        )
        self._damaged: type[Exception] = etree.XMLSyntaxError
        self._entries: list[StoreEntry] = []
        self._elements = 0

    def feed(self, data: bytes) -> None:
        """Parse a part."""
        try:
            self._parser.feed(data)
            for _, element in self._parser.read_events():
                self._elements += 1
                if element.tag == RESPONSE:
                    self._take(element)
                elif self._elements > MAX_ELEMENTS:
                    raise StoreError(f"the server answered with more than {MAX_ELEMENTS:,} elements about one file")
        except self._damaged as error:
            raise damaged(error) from None

    def _take(self, response: Any) -> None:
        entry = entry_in(response, self._host)
        if entry is not None:
            self._entries.append(entry)
        if len(self._entries) > MAX_LEVEL:
            raise Unreadable(f"it has more than {MAX_LEVEL:,} entries")
        self._elements = 0
        response.clear()
        while response.getprevious() is not None:
            response.getparent().remove(response.getprevious())

    def close(self) -> list[StoreEntry]:
        """Return the entries, whose keys are their paths."""
        try:
            self._parser.close()
        except self._damaged as error:
            raise damaged(error) from None
        return self._entries


def damaged(error: Exception) -> StoreError:
    return StoreError(f"the server answered with XML that is damaged ({error})")


def entry_in(response: Any, host: str | None) -> StoreEntry | None:
    """Return the entry that an element of a multistatus response describes; None if it has no path, or another host."""
    properties = {
        item.tag: item
        for status in response.iterfind("{DAV:}propstat")
        if " 200" in (status.findtext("{DAV:}status") or " 200")
        for item in status.iterfind("{DAV:}prop/*")
    }
    try:
        where = urlsplit((response.findtext("{DAV:}href") or "").strip())
        if where.netloc and where.hostname != host:  # the scheme and the port may be those before a proxy
            return None
        key = percent_decode(where.path).strip("/")
    except (UriError, ValueError):
        return None
    kind = properties.get("{DAV:}resourcetype")
    if kind is not None and kind.find("{DAV:}collection") is not None:
        return StoreEntry(f"{key}/")
    text = {name: (item.text or "").strip() for name, item in properties.items()}
    length = text.get("{DAV:}getcontentlength", "")
    return make_entry(key.rstrip("/"), length, text.get("{DAV:}getlastmodified", ""), text.get("{DAV:}getetag", ""))


def entry_of(key: str, response: ClientResponse) -> StoreEntry:
    """Parse the headers of a response into an entry."""
    headers = response.headers
    length = headers.get("Content-Range", "").rpartition("/")[2] or headers.get("Content-Length", "")
    return make_entry(key, length, headers.get("Last-Modified", ""), headers.get("ETag", ""))


def make_entry(key: str, length: str, modified: str, tag: str) -> StoreEntry:
    size = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None
    try:
        time: float | None = parsedate_to_datetime(modified).timestamp()
    except (ValueError, OverflowError):
        time = None
    if tag.startswith("W/"):
        tag = ""  # does not say that the bytes are the same
    elif tag and not tag.startswith('"'):
        tag = f'"{tag}"'
    return StoreEntry(key, size, time, tag or f"{modified}-{length}")


class WebDAVSource(AddressedSource):
    """Provider of the files of a WebDAV server, given as ``webdavs://HOST/PATH`` or ``webdav://HOST/PATH``.

    Raises:
        ConfigError: the URL names no server, or has a password.
    """

    options = WebDAVOptions
    store = WebDAVStore
