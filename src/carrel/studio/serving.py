"""Serves a studio on this machine only: the page with its API, and on a second port the content origin."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import uvicorn

from carrel.studio.gate import ASGI, PageGate, page_headers
from carrel.studio.links import content_headers
from carrel.studio.pages import Pages
from carrel.studio.routes import make_api
from carrel.studio.studio import Studio
from carrel.transports.server.listening import listen

__all__ = ["serve"]

HOST = "127.0.0.1"
#: Seconds that requests get to finish after SIGTERM or SIGINT.
GRACE = 2


async def serve(
    studio: Studio, port: int = 0, on_started: Callable[[str], None] | None = None, *, signals: bool = True
) -> None:
    """Serve an open studio on 127.0.0.1 until SIGTERM or SIGINT, or until it is cancelled.

    ``on_started`` is called with the link to the page, once the page can be used. Port 0 takes a free one. Without
    ``signals``, only cancellation ends it.

    Raises:
        ConfigError: the port is taken or not allowed.
    """
    listeners = [*listen(HOST, port), *listen(HOST, 0)]
    origin, content_origin = (f"http://{HOST}:{each.getsockname()[1]}" for each in listeners)
    studio.links.origin, studio.links.page_origin = content_origin, origin
    page = PageGate(origin, Pages(), page_headers(content_origin), api=make_api(studio), token=studio.token)
    content = PageGate(
        content_origin, studio.links, content_headers(origin), sites=(b"same-origin", b"same-site", b"none")
    )
    ready = asyncio.Event()

    def started() -> None:
        if on_started is not None:
            on_started(f"{origin}/#token={studio.token}")

    contents = StudioServer(config_of(content), studio, ready.set)
    pages = StudioServer(config_of(page), studio, started, signals=signals)
    serving = [asyncio.ensure_future(contents.serve([listeners[1]]))]
    try:
        await ready.wait()
        serving.append(asyncio.ensure_future(pages.serve([listeners[0]])))
        await asyncio.shield(serving[1])
    finally:
        pages.should_exit = contents.should_exit = True
        await asyncio.wait(serving)
        for listener in listeners:
            listener.close()


def config_of(app: ASGI) -> uvicorn.Config:
    """Return uvicorn's configuration for an application. Nothing is logged about requests."""
    return uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
        ws="none",
    )


class StudioServer(uvicorn.Server):
    """uvicorn server that ends the streams of events before it waits for connections.

    ``on_started`` is called when it accepts connections. With ``signals``, SIGTERM and SIGINT stop it.
    """

    def __init__(
        self, config: uvicorn.Config, studio: Studio, on_started: Callable[[], object], *, signals: bool = False
    ) -> None:
        super().__init__(config)
        self._signals = signals
        self._studio = studio
        self._on_started = on_started

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets)
        self._on_started()

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """Stop accepting connections, and wait for requests."""
        self._studio.events.end()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals if this server does."""
        with super().capture_signals() if self._signals else nullcontext():
            yield

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop, and do not raise the signal again. A second SIGINT does not wait for requests."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
