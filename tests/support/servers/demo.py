"""The server that the tests of the client ask, and ways to get to it: in memory, on stdio, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

from carrel import Client, Context, Server

OLDEST, MARCH, JUNE, NOVEMBER, LATEST = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
HANDSHAKES = (OLDEST, MARCH, JUNE, NOVEMBER)
ALL = (*HANDSHAKES, LATEST)
WAYS = ("memory", "stdio", "http")


def make_shelf() -> Server:
    """A server with something of every kind on it."""
    app = Server("shelf", version="1.2", instructions="Read quietly.", page_size=7)
    app.cancelled = asyncio.Event()  # type: ignore[attr-defined]
    app.began = asyncio.Event()  # type: ignore[attr-defined]
    for number in range(20):
        app.resources.add(f"memo://{number}", f"memo {number}", name=f"memo {number}")
    app.resources.add("memo://picture", b"\x89PNG\x00", name="picture", mime_type="image/png")

    @app.resource("book://{author}/{title}", title="A book", mime_type="text/plain")
    async def book(author: str, title: str) -> str:
        return f"{title} by {author}"

    @book.complete("author")
    async def authors(prefix: str) -> list[str]:
        return [name for name in ("lem", "leguin", "butler") if name.startswith(prefix)]

    @book.complete("title")
    async def titles(prefix: str, context: dict[str, str]) -> list[str]:
        return ["solaris"] if context.get("author") == "lem" else []

    @app.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @app.tool()
    def touch(number: int) -> str:
        app.resources.replace(f"memo://{number}", "changed")
        return "touched"

    @app.tool()
    def put(number: int) -> str:
        app.resources.add(f"memo://new/{number}", "new", name=f"new {number}")
        return "put"

    @app.tool()
    async def hang() -> str:
        app.began.set()  # type: ignore[attr-defined]
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            app.cancelled.set()  # type: ignore[attr-defined]
            raise
        return "never"

    @app.tool()
    async def count(context: Context, steps: int, pause: float = 0.0) -> str:
        for step in range(steps):
            await context.report_progress(step + 1, steps, f"step {step + 1}")
            await asyncio.sleep(pause)
        return f"{steps} steps"

    @app.tool()
    def fail() -> str:
        raise ValueError("on purpose")

    @app.tool()
    async def say(context: Context, level: str) -> str:
        await context.log(level, f"said at {level}")
        return "said"

    @app.prompt()
    def review(code: str, language: str = "python") -> str:
        return f"Review this {language}: {code}"

    return app


@contextlib.asynccontextmanager
async def served(way: str, app: Server, revision: str | None = None, **options: Any) -> AsyncIterator[Client]:
    """A client of an application that the test can look into, in "memory" or over "http"."""
    if way == "memory":
        async with Client(app, revision=revision, **options) as client:
            yield client
    else:
        from support.http_server import over_http  # which the server on stdio does not need

        with over_http(app) as origin:
            async with Client(f"{origin}/mcp", revision=revision, **options) as client:
                yield client


@contextlib.asynccontextmanager
async def reach(way: str, revision: str | None = None, **options: Any) -> AsyncIterator[Client]:
    """A client of a shelf of its own, by one of ``WAYS``."""
    if way == "stdio":
        from support.forking import forked

        async with Client(forked(sys.executable, __file__), revision=revision, **options) as client:
            yield client
    else:
        async with served(way, make_shelf(), revision, **options) as client:
            yield client


async def until(event: asyncio.Event) -> None:
    """Wait for an event that may be set in another thread's loop."""
    async with asyncio.timeout(60):
        while not event.is_set():
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        make_shelf().run(transport="http", port=int(sys.argv[1]))
    else:
        make_shelf().run()
