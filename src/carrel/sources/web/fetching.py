"""Fetch pages from the public Internet: rate-limited for each host, with conditional requests, respecting robots.txt.

``carrel.transports.client.fetch`` checks the address of every hop. Redirects may lead to the same host and to the hosts
in the options. On the same host, they may not leave the shared pages.

https://www.rfc-editor.org/rfc/rfc9309
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit
from weakref import WeakValueDictionary

from carrel.errors import (
    MCPError,
    RequestTimeout,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.log import Log
from carrel.sources.sized_cache import SizedCache
from carrel.sources.web.cache import MAX_FRESH, Cached, fresh_for, is_storable
from carrel.sources.web.disk import DiskCache, Stored, digest_of, fresh_seconds
from carrel.sources.web.options import WebOptions
from carrel.sources.workers import Workers
from carrel.transports.client.fetch import REDIRECTS, Fetch, FetchResponse
from carrel.transports.client.response_text import decode, read_type

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["AGENT", "PageClient"]

log = Log("carrel.sources")

AGENT = "carrel"
MAX_REDIRECTS = 5
#: Seconds for which robots.txt is used.
ROBOTS_SECONDS = 3600.0
MAX_ROBOTS = 500 * 1024
#: Maximum delay that a site can request (Crawl-delay, Retry-After), in seconds.
MAX_PAUSE = 30.0


class PageClient:
    """Client that fetches pages, and caches them in memory, and in a folder if one is configured.

    ``leaves`` returns whether a redirect leads out of the shared pages: the first argument is the URL of the page, the
    second is the redirect target on the same host.
    """

    def __init__(
        self,
        options: WebOptions,
        workers: Workers,
        ssl: SSLContext | None = None,
        leaves: Callable[[str, str], bool] = lambda url, target: False,
    ) -> None:
        self._options = options
        self._leaves = leaves
        self._fetch = Fetch(
            timeout=options.fetch_timeout, max_bytes=options.max_page_size, hosts=options.private_hosts, ssl=ssl
        )
        self.cache: SizedCache[str, Cached] = SizedCache(options.cache_size)
        self._workers = workers
        rules = f"{options.robots} {sorted(options.redirect_hosts)} {sorted(options.private_hosts)}"
        folder, limit = options.cache_folder, options.cache_folder_size
        self._disk = None if folder is None else DiskCache(folder, limit, options.max_page_size, rules)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._next: dict[str, float] = {}
        self._robots: dict[str, tuple[float, Any]] = {}

    async def open(self) -> None:
        """Open the cache folder.

        Raises:
            ConfigError: the folder cannot be used.
        """
        if self._disk is not None:
            await self._workers.run("", self._disk.open)

    async def close(self) -> None:
        """Close the connections."""
        await self._fetch.close()

    async def get(self, url: str, *, refresh: bool = False) -> Cached:
        """Return a page, from the cache while it is fresh; with ``refresh``, always send a request to the site.

        Raises:
            ResourceNotFound: there is no such page.
            ResourceForbidden: robots.txt or the web server forbids it, or it redirects to a forbidden target.
            ResourceTooLarge: it has more than ``max_page_size`` bytes.
            ResourceError: it cannot be fetched for another reason.
            RequestTimeout: the site did not answer in time.
        """
        lock = self._locks.get(url) or asyncio.Lock()
        self._locks[url] = lock
        async with lock:
            known = self.cache.get(url) or await self._kept(url)
            if known is not None and not self._shared(url, known.url):
                known = None
            if known is not None and not refresh and self._now() < known.fresh_until:
                return known
            try:
                async with asyncio.timeout(self._options.fetch_timeout):
                    if self._options.robots:
                        await self._check_robots(url)
                    page = await self._ask(url, known)
            except (ResourceNotFound, ResourceForbidden):
                self.cache.drop(url)
                if self._disk is not None:
                    await self._workers.run("", self._disk.drop, url)
                raise
            except TimeoutError:
                raise RequestTimeout(
                    f"{url} was not fetched within {self._options.fetch_timeout:g} seconds (fetch_timeout)"
                ) from None
            self.cache.put(url, page, page.size)
            if page is not known:
                await self._keep(url, page)
            return page

    async def _kept(self, url: str) -> Cached | None:
        """Return a page from the folder."""
        found = None if self._disk is None else await self._workers.run("", self._disk.get, url)
        if found is None:
            return None
        stored, data = found
        fresh = self._now() + fresh_seconds(stored, MAX_FRESH)
        page = Cached(stored.url, stored.kind, stored.charset, data, fresh, stored.validators, stored.modified)
        self.cache.put(url, page, page.size)
        return page

    async def _keep(self, url: str, page: Cached) -> None:
        """Write a page to the folder. Log an error if it cannot be written."""
        if self._disk is None:
            return
        if not page.storable:
            await self._workers.run("", self._disk.drop, url)
            return
        until = time() + page.fresh_until - self._now()
        about = (page.url, page.kind, page.charset, until, page.validators, page.modified, digest_of(page.data))
        try:
            await self._workers.run("", self._disk.put, url, Stored(url, *about), page.data)
        except OSError as error:
            log.warning("a page cannot be written to cache_folder: %s", error.strerror)

    async def sitemaps(self, origin: str) -> list[str]:
        """Return the sitemaps that robots.txt names."""
        if not self._options.robots:
            return []
        robots = await self._rules(origin)
        return [] if robots is None else list(robots.sitemaps)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    async def _ask(self, url: str, known: Cached | None) -> Cached:
        target = url
        for _ in range(MAX_REDIRECTS + 1):
            await self._wait_for_slot(target)
            headers = known.validators if known is not None else {}
            async with self._fetch.request("GET", target, headers=headers) as response:
                location = response.headers.get("Location")
                if response.status not in REDIRECTS or location is None:
                    return await self._read(url, target, response, known)
            target = self._redirected(url, target, location)
            if self._options.robots:
                await self._check_robots(target)
        raise ResourceError(url, f"The page redirects more than {MAX_REDIRECTS} times")

    async def _read(self, url: str, target: str, response: FetchResponse, known: Cached | None) -> Cached:
        status, headers = response.status, response.headers
        fresh = self._now() + fresh_for(headers, self._options.cache_seconds)
        if status == 304 and known is not None:
            known.fresh_until = fresh
            return known
        if status in (404, 410):
            raise ResourceNotFound(url, "There is no such page")
        if status in (401, 403, 407):
            raise ResourceForbidden(url, f"The web server denies access with status {status}")
        if status in (429, 503):
            self._pause(target, headers.get("Retry-After", ""))
        if not 200 <= status < 300 or status == 206:
            raise ResourceError(url, f"The web server responds with status {status}")
        try:
            data = await response.read()
        except ResourceTooLarge:
            most = self._options.max_page_size
            raise ResourceTooLarge(
                url, f"The page has more than {most:,} bytes, which is the limit (max_page_size)"
            ) from None
        names = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}
        validators = {condition: headers[name][:1000] for name, condition in names.items() if name in headers}
        return Cached(
            target,
            *read_type(headers.get("Content-Type", "")),
            data,
            fresh,
            validators,
            headers.get("Last-Modified"),
            storable=is_storable(headers),
        )

    def _shared(self, url: str, target: str) -> bool:
        """Return whether a page may be shared if it redirects to ``target``: a shared page, or a host in
        ``redirect_hosts``.
        """
        named = (urlsplit(target).hostname or "").rstrip(".") in self._options.redirect_hosts
        return named or target == url or not self._leaves(url, target)

    def _redirected(self, url: str, target: str, location: str) -> str:
        """Return the target of a redirect.

        Raises:
            ResourceForbidden: the target has another host or a less secure scheme, is not shared, or is not a web page.
        """
        before = urlsplit(target)
        try:
            joined = urljoin(target, location).partition("#")[0]
            after = urlsplit(joined)
            host, port = (after.hostname or "").rstrip("."), after.port
        except ValueError:
            raise ResourceForbidden(url, "The page redirects to an invalid URL") from None
        odd = any(character <= " " or character in "\\\x7f" for character in joined) or "@" in after.netloc
        if odd or after.scheme not in ("https", "http") or (after.scheme == "http" and before.scheme == "https"):
            raise ResourceForbidden(url, "The page redirects to a URL that is not fetched")
        own = (urlsplit(url).hostname or "").removeprefix("www.")
        if host.removeprefix("www.") != own and host not in self._options.redirect_hosts:
            raise ResourceForbidden(
                url, f"The page redirects to {host[:200]}, which is not shared; the option redirect_hosts can name it"
            )
        if (port or None) not in (None, before.port) and host not in self._options.redirect_hosts:
            raise ResourceForbidden(url, "The page redirects to another port, which is not shared")
        if not self._shared(url, joined):
            path = joined.partition("?")[0][:200]
            raise ResourceForbidden(
                url,
                f"The page redirects to {path}, outside of the shared pages (the option redirect_hosts allows it)",
            )
        return joined

    # Pace

    async def _wait_for_slot(self, url: str) -> None:
        """Wait until a request to the host may be sent."""
        host = urlsplit(url).netloc
        now = self._now()
        slot = max(now, self._next.get(host, 0.0))
        if slot - now > self._options.fetch_timeout:
            raise ResourceError(url, "Too many requests wait for this site; retry later")
        robots = self._robots.get(origin_of(url), (0.0, None))[1]
        asked = None if robots is None else robots.crawl_delay(AGENT)
        self._next[host] = slot + max(self._options.fetch_delay, min(float(asked or 0), MAX_PAUSE))
        if slot > now:
            await asyncio.sleep(slot - now)

    def _pause(self, url: str, retry_after: str) -> None:
        seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 1.0
        host = urlsplit(url).netloc
        self._next[host] = max(self._next.get(host, 0.0), self._now() + min(seconds, MAX_PAUSE))

    # robots.txt

    async def allowed(self, origin: str, urls: list[str]) -> list[str]:
        """Return the pages of a site that robots.txt allows; none if its rules cannot be fetched."""
        if not self._options.robots or not urls:
            return urls
        try:
            robots = await self._rules(origin)
        except MCPError:
            return []
        if robots is None:
            return urls
        return await self._workers.run("", lambda: [url for url in urls if robots.can_fetch(url, AGENT)])

    async def _check_robots(self, url: str) -> None:
        robots = await self._rules(origin_of(url))
        if robots is not None and not robots.can_fetch(url, AGENT):
            raise ResourceForbidden(url, "robots.txt of the site disallows this page (the option robots can ignore it)")

    async def _rules(self, origin: str) -> Any:
        """Return the robots.txt rules of a site, or None if it has no rules.

        Raises:
            ResourceError: the rules cannot be fetched, so all pages are forbidden.
        """
        until, rules = self._robots.get(origin, (0.0, None))
        if self._now() < until:
            return rules
        from protego import Protego

        url = f"{origin}/robots.txt"
        try:
            page = await self._ask_robots(url)
        except ResourceTooLarge:
            page = b""
        rules = None if page is None else Protego.parse(decode(page[:MAX_ROBOTS], "utf-8") or "")
        self._robots[origin] = (self._now() + ROBOTS_SECONDS, rules)
        return rules

    async def _ask_robots(self, url: str) -> bytes | None:
        target = url
        for _ in range(MAX_REDIRECTS + 1):
            async with self._fetch.request("GET", target) as response:
                location = response.headers.get("Location")
                if response.status in REDIRECTS and location is not None:
                    target = self._redirected(url, target, location)
                    continue
                if 400 <= response.status < 500 and response.status != 429:
                    return None
                if response.status != 200:
                    raise ResourceError(url, f"The rules of the site cannot be fetched: it answers {response.status}")
                return await response.read()
        return None


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
