"""Base of the client transports over HTTP: the HTTP session, one task per message, and the order of the handshake."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from functools import lru_cache
from typing import TYPE_CHECKING

from carrel.errors import ConfigError, MCPError, TransportError
from carrel.log import Log
from carrel.protocol.client import OutgoingMessage
from carrel.transports.client.background_tasks import BackgroundTasks
from carrel.transports.client.options import HTTPOptions
from carrel.transports.client.transport import Receiver
from carrel.wire.base import Id

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from carrel.transports.client.http_session import HTTPSession, ResponseObserver

__all__ = ["EVENTS", "HTTPTransportBase", "load_endpoint", "media_type", "probe"]

log = Log("carrel.transports")

EVENTS = "text/event-stream"
#: Seconds that requests wait for the initialized notification to be delivered.
GREETING = 5.0
#: Seconds of silence on a long-lived stream before TCP keepalive probes are sent.
PROBE_AFTER = 30


@lru_cache(32)
def media_type(value: str) -> str:
    """Return the media type of a Content-Type header, without its parameters."""
    return value.partition(";")[0].strip().lower()


def load_endpoint() -> type[HTTPSession]:
    """Import and return ``HTTPSession``, which needs aiohttp.

    Raises:
        ConfigError: aiohttp is not installed.
    """
    try:
        from carrel.transports.client.http_session import HTTPSession
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"Connecting to a server over HTTP needs the package {error.name}: pip install 'carrel[client]'"
        ) from None
    return HTTPSession


class HTTPTransportBase:
    """Base class of the client transports over HTTP, which define how one message is sent.

    Args:
        url: the endpoint, http or https.
        options: headers, credentials, TLS, proxy and limits.

    Raises:
        ConfigError: the configuration is wrong, or aiohttp is not installed.
    """

    def __init__(self, url: str, options: HTTPOptions | None = None) -> None:
        self._options = HTTPOptions() if options is None else options
        self._endpoint = load_endpoint()(url, self._options)
        self._receiver: Receiver | None = None
        self._background: BackgroundTasks | None = None
        self._greeting: asyncio.Task[None] | None = None
        self._settled = True
        self._error: MCPError | None = None
        """Why nothing can be sent any more, if the connection was lost."""
        self._closing: asyncio.Task[None] | None = None

    @property
    def held(self) -> bool:
        """Whether a request waits for credentials."""
        return self._endpoint.asking > 0

    def observe(self, observer: ResponseObserver) -> None:
        """Call ``observer`` with each HTTP response. See ``HTTPSession.on_response``."""
        self._endpoint.on_response = observer

    def _start(self, receiver: Receiver) -> BackgroundTasks:
        """Prepare the connection pool."""
        if self._closing is not None:
            raise TransportError(delivered=False)
        self._receiver = receiver
        self._background = BackgroundTasks()
        self._endpoint.start()
        return self._background

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Send a message. For a notification or response, return a future for when it is sent or has failed."""
        id, background = message.id, self._background
        if background is None or self._error is not None or self._closing is not None:
            if id is not None and self._receiver is not None:
                self._receiver.fail(id, TransportError(str(self._error or TransportError()), delivered=False))
            return None
        if id is None:
            task = background.spawn(self._post_notification(message))
            if not self._settled:
                self._greeting = task
            return background.follow(task)
        if message.revision is None:  # initialize opens a session
            self._begin()
        background.ask(id, self._ask(id, message))
        return None

    def abandon(self, id: Id) -> None:
        """Cancel a request, and close its stream."""
        if self._background is not None:
            self._background.abandon(id)

    async def close(self) -> None:
        """Cancel all tasks, and close all connections."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._shut())
        await asyncio.shield(self._closing)

    # One message

    def _begin(self) -> None:
        """Begin a handshake: the notification that ends it has to arrive before the requests after it."""
        self._settled = False

    async def _post_notification(self, message: OutgoingMessage) -> None:
        """Send a notification or a response."""
        try:
            await self._deliver(message)
        except Exception as error:
            what = message.method or "An answer"
            log.warning("%s did not reach the server: %s", what, self._endpoint.translate(error))

    async def _ask(self, id: Id, message: OutgoingMessage) -> None:
        """Send a request. One task per request."""
        assert self._receiver is not None
        try:
            if self._greeting is not None:
                await self._await_greeting()
            await self._exchange(id, message)
        except Exception as error:
            if not isinstance(error, MCPError):
                log.debug("the request %s failed", id, exc_info=True)
            self._receiver.fail(id, self._endpoint.translate(error))

    async def _await_greeting(self) -> None:
        """Wait until the initialized notification is delivered, so that no request overtakes it."""
        if self._greeting is not None:
            await asyncio.wait((self._greeting,), timeout=GREETING)
            self._greeting = None

    async def _deliver(self, message: OutgoingMessage) -> None:
        """Send a notification or a response; raise if that fails."""
        raise NotImplementedError

    async def _exchange(self, id: Id, message: OutgoingMessage) -> None:
        """Send a request, and receive until its response has arrived; raise if that fails."""
        raise NotImplementedError

    async def _shut(self) -> None:
        if self._background is not None:
            await self._background.close()
        await self._endpoint.close()


def probe(response: ClientResponse) -> None:
    """Enable TCP keepalive, which detects when the peer of a long, silent stream is gone."""
    transport = None if response.connection is None else response.connection.transport
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is None:
        return
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_AFTER)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    except OSError:
        return
