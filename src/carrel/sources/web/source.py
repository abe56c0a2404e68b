"""Source ``https:`` and ``web+https:``: pages of one site, for clients to fetch, or fetched here as Markdown.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources#https%3A%2F%2F
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING

import msgspec

from carrel.catalog.paging import page_after
from carrel.catalog.provider import Change, Events, Hit, Interest, Page, Request
from carrel.errors import ConfigError, MCPError, ResourceError, ResourceNotFound
from carrel.sources.base import BaseSource, PartialVariable
from carrel.sources.content.directory import directory_contents
from carrel.sources.content.text import UTF8, describe_encoding
from carrel.sources.content.text import decode as detect
from carrel.sources.content.window import SUGGESTIONS, invalid_window, parse_window, slice_data, window_templates
from carrel.sources.content.words import words_of
from carrel.sources.documents.documents import Documents, Original
from carrel.sources.documents.kinds import kind_of as document_kind
from carrel.sources.polling import poll
from carrel.sources.watches import RunningWatches
from carrel.sources.web.cache import Cached
from carrel.sources.web.feeds import kind_of, read_feed
from carrel.sources.web.fetching import PageClient
from carrel.sources.web.options import WebOptions
from carrel.sources.web.pages import Lister, SharedPages, type_of_page
from carrel.sources.web.readable import HTML, html_text, to_markdown
from carrel.sources.web.scope import PageAddress, WebScope
from carrel.sources.workers import Workers
from carrel.transports.addresses import is_loopback, is_public, plain, read_address
from carrel.transports.client.response_text import decode, is_textual
from carrel.uri.parse import percent_decode
from carrel.wire.resources import (
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    TextResourceContents,
)

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["WebSource", "contents_of", "read_entry", "window_of"]


class WebSource(BaseSource):
    """Provider of the pages of one site, given by an ``https:``, ``web+https:`` or ``web+http:`` URL.

    Under ``https:``, clients may fetch the listed pages themselves; for other clients, pages are read unchanged. Under
    ``web+https:``, pages are fetched and cached here, and HTML is converted to Markdown.

    Args:
        ssl: SSL context with the trusted certificates, by default the system's certificates.

    Raises:
        ConfigError: the target is not the URL of a page, or its host is in the local network and not allowed.
    """

    options = WebOptions
    shares_watch = True
    _documents: Documents

    def __init__(
        self,
        target: str,
        options: WebOptions = WebOptions(),  # noqa: B008
        *,
        ssl: SSLContext | None = None,
    ) -> None:
        self._scope = WebScope(target)
        check_public(self._scope.host, options)
        self._options = options
        self.name = self.uri = self._scope.uri
        self.prefixes = self._scope.prefixes
        self._workers = Workers(self, "carrel-web")
        self._pages = PageClient(options, self._workers, ssl, self._leaves)
        self._lister = Lister(self._scope, options, self._pages, self._workers)
        self._documents = Documents(
            self, offered=options.documents and self._scope.fetched, locations=options.image_locations
        )
        self._listing: SharedPages | None = None
        self._looked = 0.0
        self._is_outdated = False
        """Whether another replica has seen that pages have changed since the list was made."""
        self._lock = asyncio.Lock()
        self._versions: dict[str, tuple[bytes, int]] = {}
        self._watches = RunningWatches()

    def __repr__(self) -> str:
        return f"WebSource({self.uri!r})"

    async def start(self, events: Events) -> None:
        """Start the source, without a request to the site.

        Raises:
            ConfigError: a package is missing, or the folder for pages cannot be used.
        """
        require_libraries()
        self._workers.start()
        try:
            await self._pages.open()
        except BaseException:
            await self._workers.stop(0)
            raise

    async def stop(self) -> None:
        """Stop the source: close watches and connections, and clear the caches."""
        await self._watches.stop()
        await self._documents.stop()
        await self._workers.stop()
        await self._pages.close()
        self._listing = None

    # Lists

    async def _list(self, *, refresh: bool = False) -> SharedPages:
        """Return the shared pages. The list is refreshed after ``cache_seconds``."""
        self._workers.check()
        async with self._lock:
            now = asyncio.get_running_loop().time()
            refresh = refresh or self._is_outdated
            self._is_outdated = False
            if self._listing is None or refresh or now - self._looked > self._options.cache_seconds:
                found = await self._lister.look(refresh=refresh)
                described = {uri: self._documents.describe(one) for uri, one in found.resources.items()}
                self._listing = msgspec.structs.replace(found, resources=described)
                self._looked = now
            return self._listing

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the shared pages, in the order of their URIs."""
        listing = await self._list()
        return page_after(list(listing.resources.values()), request, f"web {self.uri}")

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the entries of a feed, or of the pages of a sitemap."""
        listing = await self._list()
        if uri not in listing.directories:
            raise ResourceNotFound(uri)
        return page_after(listing.inside(uri), request, f"web entries {uri}")

    # Reading

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return a page as Markdown or unchanged, the entries of a feed or a sitemap as JSON, or a window of them."""
        self._workers.check()
        try:
            # A page of a site may have parameters of the same names; a file such as report.pdf has not.
            if self._documents.kind(type_of_page(uri)) is not None:
                return await self._documents.read(uri, request, self._read, self._original)
            return await self._read(uri, request)
        except ResourceError as error:  # of the URL that was fetched
            raise type(error)(uri, error.message) from None

    async def _read(self, uri: str, request: Request) -> ReadResourceResult:
        address = self._scope.address(uri)
        page = await self._get(address, uri)
        whole = self._scope.uri_of(address.url)
        if address.extra.startswith("entry="):
            contents: ResourceContents = await read_entry(self._workers, request.client, page, uri, address.extra)
        else:
            listing = None
            if self._listing is None or whole in self._listing.directories:
                listing = await self._list()
            if listing is not None and whole in listing.directories and not address.extra:
                contents = directory_contents(uri, listing.inside(whole))
            else:
                contents = await contents_of(
                    self._workers, request.client, page, uri, address.extra, convert=self._scope.fetched
                )
                self._pages.cache.put(address.url, page, page.size)  # it has grown by its Markdown
        fresh = max(page.fresh_until - asyncio.get_running_loop().time(), 0.0)
        return ReadResourceResult(contents=[contents], ttl_ms=int(fresh * 1000))

    async def _get(self, address: PageAddress, uri: str) -> Cached:
        if not self._scope.includes(address.url):
            known = self._listing or await self._list()
            if self._scope.folder or self._scope.uri_of(address.url) not in known.resources:
                raise ResourceNotFound(uri)
        return await self._pages.get(address.url)

    def _leaves(self, url: str, target: str) -> bool:
        """Return whether a redirect of a page leads out of the shared pages.

        A single page that is shared by its URL may redirect within its host. So may lists of pages outside of the
        folder, which are not sent to clients.
        """
        scope, page = self._scope, self._scope.page_of(target)
        if scope.folder:
            return scope.includes(url) and (page is None or not scope.includes(page))
        listed = () if self._listing is None else self._listing.resources
        return url != scope.url and scope.uri_of(url) in listed and (page is None or scope.uri_of(page) not in listed)

    async def _original(self, uri: str, request: Request, limit: int, known: Callable[[Hashable], bool]) -> Original:
        page = await self._get(self._scope.address(uri), uri)
        kind = page.kind if document_kind(page.kind) is not None else type_of_page(uri)
        return Original(kind, page.digest, page.data)

    # Templates, completion, search

    def _templates(self) -> list[ResourceTemplate]:
        """Return the templates of the pages below a folder, and of windows and texts of pages that are fetched here."""
        scope, title = self._scope, self._options.title or f"{self._scope.host}: page"
        literal, which = (f"{self.uri}{{+path}}", "a page") if scope.folder else (self.uri, "the page")
        shown = "A page as Markdown, by its path" if scope.fetched else "A page, by its path"
        found = [ResourceTemplate(literal, title, description=f"{shown} below {scope.url}")] if scope.folder else []
        found += window_templates(literal, title, which) if scope.fetched else []
        return found + (self._documents.templates(literal, scope.host) if scope.folder else [])

    async def _suggest(self, variable: PartialVariable, request: Request) -> list[str]:
        """Return the paths of known pages that begin with the typed text, followed by the paths that contain it."""
        if variable.name != "path":
            return [text for text in SUGGESTIONS[variable.name] if text.startswith(variable.value)]
        listing = await self._list()
        paths = [
            uri.removeprefix(self.uri) for uri in listing.resources if uri.startswith(self.uri) and uri != self.uri
        ]
        typed = variable.value.casefold()
        begin = [path for path in paths if unescaped(path).casefold().startswith(typed)]
        seen = set(begin)
        inside = [path for path in paths if path not in seen and typed in unescaped(path).casefold()]
        return begin + inside

    async def _hits(self, query: str, limit: int, request: Request) -> list[Hit]:
        """Return the pages whose titles or addresses have all words of a query."""
        words = words_of(query)
        hits: list[Hit] = []
        for resource in (await self._list()).resources.values() if words else ():
            name = f"{resource.title or ''} {resource.name}".casefold()
            text = f"{name} {unescaped(resource.uri).casefold()}"
            if all(word in text for word in words):
                hits.append(Hit(resource, 1.0 if all(word in name for word in words) else 0.5))
        hits.sort(key=lambda hit: -hit.score)
        return hits[:limit]

    # Changes

    def outdated(self, uris: Collection[str]) -> None:
        """Validate cached pages at the site before they are used again."""
        self._is_outdated = True
        for uri in uris:
            with contextlib.suppress(MCPError):
                known = self._pages.cache.get(self._scope.address(uri).url)
                if known is not None:
                    known.fresh_until = -math.inf

    def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Return changes that polling finds: of the list, of feeds and sitemaps, and of subscribed pages."""
        return self._watches.join(poll(lambda: self._look(interest), self._options.poll_seconds, owner=self.uri))

    async def _look(self, interest: Interest) -> Mapping[str, Hashable]:
        """Return a fingerprint for each page: its version in the sitemap or feed, and a count of changes."""
        listing = await self._list(refresh=True)
        fingerprints: dict[str, Hashable] = {uri: listing.versions.get(uri, "") for uri in listing.resources}
        for uri in interest.uris:
            try:
                address = self._scope.address(uri)
                shared = self._scope.includes(address.url) or uri in listing.resources
                if not shared or address.extra.startswith("entry=") or uri in listing.directories:
                    continue
                known = self._pages.cache.get(address.url)
                before = known.digest if known is not None else None
                page = await self._pages.get(address.url, refresh=True)
            except ResourceNotFound:
                continue
            except MCPError:
                number = self._versions.get(uri, (b"", 0))[1]
                fingerprints[uri] = (fingerprints.get(uri, ""), number)
                continue
            last, number = self._versions.get(uri, (before or page.digest, 0))
            if page.digest != last:
                number += 1
            self._versions[uri] = page.digest, number
            fingerprints[uri] = (fingerprints.get(uri, ""), number)
        return fingerprints


def unescaped(uri: str) -> str:
    try:
        return percent_decode(uri)
    except ValueError:
        return uri


def check_public(host: str, options: WebOptions) -> None:
    """Check that a host is not this machine or in the local network, unless it is allowed. Names are not resolved.

    Raises:
        ConfigError: the host is local. The message names the option that allows it.
    """
    address = read_address(host)
    inside = is_loopback(host) if address is None else not is_public(address)
    if inside and plain(host) not in map(plain, options.private_hosts):
        raise ConfigError(
            f"{host} is a private address, which is not fetched unless private_hosts names it: --private-hosts {host}"
        )


def require_libraries() -> None:
    """Check that the packages for fetching and reading pages are installed, without importing them.

    Raises:
        ConfigError: a package is missing.
    """
    from importlib.util import find_spec

    for name in ("aiohttp", "trafilatura", "feedparser", "protego", "lxml"):
        if find_spec(name) is None:
            raise ConfigError(f"web pages need the package {name}: pip install 'carrel[web]'")


#: Maximum size of a text that is returned whole, and of a window, in bytes.
MAX_TEXT = 4 * 1024 * 1024


async def contents_of(
    workers: Workers, client: str, page: Cached, uri: str, window: str, *, convert: bool
) -> ResourceContents:
    """Return a page; HTML as Markdown with ``convert``. ``window`` is the requested window, or empty.

    Raises:
        InvalidParams: the window is not valid.
    """
    kind, encoding = page.kind, UTF8
    if convert and kind in HTML:
        if page.markdown is None:
            page.markdown = await workers.run(client, convert_page, page)
        text: str | None = page.markdown
        kind = "text/markdown"
    else:
        text = decode(page.data, page.charset) if is_textual(kind) else None
        if text is not None and kind == "" and "\0" in text:
            text = None
        if text is None and is_textual(kind):
            found = await workers.run(client, detect, page.data)
            if found is not None:
                text, encoding = found
    meta = ({"carrel/url": page.url} if convert else {}) | describe_encoding(encoding)
    if text is None:
        return window_of(BlobResourceContents(uri, page.data, mime_type=kind or None, meta=meta or None), window)
    return window_of(TextResourceContents(uri, text, mime_type=kind or None, meta=meta or None), window)


def convert_page(page: Cached) -> str:
    return to_markdown(html_text(page.data, page.charset), page.url)


async def read_entry(workers: Workers, client: str, page: Cached, uri: str, extra: str) -> ResourceContents:
    """Return an entry of a feed as Markdown.

    Raises:
        ResourceNotFound: the feed does not contain the entry, or the page is not a feed.
    """
    wanted = extra.removeprefix("entry=")
    if kind_of(page) == "feed":
        _, entries = await workers.run(client, read_feed, page)
        for entry in entries:
            if entry.id == wanted:
                text = await workers.run(client, entry.markdown)
                return TextResourceContents(uri, text, mime_type="text/markdown")
    raise ResourceNotFound(uri)


def window_of(contents: ResourceContents, query: str) -> ResourceContents:
    """Return a window of a page; all of it if the query is empty.

    Raises:
        InvalidParams: the window is not valid, or is a window of lines of bytes.
        ResourceTooLarge: it is larger than a window may be.
    """
    window = parse_window(query)
    if window is None:
        return contents
    is_text = isinstance(contents, TextResourceContents)
    if not is_text and window.unit != "bytes":
        raise invalid_window("bytes", f"the page is not text and has no {window.unit}, only bytes")
    data = contents.text.encode() if isinstance(contents, TextResourceContents) else contents.blob
    excerpt, more = slice_data(data, window, MAX_TEXT, UTF8 if is_text else None, contents.uri)
    found = {"text": excerpt.decode()} if is_text else {"blob": excerpt}
    return msgspec.structs.replace(contents, meta={**(contents.meta or {}), **more}, **found)
