"""Client transport for Streamable HTTP, in every revision that has it.

Each message is a POST, and each request is one task until its response is there, as JSON or in an SSE stream. Revisions
with a handshake may have a session (Mcp-Session-Id), a long-lived GET stream for messages outside of requests, and
resumable streams (Last-Event-ID).

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from carrel.errors import (
    UNAVAILABLE_STATUSES,
    HTTPStatusError,
    InvalidMessage,
    MCPError,
    SessionExpired,
    TransportError,
)
from carrel.log import Log
from carrel.printable import printable
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.connection import read_error
from carrel.protocol.http import encode_value
from carrel.protocol.revision import Revision
from carrel.protocol.sse import EventStream
from carrel.transports.client.backoff import Backoff
from carrel.transports.client.http_base import EVENTS, HTTPTransportBase, media_type, probe
from carrel.transports.client.http_errors import read_error_of_body
from carrel.transports.client.options import HTTPOptions
from carrel.transports.client.transport import Receiver
from carrel.wire.base import Id

if TYPE_CHECKING:
    from aiohttp import ClientResponse


__all__ = ["HTTPTransport"]

log = Log("carrel.transports")

BOTH = "application/json, text/event-stream"
#: Consecutive attempts to resume a stream that bring no new event.
MAX_TRIES = 7
#: Seconds that a server gets to end a stream after the response, so that the connection can be reused.
ENDING = 0.25
#: Timeout for ending the session with DELETE on close, in seconds.
FAREWELL = 2.0
#: Transient statuses, which are retried. 409: the server has not noticed yet that the previous stream is broken.
PASSING = UNAVAILABLE_STATUSES | {409, 500}


class HTTPTransport(HTTPTransportBase):
    """Streamable HTTP transport to the MCP endpoint at ``url``. Implements ``transport.Transport``.

    Args:
        url: the endpoint, http or https.
        options: headers, credentials, TLS, proxy and limits.

    Raises:
        ConfigError: the configuration is wrong, or aiohttp is not installed.
    """

    def __init__(self, url: str, options: HTTPOptions | None = None) -> None:
        super().__init__(url, options)
        self.cancels = True
        self.mirrors = True
        self.streams = True
        self._session: str | None = None
        self._revision: Revision | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def session_id(self) -> str | None:
        """Id that the server gave the session; None without one."""
        return self._session

    # Transport interface

    async def open(self, receiver: Receiver) -> None:
        """Prepare the connection pool. The first message opens the first connection."""
        self._start(receiver)

    def settle(self, revision: Revision) -> None:
        """Record the negotiated revision, and open the long-lived GET stream if the revision has one."""
        self._revision = revision
        self._settled = True
        self.cancels = revision.stateless
        if not revision.stateless and self._background is not None and self._closing is None:
            if self._listening is not None:
                self._listening.cancel()
            self._listening = self._background.spawn(self._listen(revision))

    # Sending

    def _begin(self) -> None:
        super()._begin()
        self._session = self._greeting = self._revision = None
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    def _headers(self, message: OutgoingMessage) -> dict[str, str]:
        """Return the HTTP headers for a message, in a new dict."""
        revision = message.revision
        headers = {"Content-Type": "application/json", "Accept": BOTH}
        if revision is None:
            return headers
        if revision.version_header:
            headers["MCP-Protocol-Version"] = revision.name
        if revision.stateless:
            if message.method:
                headers["Mcp-Method"] = message.method
            if message.name is not None:
                headers["Mcp-Name"] = encode_value(message.name)
            headers.update(message.headers)
        elif self._session is not None:
            headers["Mcp-Session-Id"] = self._session
        return headers

    async def _deliver(self, message: OutgoingMessage) -> None:
        endpoint = self._endpoint
        response = await endpoint.ask("POST", self._headers(message), message.data, bounded=False)
        if response.status >= 400:
            raise await endpoint.explain(response)
        if response.status not in (202, 204):
            await self._take_body(response, None)
        response.release()

    async def _exchange(self, id: Id, message: OutgoingMessage) -> None:
        endpoint = self._endpoint
        revision = message.revision
        headers = self._headers(message)
        response = await endpoint.ask(
            "POST",
            headers,
            message.data,
            bounded=not message.endless,
            revision=None if revision is None else revision.name,
        )
        try:
            status = response.status
            if status >= 400:
                if status == 404 and "Mcp-Session-Id" in headers:
                    raise SessionExpired
                raise await endpoint.explain(response)
            if revision is None:
                self._take_session(response)
            if message.endless:
                probe(response)
            stream = await self._take_body(response, id)
        finally:
            response.release()
        if stream is not None:
            await self._resume(stream, id, message)

    def _take_session(self, response: ClientResponse) -> None:
        session = response.headers.get("Mcp-Session-Id")
        if session is not None and not (session and all("!" <= letter <= "~" for letter in session)):
            raise TransportError("The server sent a session id that is not visible ASCII")
        self._session = session

    # Receiving

    async def _take_body(self, response: ClientResponse, id: Id | None) -> EventStream | None:
        """Deliver the messages of an HTTP response; return its SSE stream if it ended before the response to ``id``."""
        assert self._receiver is not None
        kind = media_type(response.headers.get("Content-Type", ""))
        if kind == "application/json":
            body = await self._endpoint.read(response)
            self._take_json(body, id)
        elif kind == EVENTS:
            stream = EventStream(self._options.max_message)
            if not await self._take_events(response, stream, id) and id is not None:
                return stream
        elif id is not None:
            name = self._endpoint.name
            if response.status in (202, 204):
                raise TransportError(f"{name} accepted the request, but sent no response ({response.status})")
            raise TransportError(
                f"{name} answered with the content type {printable(kind, 100) or '(none)'}, which is neither "
                "application/json nor text/event-stream. Is it the URL of an MCP server?"
            )
        return None

    def _take_json(self, body: bytes, id: Id | None) -> None:
        assert self._receiver is not None
        self._receiver.receive(body, id)
        if id is None or not self._receiver.awaits(id):
            return
        error = read_error_of_body(body)
        if error is not None:
            self._receiver.fail(id, read_error(error))
            return
        raise TransportError(f"{self._endpoint.name} sent a message that is not a response to the request")

    async def _take_events(self, response: ClientResponse, stream: EventStream, id: Id | None) -> bool:
        """Deliver the messages of an SSE stream until it ends; return whether the response to ``id`` was among them."""
        assert self._receiver is not None
        content = response.content
        try:
            while piece := await content.readany():
                for event in stream.feed(piece):
                    if event.name != "message" or not event.data:
                        continue
                    pause = self._receiver.receive(event.data, id)
                    if pause is not None:
                        await asyncio.sleep(pause)  # nothing is read meanwhile, so that the server has to wait
                    if id is not None and not self._receiver.awaits(id):
                        if not content.at_eof():
                            await self._await_end(response)
                        return True
        except InvalidMessage as error:
            response.close()
            raise TransportError(f"{self._endpoint.name}: {error}") from None
        except Exception as error:
            response.close()
            log.debug("a stream broke: %s", self._endpoint.translate(error), exc_info=True)
        return False

    async def _await_end(self, response: ClientResponse) -> None:
        """Wait briefly for the server to end a completed stream, so that the connection can be reused."""
        try:
            async with asyncio.timeout(ENDING):
                while await response.content.readany():
                    pass
        except Exception:
            response.close()

    async def _resume(self, stream: EventStream, id: Id, message: OutgoingMessage) -> None:
        """Resume the broken stream of a request with Last-Event-ID.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
        """
        revision = message.revision
        backoff = Backoff()
        broken = TransportError(
            f"{self._endpoint.name} ended the stream before the answer to {message.method} had come"
        )
        if revision is not None and not revision.resumable:
            raise broken
        while stream.last_id:
            await asyncio.sleep(backoff.delay(None if stream.retry is None else stream.retry / 1000))
            seen = stream.last_id
            try:
                response = await self._get(revision, stream.last_id)
            except Exception as error:
                failure = self._endpoint.translate(error)
                if backoff.failures + 1 >= MAX_TRIES or not is_passing(failure):
                    raise TransportError(f"{broken}, and it could not be resumed: {failure}") from None
                backoff.failures += 1
                continue
            try:
                stream.restart()
                if await self._take_events(response, stream, id):
                    return
            finally:
                response.release()
            backoff.failures = 0 if stream.last_id != seen else backoff.failures + 1
            if backoff.failures >= MAX_TRIES:
                break
        raise broken

    async def _get(self, revision: Revision | None, last_id: str) -> ClientResponse:
        """Open an SSE stream with GET.

        Raises:
            SessionExpired: the session has expired.
            MCPError: the server offers no stream.
        """
        headers = {"Accept": EVENTS}
        if last_id:
            headers["Last-Event-ID"] = last_id
        if revision is not None and revision.version_header:
            headers["MCP-Protocol-Version"] = revision.name
        if self._session is not None:
            headers["Mcp-Session-Id"] = self._session
        response = await self._endpoint.ask(
            "GET", headers, bounded=False, revision=None if revision is None else revision.name
        )
        if response.status >= 400:
            if response.status == 404 and "Mcp-Session-Id" in headers:
                response.release()
                raise SessionExpired
            raise await self._endpoint.explain(response)
        kind = media_type(response.headers.get("Content-Type", ""))
        if response.status != 200 or kind != EVENTS:
            response.close()
            raise HTTPStatusError(405, f"{self._endpoint.name} has no stream: it answered {response.status} {kind}")
        probe(response)
        return response

    async def _listen(self, revision: Revision) -> None:
        """Deliver messages of the long-lived GET stream, with reconnects, if the server offers one.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
        """
        assert self._receiver is not None
        await self._await_greeting()
        stream = EventStream(self._options.max_message)
        backoff = Backoff()
        before = False
        while True:
            resumed = stream.last_id
            try:
                response = await self._get(revision, resumed)
            except Exception as error:
                failure = self._endpoint.translate(error)
                if before:
                    self._receiver.broken()
                if isinstance(failure, SessionExpired) and before:  # otherwise the server may have no GET stream at all
                    self._receiver.closed(failure)
                    return
                if resumed and not is_passing(failure):
                    stream = EventStream(self._options.max_message)  # the server has forgotten the last event id
                    continue
                if not is_passing(failure):
                    log.debug("no stream for messages of the server: %s", failure)
                    return
                wanted = failure.retry_after if isinstance(failure, HTTPStatusError) else None
                backoff.failures += 1
                await asyncio.sleep(max(wanted or 0.0, backoff.delay()))
                continue
            if before and not resumed:
                self._receiver.interrupted()
            before = True
            began = asyncio.get_running_loop().time()
            try:
                stream.restart()
                await self._take_events(response, stream, None)
            except MCPError as error:
                log.warning("the stream of the server cannot be read: %s", error)
                return
            finally:
                response.release()
            self._receiver.broken()
            lasted = asyncio.get_running_loop().time() - began
            backoff.failures = 0 if stream.last_id != resumed or lasted > 10 else backoff.failures + 1
            await asyncio.sleep(backoff.delay(None if stream.retry is None else stream.retry / 1000))

    # Closing

    async def _shut(self) -> None:
        if self._background is not None:
            await self._background.close()
        try:
            async with asyncio.timeout(FAREWELL):
                await self._end_session()
        except Exception as error:
            log.debug("the session was not ended: %s", self._endpoint.translate(error))
        finally:
            await self._endpoint.close()

    async def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        headers = {"Mcp-Session-Id": session}
        if self._revision is not None and self._revision.version_header:
            headers["MCP-Protocol-Version"] = self._revision.name
        (await self._endpoint.ask("DELETE", headers, bounded=False, rounds=0)).release()


def is_passing(error: MCPError) -> bool:
    """Return whether an error is transient, so that a retry makes sense."""
    if isinstance(error, HTTPStatusError):
        return error.status in PASSING
    return isinstance(error, TransportError) and not isinstance(error, SessionExpired)
