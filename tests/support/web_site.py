"""Web site of the tests: an HTTP server on this machine whose pages can be changed, and that counts its requests."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any

from aiohttp import web

from carrel.sources.web.options import WebOptions
from carrel.sources.web.source import WebSource

__all__ = ["Site", "running_site"]

HOST = "127.0.0.1"


class Site:
    """Pages by their paths, each a body and headers. An ETag is made of the body, unless there is one."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[bytes, dict[str, str], int]] = {}
        self.requests: list[tuple[str, int]] = []
        self.headers: list[dict[str, str]] = []
        self.port = 0
        self.scheme = "http"
        self.server: web.Server | None = None

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{HOST}:{self.port}"

    def put(self, path: str, body: str | bytes, kind: str = "text/html", status: int = 200, **headers: str) -> str:
        """Serve a page, and return its URI in a source that fetches it."""
        data = body.encode() if isinstance(body, str) else body
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = (data, {"Content-Type": kind, **given}, status)
        return f"web+{self.origin}{path}"

    def page(self, path: str, title: str, text: str = "") -> str:
        """Serve an HTML page with a paragraph of text."""
        words = text or f"This is the page about {title}, and it says so in a sentence that is long enough to matter."
        return self.put(
            path,
            f"<html><head><title>{title}</title></head><body><nav><a href='/'>Home</a> menu</nav>"
            f"<main><h1>{title}</h1><p>{words}</p><p>{words}</p></main><footer>imprint</footer></body></html>",
        )

    def list(self, pages: dict[str, str], path: str = "/sitemap.xml") -> None:
        """Serve a sitemap of paths with their times of modification."""
        self.put(path, sitemap_of({f"{self.origin}{one}": time for one, time in pages.items()}), "application/xml")

    def asked(self, path: str) -> list[int]:
        """Return the statuses of the answers for a path."""
        return [status for asked, status in self.requests if asked == path]

    async def left(self) -> None:
        """Wait until no connection is open."""
        assert self.server is not None
        async with asyncio.timeout(60):
            while self.server.connections:
                await asyncio.sleep(0.01)

    async def answer(self, request: web.Request) -> web.Response:
        path = request.path_qs
        self.headers.append(dict(request.headers))
        body, headers, status = self.pages.get(path, (b"not here", {"Content-Type": "text/plain"}, 404))
        tag = headers.get("ETag") or f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if status == 200 and request.headers.get("If-None-Match") == tag:
            status, body = 304, b""
        self.requests.append((path, status))
        return web.Response(status=status, body=body, headers={"ETag": tag, **headers})

    def source(
        self, path: str = "/docs/", scheme: str = "web+http", ssl: SSLContext | None = None, **options: Any
    ) -> WebSource:
        """Return a source of this site."""
        usual = {"private_hosts": (HOST,), "fetch_delay": 0.0001, "cache_seconds": 0.0001, "poll_seconds": 0.05}
        return WebSource(f"{scheme}://{HOST}:{self.port}{path}", WebOptions(**{**usual, **options}), ssl=ssl)


def sitemap_of(pages: dict[str, str]) -> str:
    entries = "".join(f"<url><loc>{url}</loc><lastmod>{time}</lastmod></url>" for url, time in pages.items())
    return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'


@asynccontextmanager
async def running_site(ssl: SSLContext | None = None) -> AsyncIterator[Site]:
    """Run a site on a free port, over TLS with the context of a server."""
    site = Site()
    site.scheme = "http" if ssl is None else "https"
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", site.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site.server = runner.server
    server = web.TCPSite(runner, HOST, 0, ssl_context=ssl)
    await server.start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        await runner.cleanup()
