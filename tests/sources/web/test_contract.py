"""The web source, held to the contract of all providers, against a web server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

import pytest

from carrel.catalog.provider import Provider
from carrel.testing import ProviderContract
from support.web_site import Site, running_site

pytestmark = pytest.mark.slow

NAMES = ("a", "b", "c", "d%20d", "e/f", "%E7%AC%94%E8%AE%B0")


class TestWebSource(ProviderContract):
    """A folder of pages with a sitemap and a feed."""

    site: Site
    times: dict[str, str]

    @pytest.fixture
    async def provider(self) -> AsyncIterator[Provider]:
        async with running_site() as self.site:
            self.times = {}
            for name in NAMES:
                self.site.page(f"/docs/{name}", f"Page {name}")
                self.times[f"/docs/{name}"] = "2026-01-01"
            self.site.put("/docs/", "<title>Docs</title><link rel=alternate type=application/rss+xml href=feed.xml>")
            items = "".join(
                f"<item><title>Entry {number}</title><guid>{number}</guid><description>Text</description></item>"
                for number in range(4)
            )
            self.site.put(
                "/docs/feed.xml",
                f"<?xml version='1.0'?><rss version='2.0'><channel><title>News</title>{items}</channel></rss>",
                "application/rss+xml",
            )
            self.site.page("/docs/large", "Large", "x" * 200_000)
            self.site.list(self.times)
            yield self.site.source(max_page_size=100_000)

    def again(self, provider: Provider) -> Provider:
        return self.site.source(max_page_size=100_000)

    async def create(self, provider: Provider) -> str:
        path = f"/docs/new{len(self.times)}"
        uri = self.site.page(path, "New")
        self.times[path] = "2026-01-01"
        self.site.list(self.times)
        return uri

    async def change(self, provider: Provider, uri: str) -> None:
        path = uri.removeprefix(f"web+{self.site.origin}")
        self.site.page(path, "Changed")
        self.times[path] = "2026-02-02"
        self.site.list(self.times)

    async def remove(self, provider: Provider, uri: str) -> None:
        path = uri.removeprefix(f"web+{self.site.origin}")
        del self.times[path]
        self.site.pages.pop(path)
        self.site.list(self.times)

    async def shown_in(self, provider: Provider, uri: str) -> Collection[str]:
        return [uri, *(f"{uri}?{window}" for window in ("lines=1-1", "tail=1", "bytes=0-1"))]

    def missing(self, provider: Provider) -> str:
        return f"web+{self.site.origin}/docs/missing"

    async def too_large(self, provider: Provider) -> None:
        return None  # the site offers no windows of a page that is too large to fetch

    async def settle(self, provider: Provider) -> None:
        await self.site.left()

    async def container(self, provider: Provider) -> str:
        return f"web+{self.site.origin}/docs/feed.xml"

    async def unreadable(self, provider: Provider) -> Collection[str]:
        here = f"web+{self.site.origin}"
        self.site.put("/robots.txt", "User-agent: *\nDisallow: /docs/secret\n", "text/plain")
        return [
            *(f"{here}/docs/../secret", f"{here}/docs/%2e%2e/secret", f"{here}/docs/a?lines=0", f"{here}/docs/secret"),
            *(f"{here}/other", f"{here}/docs/a#x", f"{here}/docs/feed.xml?entry=0123456789abcdef"),
        ]

    async def searched(self, provider: Provider) -> tuple[str, str]:
        return "笔记", f"web+{self.site.origin}/docs/%E7%AC%94%E8%AE%B0"

    async def completed(self, provider: Provider) -> tuple[str, str, str, str]:
        return f"web+{self.site.origin}/docs/{{+path}}", "path", "e", "e/f"
