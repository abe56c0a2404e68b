"""The server that many ask at once: a thousand resources, and tools that wait until they are cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

from carrel import Client, Server

CROWD = 1_000


def make_crowd() -> Server:
    """A server for a crowd."""
    app = Server("crowd", page_size=CROWD)
    hanging = 0
    for number in range(CROWD):
        app.resources.add(f"memo://{number}", f"memo {number}", name=f"memo {number}")

    @app.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool()
    async def later(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @app.tool()
    async def touch_all() -> str:
        app.resources.changed(*(f"memo://{number}" for number in range(CROWD)))
        return "touched"

    @app.tool()
    async def hang() -> str:
        nonlocal hanging
        hanging += 1
        try:
            await asyncio.sleep(3600)
        finally:
            hanging -= 1
        return "never"

    @app.tool()
    async def count_hanging() -> int:
        return hanging

    return app


@contextlib.asynccontextmanager
async def reach(way: str, revision: str, **options: Any) -> AsyncIterator[Client]:
    """A client of a crowd of its own: in "memory", on "stdio" or over "http"."""
    if way == "stdio":
        from support.forking import forked

        async with Client(forked(sys.executable, __file__), revision=revision, **options) as client:
            yield client
    elif way == "memory":
        async with Client(make_crowd(), revision=revision, **options) as client:
            yield client
    else:
        from support.http_server import over_http  # which the server on stdio does not need

        with over_http(make_crowd()) as origin:
            async with Client(f"{origin}/mcp", revision=revision, **options) as client:
                yield client


if __name__ == "__main__":
    make_crowd().run()
