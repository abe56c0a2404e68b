"""Server transport for HTTP+SSE, of 2024-11-05, for clients without Streamable HTTP. Deprecated since 2025-03-26.

GET opens an SSE stream. Its first event names the URI to POST to; all messages of the server follow, including the
responses to posted requests. The session lasts as long as the stream. All revisions with a handshake are supported;
requests of a stateless revision get an error that lists the supported ones.

https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#backwards-compatibility
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Hashable
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from carrel.limits import Quota
from carrel.protocol.encoding import encode_error
from carrel.protocol.http import event
from carrel.protocol.revisions import REVISIONS
from carrel.protocol.server import Call, ErrorResponse
from carrel.transports.server.application import Application
from carrel.transports.server.authorizer import Authorizer, Lease, client_of, owner_of, permit
from carrel.transports.server.dispatcher import Dispatcher, Work, attach, spawn
from carrel.transports.server.http_request import (
    Bodies,
    HTTPExchange,
    Rejection,
    accepts,
    is_json,
    session_quota_exceeded,
)
from carrel.transports.server.http_response import disconnected, end, pump, respond
from carrel.transports.server.streams import Stream

__all__ = ["HTTPWithSSE", "SharedWithHTTP"]

#: Buffered bytes for a client beyond which its requests have to wait.
MAX_WAITING = 16 * 1024 * 1024

#: How many bytes are sent to the connection at a time (but always a whole message).
CHUNK = 256 * 1024

#: Seconds that a request waits for its client to read buffered messages.
PATIENCE = 30.0

#: Seconds that requests in flight get to finish when the server stops.
GRACE = 5.0

#: Prefixes of encoded error responses without a request id.
ANONYMOUS = tuple(encode_error(id, 0, "").partition(b'{"code"')[0] for id in (None, UNSET))

NO_SESSION = "There is no such session: it does not exist, or has ended; open the stream again"


class SSEClient(Stream):
    """SSE stream and message dispatcher of one connected client."""

    __slots__ = ("_endpoint", "dispatcher", "ending", "lease", "owner")

    def __init__(self, app: Application, id: str, client: str, endpoint: str) -> None:
        self.dispatcher = Dispatcher(app, self)
        connection = self.dispatcher.connection
        super().__init__(self.dispatcher.client)
        self._endpoint = endpoint
        self.ending = False
        self.owner: str | None = None
        self.lease = Lease(self.end)
        self.dispatcher.client.session_id = id
        self.dispatcher.client.key = client
        revisions = connection.description.revisions.items()
        connection.description = msgspec.structs.replace(
            connection.description, revisions={name: row for name, row in revisions if not row.stateless}
        )

    # The sending side

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message. It replaces an unsent message with the same key."""
        if not self.complete:
            super().send(message, key)

    async def be_ready(self) -> None:
        """Wait until the client has read enough to send another request.

        Raises:
            Rejection: it does not read its stream, or is disconnected.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                await self.wait_below(MAX_WAITING)
        except TimeoutError:
            complaint = f"Read the stream first: {self.waiting} bytes wait for you in it"
            raise Rejection(429, complaint, [(b"retry-after", b"10")]) from None
        if self.complete:
            raise Rejection(404, NO_SESSION)

    # The connection's side

    async def opening(self, after: int | None = None) -> bytes:
        """Return the first event: the endpoint to post to."""
        return event(self._endpoint.encode(), name="endpoint")

    def take(self) -> bytes:
        """Return some of the buffered messages as SSE events, or b""."""
        pieces = [b":\r\n\r\n"] if self.ping else []
        self.ping = False
        size = count = 0
        for message in self._messages:
            pieces.append(self._event(message))
            size += len(message)
            count += 1
            if size >= CHUNK:
                break
        del self._messages[:count]
        if self._held:
            for message in self._held.values():
                pieces.append(self._event(message))
                size += len(message)
            self._held = None
        self._left(size)
        return b"".join(pieces)

    def _event(self, message: bytes) -> bytes:
        return event(message, name="message")

    # Closing

    async def leave(self) -> None:
        """Wait at most ``GRACE`` seconds for requests in flight, then end the stream."""
        await self.dispatcher.close(GRACE)
        self.end()

    def end(self) -> None:
        """Cancel requests in flight, and end the stream once all buffered messages are sent."""
        self.dispatcher.cancel()
        self.end_content()


class SharedWithHTTP(NamedTuple):
    """State of an endpoint that HTTP+SSE shares with Streamable HTTP."""

    bodies: Bodies
    quota: Quota
    """Quota of sessions."""
    streams: set[Stream]
    """Open streams that get keep-alive comments."""
    works: set[Work]
    """Pending work to await before the application stops."""


class HTTPWithSSE:
    """HTTP+SSE endpoints: GET ``path`` for the stream, POST ``path``/messages for messages of the client.

    Args:
        app: the server, which is started and stopped by the caller.
        path: path of the stream, relative to where this application is mounted.
        alternative: path of the Streamable HTTP endpoint, for requests of stateless revisions.
        shared: what both transports use.
        authorization: authorizer of requests; None for no authorization.
    """

    def __init__(
        self,
        app: Application,
        path: str,
        *,
        alternative: str,
        shared: SharedWithHTTP,
        authorization: Authorizer | None = None,
    ) -> None:
        self._app = app
        self._authorization = authorization
        self._path = path
        self._messages = f"{path.rstrip('/')}/messages"
        self._alternative = alternative
        self._limits = app.limits
        self._bodies = shared.bodies
        self._quota = shared.quota
        self._streams = shared.streams
        self._works = shared.works
        self._listeners: dict[str, SSEClient] = {}

    def owns(self, path: str) -> bool:
        """Return whether a path is one of the two endpoints."""
        return path.rstrip("/") in (self._path.rstrip("/"), self._messages)

    def end_streams(self) -> None:
        """End all streams gracefully, after the responses to requests in flight."""
        for listener in self._listeners.values():
            if not listener.ending:
                listener.ending = True
                work = spawn(listener.leave())
                self._works.add(work)
                work.add_done_callback(self._works.discard)

    def cancel(self) -> None:
        """Cancel all requests in flight, and end all streams."""
        for listener in self._listeners.values():
            listener.end()

    async def serve(self, exchange: HTTPExchange) -> None:
        """Handle a request to one of the endpoints, whose Host, Origin and caller have been checked.

        Raises:
            Rejection: the request is refused.
        """
        listening = exchange.path.rstrip("/") != self._messages
        method, allowed = exchange.scope["method"], "GET" if listening else "POST"
        if method != allowed:
            raise Rejection(
                405, f"{method} is not allowed at this endpoint of HTTP+SSE", [(b"allow", allowed.encode())]
            )
        version = exchange.headers.get(b"mcp-protocol-version", b"").decode("latin-1").strip(" \t")
        if version and (version not in REVISIONS or REVISIONS[version].stateless):
            complaint = f"MCP-Protocol-Version {version[:50]!r} is not supported over HTTP+SSE: use {self._alternative}"
            raise Rejection(400, complaint)
        if listening:
            await self._listen(exchange)
        else:
            await self._post(exchange)

    async def _listen(self, exchange: HTTPExchange) -> None:
        scope, caller = exchange.scope, exchange.caller
        if not accepts(exchange.headers.get(b"accept", b"*/*"))[1]:
            raise Rejection(406, "This is a stream of HTTP+SSE: the Accept header must allow text/event-stream")
        client = client_of(scope, caller)
        self._quota.limit(self._limits.max_sessions, self._limits.max_sessions_per_client)
        if not self._quota.take(client):
            raise session_quota_exceeded(self._quota, client)
        id = secrets.token_urlsafe(16)
        root = scope.get("root_path", "").rstrip("/")
        listener = SSEClient(self._app, id, client, f"{quote(root + self._messages)}?sessionId={id}")
        listener.owner = owner_of(caller)
        listener.lease.extend(caller)
        self._listeners[id] = listener
        gone = disconnected(exchange.receive, listener)
        try:
            unended = await pump(listener, gone, exchange.send, exchange.extra, self._streams)
        finally:
            self._quota.give(client)
            gone.cancel()
            listener.lease.cancel()
            del self._listeners[id]
            listener.end_content()
            await listener.dispatcher.close()
        if unended:
            await end(exchange.send)

    async def _post(self, exchange: HTTPExchange) -> None:
        headers, caller = exchange.headers, exchange.caller
        listener = self._find(exchange.scope.get("query_string", b""))
        if listener.owner != owner_of(caller):
            raise Rejection(404, NO_SESSION)
        listener.lease.extend(caller)
        if not is_json(headers):
            raise Rejection(415, "The content type must be application/json")
        await listener.be_ready()
        body = await self._bodies.read(headers, exchange.receive, client_of(exchange.scope, caller))
        if listener.complete or listener.disconnected:
            raise Rejection(404, NO_SESSION)
        message = listener.dispatcher.connection.receive(body)
        permit(self._authorization, caller, message)
        peer = exchange.scope.get("client")
        attach(message, listener.dispatcher.client, headers, peer[0] if peer else "")
        if type(message) is ErrorResponse and message.reply.startswith(ANONYMOUS):
            # has no id to match it by in the stream
            await respond(exchange.send, message.status, message.reply, exchange.extra)
            return
        reply = listener.dispatcher.take(message)
        if reply is not None:
            listener.dispatcher.send(message.id if type(message) is Call else None, reply)
        await respond(exchange.send, 202, b"", exchange.extra)

    def _find(self, query: bytes) -> SSEClient:
        values = [pair.partition(b"=")[2] for pair in query.split(b"&") if pair.partition(b"=")[0] == b"sessionId"]
        if len(values) != 1:
            raise Rejection(400, f"{self._path} names the URL for messages: its query must have one sessionId")
        listener = self._listeners.get(values[0].decode("latin-1"))
        if listener is None or listener.complete:
            raise Rejection(404, NO_SESSION)
        return listener
