"""The client's end of Streamable HTTP, in every revision that has it.

Each message is a POST, and each request is one task until its answer is there, as JSON or in a stream of events. In
revisions with a handshake there may be a session, a stream for what belongs to no request, and streams that are resumed
where they broke.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw

from carrel.errors import ConfigError, HTTPStatusError, InvalidMessage, MCPError, SessionExpired, TransportError
from carrel.log import Log
from carrel.printable import printable
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.http import encode_value
from carrel.protocol.results import read_error
from carrel.protocol.revision import Revision
from carrel.protocol.sse import EventStream
from carrel.transports.client.background_tasks import BackgroundTasks
from carrel.transports.client.backoff import Backoff
from carrel.transports.client.http_errors import read_answered_error
from carrel.transports.client.transport import Credentials, Receiver
from carrel.wire.base import Id
from carrel.wire.jsonrpc import Message

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from carrel.transports.client.http_session import HTTPSession

__all__ = ["HTTPTransport", "load_endpoint"]

log = Log("carrel.transports")

BOTH = "application/json, text/event-stream"
EVENTS = "text/event-stream"
#: How often in a row it is tried to resume a stream, without anything coming of it.
MAX_TRIES = 7
#: Seconds that a server gets to end a stream after the answer, so that the connection can be used again.
ENDING = 0.25
#: Seconds that the server gets to end the session when we close.
FAREWELL = 2.0
#: Seconds that other messages wait for the one that completes a handshake.
GREETING = 5.0
#: Seconds of silence after which the other side of a long stream is asked whether it is still there, by TCP.
PROBE_AFTER = 30
#: Statuses that may be different soon. 409 is that of a server that has not noticed yet that a stream has broken.
PASSING = frozenset((408, 409, 425, 429, 500, 502, 503, 504))


_read_message = msgspec.json.Decoder(Message).decode
_read_batch = msgspec.json.Decoder(list[Raw]).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def answers(data: bytes | Raw, id: Id) -> bool:
    """Say whether a message, or one in a batch, is the answer to the request ``id``."""
    try:
        message = _read_message(data)
    except _UNREADABLE:
        if bytes(data)[:64].lstrip()[:1] != b"[":
            return False
        try:
            return any(answers(each, id) for each in _read_batch(data) if bytes(each)[:1] == b"{")
        except _UNREADABLE:
            return False
    return bool(message.id == id) and message.method is UNSET and message.jsonrpc == "2.0"


@lru_cache(32)
def media_type(value: str) -> str:
    """Return the media type of a Content-Type header, without its parameters."""
    return value.partition(";")[0].strip().lower()


def load_endpoint() -> type[HTTPSession]:
    """Load what talks HTTP.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        from carrel.transports.client.http_session import HTTPSession
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"Connecting to a server over HTTP needs the package {error.name}: pip install 'carrel[client]'"
        ) from None
    return HTTPSession


