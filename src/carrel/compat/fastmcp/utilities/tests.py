"""Support for tests: settings for a while, and servers that listen for a while."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from carrel.compat.fastmcp.settings import settings
from carrel.compat.fastmcp.utilities.headless_oauth import HeadlessOAuth
from carrel.compat.fastmcp.utilities.http import find_available_port
from carrel.compat.fastmcp.utilities.in_process import ASGIServer, asgi_client, asgi_server

__all__ = [
    "ASGIServer",
    "HeadlessOAuth",
    "asgi_client",
    "asgi_server",
    "find_available_port",
    "run_server_async",
    "run_server_in_process",
    "temporary_settings",
]

PATIENCE = 30.0


@contextlib.contextmanager
def temporary_settings(**changes: Any) -> Iterator[None]:
    """Change settings within a block; names of nested settings have ``__``."""
    before = {name: settings.get_setting(name) for name in changes}
    try:
        for name, value in changes.items():
            settings.set_setting(name, value)
        yield
    finally:
        for name, value in before.items():
            settings.set_setting(name, value)


@contextlib.contextmanager
def run_server_in_process(
    server_fn: Callable[..., None],
    *arguments: Any,
    provide_host_and_port: bool = True,
    host: str = "127.0.0.1",
    port: int | None = None,
    **options: Any,
) -> Iterator[str]:
    """Run a server function in a separate process, and yield the server's URL.

    Raises:
        RuntimeError: the server does not listen in time.
    """
    port = port or find_available_port()
    if provide_host_and_port:
        options.update(host=host, port=port)
    process = multiprocessing.Process(target=server_fn, args=arguments, kwargs=options, daemon=True)
    process.start()
    try:
        _wait(process, host, port)
        yield f"http://{host}:{port}"
    finally:
        process.terminate()
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


def _wait(process: Any, host: str, port: int) -> None:
    end = time.monotonic() + PATIENCE
    while process.is_alive() and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((host, port)):
            return
        time.sleep(0.05)
    raise RuntimeError(f"The server does not listen on {host}:{port}")


@contextlib.asynccontextmanager
async def run_server_async(
    server: Any,
    port: int | None = None,
    transport: Any = "http",
    path: str = "/mcp",
    host: str = "127.0.0.1",
    **options: Any,
) -> AsyncIterator[str]:
    """Yield the URL of a server that listens in this event loop."""
    port = port or find_available_port()
    task = asyncio.create_task(server.run_http_async(host=host, port=port, transport=transport, path=path, **options))
    try:
        async with asyncio.timeout(PATIENCE):
            while not task.done():
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(host, port)
                    writer.close()
                    break
                await asyncio.sleep(0.02)
        yield f"http://{host}:{port}{path}"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
