"""A server over HTTP for each test that wants one; and no test waits for ever."""

from __future__ import annotations

import asyncio
import functools
import inspect
import pathlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from carrel import Context, Limits, Server
from support.fixtures import issuer
from support.raw_http import Site, serving

__all__ = ["issuer", "serve", "shop", "site"]

#: Seconds that a test may take.
LONGEST = 120.0

FOLDER = f"{pathlib.Path(__file__).parent}/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(FOLDER) and inspect.iscoroutinefunction(item.obj):
            item.obj = limited(item.obj)


def limited(test: Any) -> Any:
    """Return a test that fails when it takes too long."""

    @functools.wraps(test)
    async def within(*arguments: Any, **fixtures: Any) -> None:
        async with asyncio.timeout(LONGEST):
            await test(*arguments, **fixtures)

    return within


class Shop:
    """A server, and what its handlers wait for."""

    def __init__(self) -> None:
        self.app = Server("shop", version="1")
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.finished = asyncio.Event()
        self.running = 0
        app = self.app
        app.resources.add("memo://text", "text", name="text")
        app.resources.add("memo://other", "other", name="other")

        @app.tool()
        async def echo(text: str) -> str:
            return text

        @app.tool()
        async def wait(ctx: Context) -> str:
            """Wait for the test; on the way say what number it is."""
            self.running += 1
            self.begun.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            finally:
                self.running -= 1
                self.finished.set()
            return "waited"

        @app.tool()
        async def steps(n: int, ctx: Context) -> str:
            """Report progress ``n`` times, then wait for the test, then report once more."""
            for number in range(1, n + 1):
                await ctx.report_progress(number)
            self.begun.set()
            try:
                await self.go.wait()
                await ctx.report_progress(n + 1)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            finally:
                self.finished.set()
            return "done"

        @app.tool()
        async def pause(ctx: Context, retry: float | None = None) -> str:
            """Close the stream, wait for the test, and go on."""
            await ctx.report_progress(1)
            ctx.pause_stream(retry)
            await self.go.wait()
            await ctx.report_progress(2)
            return "after the pause"


@pytest_asyncio.fixture
async def shop() -> Shop:
    return Shop()


@pytest_asyncio.fixture
async def serve(shop: Shop) -> AsyncIterator[Any]:
    """Serve the shop with options: ``site = await serve(limits=Limits(session_ttl=1))``."""
    async with AsyncExitStack() as stack:

        async def start(http: str = "httptools", limits: Limits | None = None, **options: Any) -> Site:
            shop.app.limits = limits or Limits()
            return await stack.enter_async_context(serving(shop.app.asgi(**options), http=http))

        yield start


@pytest_asyncio.fixture
async def site(serve: Any) -> Site:
    return await serve()
