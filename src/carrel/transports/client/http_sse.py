"""Client transport for HTTP+SSE, deprecated, of 2024-11-05: one SSE stream to receive, and POST to send.

https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from carrel.errors import MCPError, TransportError
from carrel.log import Log
from carrel.printable import printable
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.revision import Revision
from carrel.protocol.sse import EventStream, ServerSentEvent
from carrel.transports.client.http_base import EVENTS, HTTPTransportBase, media_type, probe
from carrel.transports.client.options import HTTPOptions
from carrel.transports.client.transport import Receiver
from carrel.wire.base import Id

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from yarl import URL

__all__ = ["HTTPSSETransport"]

log = Log("carrel.transports")


class HTTPSSETransport(HTTPTransportBase):
    """HTTP+SSE transport to the SSE stream at ``url``. Implements ``transport.Transport``.

    Args:
        url: the URL of the stream, http or https.
        options: headers, credentials, TLS, proxy and limits.

    Raises:
        ConfigError: the configuration is wrong, or aiohttp is not installed.
    """

    cancels = False
    mirrors = False
    streams = False

    def __init__(self, url: str, options: HTTPOptions | None = None) -> None:
        super().__init__(url, options)
        self._patience = self._options.connect_timeout
        self._found: asyncio.Future[URL] | None = None

    # Transport interface

    async def open(self, receiver: Receiver) -> None:
        """Open the SSE stream, and wait for its endpoint event.

        Raises:
            TransportError: there is no HTTP+SSE server.
            AuthorizationError: the server requires authorization.
        """
        background = self._start(receiver)
        self._found = asyncio.get_running_loop().create_future()
        background.spawn(self._listen(self._found))
        try:
            await asyncio.wait((self._found,))
            if self._found.cancelled():
                raise TransportError(delivered=False)
            self._found.result()
        except BaseException:
            await self.close()
            raise

    def settle(self, revision: Revision) -> None:
        """Record that the handshake is complete. The stream is open already."""
        self._settled = True

    # The stream

    async def _listen(self, found: asyncio.Future[URL]) -> None:
        """Deliver received messages until the stream ends."""
        assert self._receiver is not None
        try:
            async with asyncio.timeout(self._patience):
                response = await self._get()
        except Exception as error:
            found.set_exception(self._explain(error))
            return
        except asyncio.CancelledError:
            found.cancel()
            raise
        timer = asyncio.get_running_loop().call_later(self._patience, self._give_up, found)
        stream = EventStream(self._options.max_message)
        try:
            while piece := await response.content.readany():
                for event in stream.feed(piece):
                    pause = self._take(event, response, found)
                    if pause is not None:
                        await asyncio.sleep(pause)  # nothing is read meanwhile, so that the server has to wait
            failure: MCPError = TransportError(f"{self._endpoint.name} has ended the stream")
        except Exception as error:
            failure = self._explain(error)
        except asyncio.CancelledError:
            found.cancel()
            raise
        finally:
            timer.cancel()
            response.close()
        self._error = failure
        if not found.done():
            found.set_exception(failure)
        elif not found.cancelled() and found.exception() is None:
            self._receiver.closed(failure)

    def _explain(self, error: Exception) -> MCPError:
        if isinstance(error, TimeoutError):
            return TransportError(f"{self._endpoint.name} did not open a stream within {self._patience:g} seconds")
        return self._endpoint.translate(error)

    def _give_up(self, found: asyncio.Future[URL]) -> None:
        if not found.done():
            why = f"{self._endpoint.name} did not say within {self._patience:g} seconds where to post"
            found.set_exception(TransportError(why, delivered=False))

    async def _get(self) -> ClientResponse:
        response = await self._endpoint.ask("GET", {"Accept": EVENTS}, bounded=False)
        if response.status >= 400:
            raise await self._endpoint.explain(response)
        kind = media_type(response.headers.get("Content-Type", ""))
        if kind != EVENTS:
            response.close()
            raise TransportError(
                f"{self._endpoint.name} answered {response.status} with the content type "
                f"{printable(kind, 100) or '(none)'}, which is not a stream of HTTP+SSE",
                delivered=False,
            )
        probe(response)
        return response

    def _take(self, event: ServerSentEvent, response: ClientResponse, found: asyncio.Future[URL]) -> float | None:
        assert self._receiver is not None
        if event.name == "endpoint":
            if not found.done():
                found.set_result(self._find(event.data, response))
        elif event.name == "message" and event.data:
            return self._receiver.receive(event.data)
        return None

    def _find(self, data: bytes, response: ClientResponse) -> URL:
        """Return the URL to post to, which must have the same origin: credentials are sent to it."""
        text = data.decode("utf-8", "replace").strip()
        try:
            url = response.url.join(type(response.url)(text))
            same = url.origin() == response.url.origin() and url.user is None
        except ValueError:
            same = False
        if not same:
            raise TransportError(
                f"{self._endpoint.name} wants messages to be sent elsewhere, to {printable(text, 200)!r}: refused",
                delivered=False,
            )
        return url.with_fragment(None)

    # Sending

    async def _deliver(self, message: OutgoingMessage) -> None:
        assert self._found is not None
        revision = message.revision
        headers: dict[str, str] = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if revision is not None and revision.version_header:
            headers["MCP-Protocol-Version"] = revision.name
        response: Any = await self._endpoint.ask(
            "POST",
            headers,
            message.data,
            url=self._found.result(),
            bounded=message.id is not None,
            revision=None if revision is None else revision.name,
        )
        if response.status >= 400:
            raise await self._endpoint.explain(response)
        try:
            await self._endpoint.read(response)  # so that the connection can be reused
        finally:
            response.release()

    async def _exchange(self, id: Id, message: OutgoingMessage) -> None:
        await self._deliver(message)  # the response comes on the stream