class HTTPTransport:
    """Talks to the MCP endpoint at ``url``. Implements ``carrel.transports.client.transport.Transport``.

    Args:
        url: the endpoint, http or https.
        headers: what every request has besides what the protocol wants; they never replace that.
        credentials: who asks.
        connections: how many connections there may be at a time for requests that will soon be answered.
        max_message: the longest message that is read, in bytes.
        connect_timeout: seconds that making a connection may take.
        tls: how servers prove who they are, if not by the authorities that the system trusts.

    Raises:
        ConfigError: the set-up is wrong, or aiohttp is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        credentials: Credentials | None = None,
        connections: int = 100,
        max_message: int = 64 * 1024 * 1024,
        connect_timeout: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.cancels = True
        self.mirrors = True
        self._endpoint = load_endpoint()(
            url,
            headers=headers,
            credentials=credentials,
            connections=connections,
            max_message=max_message,
            connect_timeout=connect_timeout,
            tls=tls,
        )
        self._max_message = max_message
        self._receiver: Receiver | None = None
        self._background: BackgroundTasks | None = None
        self._session: str | None = None
        self._revision: Revision | None = None
        self._greeting: asyncio.Task[None] | None = None
        self._settled = True
        self._listening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # The contract

    @property
    def held(self) -> bool:
        """A request waits for credentials."""
        return self._endpoint.asking > 0

    async def open(self, receiver: Receiver) -> None:
        """Get ready. There is nothing to connect to before there is something to say."""
        if self._closing is not None:
            raise TransportError(delivered=False)
        self._receiver = receiver
        self._background = BackgroundTasks()
        self._endpoint.start()

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Send a message. What is returned for one that is no request says when it has arrived, or failed to."""
        id, background = message.id, self._background
        if background is None or self._closing is not None:
            if id is not None and self._receiver is not None:
                self._receiver.fail(id, TransportError(delivered=False))
            return None
        if id is None:
            task = background.spawn(self._tell(message))
            if not self._settled:
                self._greeting = task
            return background.follow(task)
        if message.revision is None:  # it opens a session
            self._forget_session()
        background.ask(id, self._ask(id, message))
        return None

    def abandon(self, id: Id) -> None:
        """Close the stream of a request."""
        if self._background is not None:
            self._background.abandon(id)

    def settle(self, revision: Revision) -> None:
        """Listen to what belongs to no request, if the server lets us."""
        self._revision = revision
        self._settled = True
        self.cancels = revision.stateless
        if not revision.stateless and self._background is not None and self._closing is None:
            if self._listening is not None:
                self._listening.cancel()
            self._listening = self._background.spawn(self._listen(revision))

    async def close(self) -> None:
        """End the session, and let go of everything."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._shut())
        await asyncio.shield(self._closing)

    # Sending

    def _forget_session(self) -> None:
        self._session = self._greeting = self._revision = None
        self._settled = False
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    def _headers(self, message: OutgoingMessage) -> dict[str, str]:
        """Return the headers that a message takes. They may be changed."""
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

    async def _tell(self, message: OutgoingMessage) -> None:
        """Send what has no answer."""
        endpoint = self._endpoint
        try:
            response = await endpoint.ask("POST", self._headers(message), message.data, bounded=False)
            if response.status >= 400:
                raise await endpoint.explain(response)
            if response.status not in (202, 204):
                await self._take_body(response, None)
            response.release()
        except Exception as error:
            what = message.method or "An answer"
            log.warning("%s did not reach the server: %s", what, endpoint.translate(error))

    async def _ask(self, id: Id, message: OutgoingMessage) -> None:
        """Send a request, and hand on what comes until it is answered. One task per request."""
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
        """Let the server hear that the handshake is complete before anything else."""
        if self._greeting is not None:
            await asyncio.wait((self._greeting,), timeout=GREETING)
            self._greeting = None

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
            raise TransportError("The server gave the session an id that is not visible ASCII")
        self._session = session

    # Receiving

    async def _take_body(self, response: ClientResponse, id: Id | None) -> EventStream | None:
        """Hand on what a successful response says; return its stream if it ended before the answer had come."""
        assert self._receiver is not None
        kind = media_type(response.headers.get("Content-Type", ""))
        if kind == "application/json":
            body = await self._endpoint.read(response)
            self._take_json(body, id)
        elif kind == EVENTS:
            stream = EventStream(self._max_message)
            if not await self._take_events(response, stream, id) and id is not None:
                return stream
        elif id is not None:
            name = self._endpoint.name
            if response.status in (202, 204):
                raise TransportError(f"{name} took the request, but gave no answer ({response.status})")
            raise TransportError(
                f"{name} answered with the content type {printable(kind, 100) or '(none)'}, which is neither "
                "application/json nor text/event-stream. Is it the URL of an MCP server?"
            )
        return None

    def _take_json(self, body: bytes, id: Id | None) -> None:
        assert self._receiver is not None
        if id is None or answers(body, id):
            self._receiver.receive(body)
            return
        error = read_answered_error(body)
        if error is not None:
            self._receiver.fail(id, read_error(error))
            return
        self._receiver.receive(body)
        raise TransportError(f"{self._endpoint.name} answered with something that is no answer to the request")

    async def _take_events(self, response: ClientResponse, stream: EventStream, id: Id | None) -> bool:
        """Hand on the messages of a stream until it ends; return whether the answer to ``id`` was among them."""
        assert self._receiver is not None
        content = response.content
        try:
            while piece := await content.readany():
                for event in stream.feed(piece):
                    if event.name != "message" or not event.data:
                        continue
                    self._receiver.receive(event.data)
                    if id is not None and answers(event.data, id):
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
        """Give the server a moment to end a stream that is over."""
        try:
            async with asyncio.timeout(ENDING):
                while await response.content.readany():
                    pass
        except Exception:
            response.close()

    async def _resume(self, stream: EventStream, id: Id, message: OutgoingMessage) -> None:
        """Go on where the stream of a request has broken.

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
        """Open a stream with GET.

        Raises:
            SessionExpired: the session is gone.
            MCPError: there is no stream.
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
        """Hand on what belongs to no request, over one connection after the other, if the server offers that.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
        """
        assert self._receiver is not None
        await self._await_greeting()
        stream = EventStream(self._max_message)
        backoff = Backoff()
        before = False
        while True:
            resumed = stream.last_id
            try:
                response = await self._get(revision, resumed)
            except Exception as error:
                failure = self._endpoint.translate(error)
                if isinstance(failure, SessionExpired) and before:  # else, there may be no stream there at all
                    self._receiver.closed(failure)
                    return
                if resumed and not is_passing(failure):
                    stream = EventStream(self._max_message)  # the server does not know any more where we were
                    continue
                if not is_passing(failure):
                    log.debug("nothing is listened to: %s", failure)
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
            lasted = asyncio.get_running_loop().time() - began
            backoff.failures = 0 if stream.last_id != resumed or lasted > 10 else backoff.failures + 1
            await asyncio.sleep(backoff.delay(None if stream.retry is None else stream.retry / 1000))

    # The end

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
    """Say whether it makes sense to try again soon."""
    if isinstance(error, HTTPStatusError):
        return error.status in PASSING
    return isinstance(error, TransportError) and not isinstance(error, SessionExpired)


def probe(response: ClientResponse) -> None:
    """Have TCP find out when the other side of a long and silent stream is gone."""
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
