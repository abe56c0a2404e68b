"""Serves an application over HTTP while something else talks to it: a real socket, a real uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn

from carrel import Server

__all__ = ["over_http"]

#: How long a server may take to end, in seconds.
PATIENCE = 60.0


class Uvicorn(uvicorn.Server):
    """uvicorn looks ten times a second whether it should end; this one is told."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.running: asyncio.AbstractEventLoop | None = None
        self.told = asyncio.Event()

    async def main_loop(self) -> None:
        self.running = asyncio.get_running_loop()
        if not await self.on_tick(0):
            await self.told.wait()

    def tell(self) -> None:
        self.should_exit = True
        if self.running is not None:
            self.running.call_soon_threadsafe(self.told.set)


@contextlib.contextmanager
def over_http(app: Server, listener: socket.socket | None = None, **options: Any) -> Iterator[str]:
    """Serve ``app`` on a port of its own, or on ``listener``, and give its origin; the endpoint is at ``/mcp``.

    ``options`` are those of ``Server.asgi``. The socket listens before the server runs, so whoever comes early only
    waits.
    """
    with listener or socket.create_server(("127.0.0.1", 0)) as listener:
        server = Uvicorn(uvicorn.Config(app.asgi(**options), log_level="critical", lifespan="on", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="uvicorn")
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.tell()
            thread.join(PATIENCE)
            if thread.is_alive():
                server.force_exit = True
                thread.join(PATIENCE)
                raise AssertionError(f"the server did not end within {PATIENCE} s")
