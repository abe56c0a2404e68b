"""Recording of a server over HTTP: a reverse proxy on this machine that records all messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from carrel.cli.recording.recording import Recorder
from carrel.cli.terminal.messages import print_stderr
from carrel.errors import ConfigError
from carrel.protocol.sse import EventStream
from carrel.transports.addresses import is_loopback

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from aiohttp.web import Request, StreamResponse

__all__ = ["listen", "serve"]

Handler: TypeAlias = "Callable[[Request], Awaitable[StreamResponse]]"
#: Hop-by-hop headers, and headers that the proxy recomputes.
HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "host", "content-length", "content-encoding", "accept-encoding", "origin"),
    )
)
MAX_MESSAGE = 64 * 1024 * 1024


def serve(url: str, file: str, port: int) -> None:
    """Serve the proxy on 127.0.0.1 until Ctrl-C.

    Raises:
        ConfigError: aiohttp is not installed, or the port is in use.
    """
    try:
        import aiohttp
    except ImportError:
        raise ConfigError("Recording over HTTP needs aiohttp: pip install 'carrel[client]'") from None
    parts = urlsplit(url)
    origin, recorder = f"{parts.scheme}://{parts.netloc}", Recorder(file)

    async def main() -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
        async with aiohttp.ClientSession(timeout=timeout) as session:

            async def handle(request: Request) -> StreamResponse:
                return await forward(request, session, origin, recorder)

            async with listen(handle, port) as address:
                print_stderr(f"carrel: recording {origin} at {address}{parts.path or '/'}; Ctrl-C ends")
                await asyncio.Event().wait()

    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(main())
    finally:
        recorder.close()
    print_stderr(f"carrel: {recorder.count} messages are in {file}")


@contextlib.asynccontextmanager
async def listen(answer: Handler, port: int) -> AsyncIterator[str]:
    """Serve requests from this machine with a handler, and yield the address."""
    from aiohttp import web

    @web.middleware
    async def local(request: Request, handler: Handler) -> StreamResponse:
        # A page of another site must not reach the server through this machine (DNS rebinding).
        host = urlsplit(f"//{request.host}").hostname or ""
        origin = request.headers.get("Origin")
        if not is_loopback(host) or (origin is not None and not is_loopback(urlsplit(origin).hostname or "")):
            return web.Response(status=403, text="only clients on this machine are served")
        return await handler(request)

    app = web.Application(client_max_size=MAX_MESSAGE, middlewares=[local])
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(f"port {port} cannot be listened on: {error.strerror}") from None
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def forward(request: Request, session: ClientSession, origin: str, recorder: Recorder) -> StreamResponse:
    """Forward a request to the server, and stream its response back."""
    from aiohttp import ClientError, web

    body = await request.read()
    if request.method == "POST" and "json" in request.content_type:
        recorder.add("in", body)
    headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
    try:
        async with session.request(
            request.method, origin + request.raw_path, data=body or None, headers=headers, allow_redirects=False
        ) as response:
            return await send_back(request, response, recorder)
    except ClientError as error:
        return web.Response(status=502, text=f"the server cannot be reached: {error}")


async def send_back(request: Request, response: ClientResponse, recorder: Recorder) -> StreamResponse:
    from aiohttp import web

    answer = web.StreamResponse(status=response.status)
    for name, value in response.headers.items():
        if name.lower() not in HOP_BY_HOP:
            answer.headers.add(name, value)
    await answer.prepare(request)
    events = EventStream(MAX_MESSAGE) if response.content_type == "text/event-stream" else None
    whole = bytearray()
    async for chunk in response.content.iter_any():
        if events is None:
            whole += chunk
        else:
            for event in events.feed(chunk):
                recorder.add("out", event.data)
        await answer.write(chunk)
    if response.content_type == "application/json" and request.method == "POST":
        recorder.add("out", bytes(whole))
    await answer.write_eof()
    return answer
