"""List of the pages that a web source shares: of a sitemap, of the links of a page, or of the entries of a feed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from carrel.errors import MCPError, ResourceNotFound
from carrel.log import Log
from carrel.media_types import DIRECTORY, type_of_name
from carrel.sources.web.cache import Cached
from carrel.sources.web.feeds import FeedEntry, kind_of, read_feed, read_sitemap
from carrel.sources.web.fetching import PageClient
from carrel.sources.web.options import WebOptions
from carrel.sources.web.readable import HTML, html_text, outline
from carrel.sources.web.scope import WebScope
from carrel.sources.workers import Workers
from carrel.wire.base import Annotations
from carrel.wire.resources import Resource

__all__ = ["Lister", "SharedPages"]

log = Log("carrel.sources")

MAX_SITEMAPS = 50
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?")
PRIORITY = 1.0


class SharedPages(msgspec.Struct, frozen=True):
    """Shared pages by URI, in the order of their URIs, with the versions that sitemaps and feeds give them.

    ``directories`` are the feeds and the sitemap, with the URIs of their entries.
    """

    resources: Mapping[str, Resource]
    versions: Mapping[str, str]
    directories: Mapping[str, tuple[str, ...]]

    def inside(self, uri: str) -> list[Resource]:
        """Return the entries of a directory, in the order of their URIs."""
        return [self.resources[one] for one in sorted(self.directories[uri])]


class Lister:
    """Finds the pages of a scope."""

    def __init__(self, scope: WebScope, options: WebOptions, pages: PageClient, workers: Workers) -> None:
        self._scope = scope
        self._options = options
        self._pages = pages
        self._workers = workers

    async def look(self, *, refresh: bool) -> SharedPages:
        """Fetch the target and return the shared pages.

        Raises:
            ResourceError: the target cannot be fetched.
            RequestTimeout: the site did not answer in time.
        """
        scope = self._scope
        found = _Found(scope, self._options.max_pages)
        page = await self._pages.get(scope.url, refresh=refresh)
        kind = kind_of(page)
        if kind == "feed" and scope.fetched:
            await self._add_feed(found, scope.url, page, self._options.title)
        elif kind == "sitemap":
            inside = await self._add_sitemaps(found, [scope.url], refresh)
            found.add_directory(scope.url, self._options.title or f"Sitemap of {scope.host}", inside)
        else:
            await self._add_page(found, page, refresh)
        ordered = dict(sorted(found.resources.items()))
        return SharedPages(ordered, found.versions, found.directories)

    async def _add_page(self, found: _Found, page: Cached, refresh: bool) -> None:
        scope = self._scope
        title = ""
        links: list[str] = []
        feeds: list[str] = []
        if page.kind in HTML:
            html = html_text(page.data, page.charset)
            title, links, feeds = await self._workers.run("", outline, html, page.url)
        shown = self._options.title or title
        found.add(scope.url, shown, page.modified and http_time(page.modified), page=page, priority=PRIORITY)
        if not scope.folder:
            return
        for url in feeds if scope.fetched else ():
            canonical = scope.canonical(url)
            if canonical is not None and scope.includes(canonical):
                await self._try_feed(found, canonical, refresh)
        listed = await self._sitemap_pages(found, refresh) if self._options.sitemap else 0
        inside = [
            one for one in map(scope.canonical, () if listed else links) if one is not None and scope.includes(one)
        ]
        for url in await self._pages.allowed(scope.origin, inside):
            found.add(url)

    async def _sitemap_pages(self, found: _Found, refresh: bool) -> int:
        scope = self._scope
        try:
            named = await self._pages.sitemaps(scope.origin)
        except MCPError:
            named = []
        return len(await self._add_sitemaps(found, named or [f"{scope.origin}/sitemap.xml"], refresh, quiet=not named))

    async def _try_feed(self, found: _Found, url: str, refresh: bool) -> None:
        try:
            page = await self._pages.get(url, refresh=refresh)
        except MCPError as error:
            log.debug("%s is left out of the list: %s", url, error)
            return
        if kind_of(page) == "feed":
            await self._add_feed(found, url, page, None)

    async def _add_feed(self, found: _Found, url: str, page: Cached, title: str | None) -> None:
        own, entries = await self._workers.run("", read_feed, page)
        inside = tuple(found.add_entry(url, entry) for entry in entries[: self._options.max_pages])
        found.add_directory(url, title or own, inside)

    async def _add_sitemaps(
        self, found: _Found, urls: list[str], refresh: bool, *, quiet: bool = False
    ) -> tuple[str, ...]:
        """Add the pages of sitemaps, and of the sitemaps that they refer to, if they have this origin."""
        scope, inside = self._scope, []
        waiting, seen = list(urls), set[str]()
        while waiting and len(seen) < MAX_SITEMAPS:
            url = scope.canonical(waiting.pop(0))
            if url is None or url in seen:
                continue
            seen.add(url)
            try:
                page = await self._pages.get(url, refresh=refresh)
            except MCPError as error:
                if url == scope.url:
                    raise
                if not (quiet and isinstance(error, ResourceNotFound)):
                    log.warning("the sitemap %s is left out: %s", url, error)
                continue
            if kind_of(page) != "sitemap":
                continue
            sitemap = await self._workers.run("", read_sitemap, page, self._options.max_pages)
            waiting += sitemap.sitemaps
            times = {scope.canonical(listed): modified for listed, modified in sitemap.pages.items()}
            shared = [one for one in times if one is not None and (scope.includes(one) or not scope.folder)]
            for one in await self._pages.allowed(scope.origin, shared):
                uri = found.add(one, modified=times[one])
                inside += [uri] if uri is not None else []
        return tuple(dict.fromkeys(inside))


class _Found:
    """Resources found so far."""

    def __init__(self, scope: WebScope, most: int) -> None:
        self.resources: dict[str, Resource] = {}
        self.versions: dict[str, str] = {}
        self.directories: dict[str, tuple[str, ...]] = {}
        self._scope = scope
        self._most = most

    def add(
        self,
        url: str,
        title: str = "",
        modified: str | None = None,
        *,
        page: Cached | None = None,
        priority: float | None = None,
    ) -> str | None:
        """Add a page, and return its URI; None if there are too many."""
        uri = self._scope.uri_of(url)
        if uri not in self.resources:
            if len(self.resources) >= self._most:
                return None
            kind = shown_type(page.kind, fetched=self._scope.fetched) if page is not None else type_of_page(url)
            self.resources[uri] = Resource(
                uri, name_of(url), title=title or None, mime_type=kind, annotations=annotate(modified, priority)
            )
        if modified:
            self.versions[uri] = modified
        return uri

    def add_entry(self, url: str, entry: FeedEntry) -> str:
        uri = self._scope.uri_of(entry_url(url, entry.id))
        self.resources[uri] = Resource(
            uri, entry.title, mime_type="text/markdown", annotations=annotate(entry.modified, None)
        )
        self.versions[uri] = f"{entry.modified} {hash_of(entry)}"
        return uri

    def add_directory(self, url: str, title: str, inside: tuple[str, ...]) -> None:
        uri = self._scope.uri_of(url)
        self.resources[uri] = Resource(uri, name_of(url), title=title or None, mime_type=DIRECTORY)
        self.directories[uri] = inside
        self.versions[uri] = " ".join(inside)


def entry_url(url: str, entry: str) -> str:
    """Return the URL of a feed with a parameter that names an entry."""
    return f"{url}{'&' if '?' in url else '?'}entry={entry}"


def timestamp(timestamp: str | None) -> str | None:
    """Return a date or a time of a sitemap or a feed as a timestamp; None if it is neither."""
    if timestamp is None or not _TIME.fullmatch(timestamp):
        return None
    if len(timestamp) == 10:
        return f"{timestamp}T00:00:00Z"
    return timestamp if timestamp[16] == ":" else f"{timestamp[:16]}:00{timestamp[16:]}"


def hash_of(entry: FeedEntry) -> int:
    return hash((entry.title, entry.html, entry.link))


def annotate(modified: str | None, priority: float | None) -> Annotations | None:
    modified = timestamp(modified)
    if modified is None and priority is None:
        return None
    return Annotations(last_modified=modified, priority=priority)


def http_time(timestamp: str) -> str | None:
    """Return an HTTP date as a timestamp."""
    from datetime import UTC
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(timestamp).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return None


def name_of(url: str) -> str:
    """Return the name of a page: the end of its path, or its host."""
    parts = urlsplit(url)
    name = unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.netloc
    return f"{name}?{unquote(parts.query)}"[:200] if parts.query else name[:200]


def shown_type(kind: str, *, fetched: bool) -> str | None:
    """Return the media type of the contents when a page of type ``kind`` is read."""
    return "text/markdown" if fetched and kind in HTML else kind or None


def type_of_page(url: str) -> str | None:
    """Guess the media type from the name of a file, or return None if it looks like a page."""
    name = urlsplit(url).path.rpartition("/")[2]
    kind = type_of_name(name) if "." in name else None
    return None if kind in HTML else kind
