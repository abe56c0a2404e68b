"""Streamable HTTP as an ASGI application: one endpoint for clients of every revision.

A request of 2026-07-28 is stateless. A client of an older revision gets a session (Mcp-Session-Id) at ``initialize``,
may open a long-lived stream with GET, resume with Last-Event-ID, and end the session with DELETE. A response is JSON if
it is ready soon and no message has to be sent before it, and otherwise an SSE stream.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from carrel.errors import (
    INVALID_REQUEST,
    ConfigError,
    HeaderMismatch,
    InvalidMessage,
    InvalidParams,
    ServerUnavailable,
)
from carrel.limits import Quota
from carrel.protocol.connection import ErrorResponse, Ignored, Response
from carrel.protocol.encoding import encode_error
from carrel.protocol.http import verify
from carrel.protocol.methods import INITIALIZE
from carrel.protocol.principal import Caller, Challenge
from carrel.protocol.revisions import REVISIONS
from carrel.protocol.server import Batch, Call, Connection, Event, Notification, Refusal
from carrel.transports.server.application import Application
from carrel.transports.server.authorizer import Authorizer, Lease, client_of, let_in, owner_of, permit
from carrel.transports.server.dispatcher import CLEANUP, Work, absorb, answer_batch, begin, cancel, check_load, spawn
from carrel.transports.server.http_request import Bodies, Headers, Rejection, accepts, is_json, read_headers
from carrel.transports.server.http_response import (
    PendingResponse,
    Receive,
    Send,
    answer,
    disconnected,
    end,
    pump,
    respond,
)
from carrel.transports.server.origin import Origins
from carrel.transports.server.session import Session
from carrel.transports.server.sessions import SessionTable
from carrel.transports.server.streams import MutedStream, Stream

if TYPE_CHECKING:
    from carrel.transports.server.http_sse import HTTPWithSSE

__all__ = ["StreamableHTTP"]

Scope = dict[str, Any]


#: Path of the health check for monitoring. It needs no authorization, and returns only that the server runs.
HEALTH = "/healthz"
RETRY_LATER = (b"retry-after", b"5")


class StreamableHTTP:
    """The MCP endpoint as an ASGI application.

    Mounted in another application, it gets no lifespan events: give ``lifespan`` to the outer application (without it,
    the server starts with the first request).

    Args:
        app: the server.
        path: path of the endpoint, relative to where this application is mounted.
        allowed_hosts: allowed Host headers, besides those of localhost ("*": any).
        allowed_origins: allowed origins (CORS), such as "https://example.org", besides those of localhost ("*": any).
        keep_alive: seconds after which a comment is sent on a silent stream, so that no proxy closes it.
        patience: seconds that a response may take before a stream is begun for a client with a session.
        sse_path: path of the stream of the deprecated HTTP+SSE transport; None to disable it.
        authorization: authorizer of requests, such as ``carrel.security.Authorization``; None for no authorization.

    Raises:
        ConfigError: two endpoints would have the same path.
    """

    def __init__(
        self,
        app: Application,
        *,
        path: str = "/mcp",
        allowed_hosts: str | Iterable[str] = (),
        allowed_origins: str | Iterable[str] = (),
        keep_alive: float = 15.0,
        patience: float = 0.5,
        sse_path: str | None = None,
        authorization: Authorizer | None = None,
    ) -> None:
        self._app = app
        self._authorization = authorization
        self._path = "/" + path.strip("/")
        self._origins = Origins(allowed_hosts, allowed_origins)
        self._limits = app.limits
        self._bodies = Bodies(app.limits)
        self._keep_alive = keep_alive
        self._patience = patience
        self._places = Quota(app.limits.max_sessions, app.limits.max_sessions_per_client)
        self._sessions = SessionTable(app, self._places)
        self._streams: set[Stream] = set()
        self._answers: set[Work] = set()
        self._in_flight: dict[str, int] = {}
        """Number of stateless requests in flight, by client."""
        self._life: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._stopping = asyncio.Event()
        self._running = False
        self._stateless = frozenset(name.encode() for name, row in REVISIONS.items() if row.stateless)
        self._known = frozenset(name.encode() for name in REVISIONS)
        self._sse: HTTPWithSSE | None = None
        if sse_path is not None:
            from carrel.transports.server.http_sse import HTTPWithSSE  # deprecated, rarely used

            self._sse = HTTPWithSSE(
                app,
                "/" + sse_path.strip("/"),
                bodies=self._bodies,
                alternative=self._path,
                places=self._places,
                streams=self._streams,
                works=self._answers,
                authorization=authorization,
            )
            if self._sse.owns(self._path):
                raise ConfigError(f"the endpoint of HTTP+SSE at {sse_path} is in the way of {path}")

    # Starting and stopping

    async def start(self) -> None:
        """Start the server, unless it runs. Called automatically if the ASGI server sends lifespan events."""
        loop = asyncio.get_running_loop()
        if self._life is None or self._started is None:
            self._started = loop.create_future()
            self._stopping.clear()
            self._life = loop.create_task(self._live(self._started))
        await asyncio.shield(self._started)

    async def stop(self) -> None:
        """End all streams and sessions, and stop the server."""
        life, self._life = self._life, None
        if life is None:
            return
        self.end_streams()
        self.cancel()
        if self._answers:
            await asyncio.wait(self._answers, timeout=CLEANUP)
        self._stopping.set()
        await life

    async def _live(self, started: asyncio.Future[None]) -> None:
        """Start and stop the server in one task, as task groups in a lifespan require."""
        try:
            await self._app.start()
        except BaseException as error:
            self._life = None
            if not isinstance(error, asyncio.CancelledError):
                started.set_exception(error)
                return
            started.cancel()
            raise
        self._running = True
        started.set_result(None)
        try:
            await self._keep()
        finally:
            self._running = False
            if self._authorization is not None:
                await self._authorization.stop()
            await self._app.stop()

    def end_streams(self) -> None:
        """End all open streams gracefully, for example before the process stops."""
        self._app.end_streams()
        for session in self._sessions:
            for stream in session.listening:
                stream.done = True
                stream.wake()
        if self._sse is not None:
            self._sse.end_streams()

    def cancel(self) -> None:
        """End all sessions and cancel all requests in flight, for example after the shutdown timeout."""
        self._sessions.close()
        for work in self._answers:
            cancel(work)
        if self._sse is not None:
            self._sse.cancel()

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """ASGI lifespan for an outer application: ``Starlette(routes=…, lifespan=mcp.lifespan)``."""
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _keep(self) -> None:
        """Send keep-alive comments on streams, and end expired sessions, periodically."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._keep_alive
        while not self._stopping.is_set():
            wait = min(due - loop.time(), self._sessions.interval)
            try:
                await asyncio.wait_for(self._stopping.wait(), max(wait, 0.0))
            except TimeoutError:
                if loop.time() >= due:
                    due = loop.time() + self._keep_alive
                    self._look_after_streams()
                self._sessions.sweep()

    def _look_after_streams(self) -> None:
        """Send a comment on each stream, and close those that have not sent the last ones for ``write_timeout``."""
        for stream in self._streams:
            stream.stalls = stream.stalls + 1 if stream.ping else 0
            if stream.stalls * self._keep_alive >= self._limits.write_timeout:
                stream.give_up()
            else:
                stream.ping = True
                stream.wake()

    # One request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._run_lifespan(receive, send)
            return
        if kind != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        if not self._running:
            await self.start()
        exchange = await self._serve(scope, receive, send)
        if exchange is not None:
            patience = self._keep_alive if exchange.stateless else self._patience
            await exchange.run(receive, send, patience, self._streams, self._answers)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> PendingResponse | None:
        """Handle a request, or return a ``PendingResponse`` if its response is not ready."""
        extra: list[tuple[bytes, bytes]] = []
        try:
            headers = self._check(scope)
            method = scope["method"]
            if path_of(scope) == HEALTH and method in ("GET", "HEAD"):
                await respond(send, 200, b'{"status":"ok"}', [(b"cache-control", b"no-store")])
                return None
            extra = self._origins.answer(headers)
            if self._authorization is not None and await self._describe(scope, headers, send, extra):
                return None
            path = self._find(scope)
            caller = None
            if self._authorization is not None and method != "OPTIONS":
                caller = await let_in(self._authorization, scope, headers, self._path)
            if path != self._path and method != "OPTIONS":
                assert self._sse is not None
                await self._sse.serve(path, scope, headers, receive, send, extra, caller)
            elif method == "POST":
                return await self._post(headers, receive, send, extra, caller, client_of(scope, caller))
            elif method == "GET":
                await self._get(headers, receive, send, extra, caller)
            elif method == "DELETE":
                await self._delete(headers, send, extra, caller)
            elif method == "OPTIONS" and b"origin" in headers:
                await respond(send, 204, b"", self._origins.preflight(headers))
            else:
                raise Rejection(405, f"{method} is not for this endpoint", [(b"allow", b"GET, POST, DELETE, OPTIONS")])
        except Rejection as refusal:
            body = encode_error(UNSET, INVALID_REQUEST, str(refusal))
            await respond(send, refusal.status, body, [*refusal.headers, *extra])
        except ServerUnavailable as error:
            await respond(send, 503, encode_error(UNSET, error.code, error.message), [RETRY_LATER, *extra])
        return None

    async def _describe(self, scope: Scope, headers: Headers, send: Send, extra: list[tuple[bytes, bytes]]) -> bool:
        """Send the protected resource metadata document if the request is for that; return whether it was."""
        if self._authorization is None or scope["method"] not in ("GET", "OPTIONS"):
            return False
        document = self._authorization.document(scope, self._path)
        if document is None:
            return False
        if isinstance(document, Challenge):
            raise Rejection(document.status, document.message, document.headers)
        if scope["method"] == "OPTIONS":
            await respond(send, 204, b"", self._origins.preflight(headers))
        else:
            await respond(send, 200, document, [(b"cache-control", b"max-age=300"), *extra])
        return True

    def _check(self, scope: Scope) -> Headers:
        """Validate Host and Origin; return the headers by lower-case name."""
        headers = read_headers(scope["headers"])
        problem = self._origins.check(headers)
        if problem is not None:
            raise Rejection(403, problem)
        return headers

    def _find(self, scope: Scope) -> str:
        """Return the path of the endpoint that the request is for."""
        path, root = path_of(scope), scope.get("root_path", "")
        if path == self._path or path.rstrip("/") == self._path.rstrip("/"):
            return self._path
        if self._sse is None or not self._sse.owns(path):
            raise Rejection(404, f"The MCP endpoint is {root}{self._path}")
        return str(path)

    async def _session(self, headers: Headers, caller: Caller | None, *, required: bool) -> Session | None:
        """Return the session that a request belongs to.

        A request of a stateless revision has none, whatever its headers say.
        """
        version = headers.get(b"mcp-protocol-version")
        id = headers.get(b"mcp-session-id")
        stateless = version is not None and version in self._stateless
        if id is None or stateless:
            if required:
                raise _no_session(version if stateless else None)
            return None
        session = await self._sessions.find(id.decode("latin-1"), owner_of(caller))
        if session is None:
            raise Rejection(404, "There is no such session (any more): initialize a new one")
        if version is not None and version not in self._known:
            raise Rejection(400, f"MCP-Protocol-Version {version[:50].decode('latin-1')!r} is not spoken here")
        return session

    async def _post(
        self,
        headers: Headers,
        receive: Receive,
        send: Send,
        extra: list[tuple[bytes, bytes]],
        caller: Caller | None,
        client: str,
    ) -> PendingResponse | None:
        if not is_json(headers):
            raise Rejection(415, "The content type must be application/json")
        json, events = accepts(headers.get(b"accept", b"*/*"))
        if not json and not events:
            raise Rejection(406, "The Accept header must allow application/json and text/event-stream")
        session = await self._session(headers, caller, required=False)
        body = await self._bodies.read(headers, receive, client)
        version = headers.get(b"mcp-protocol-version")
        if session is None:
            connection = self._app.connect()
            connection.client = client
            connection.version_header = None if version is None else version.decode("latin-1").strip(" \t")
        else:
            connection = session.connection
        event = connection.receive(body)
        permit(self._authorization, caller, event)
        if type(event) is not Call:
            return await self._post_other(event, session, headers, send, extra, json=json, events=events)
        if not events and event.request.endless:
            refusal = connection.refuse(event, _needs_stream(event))
            await respond(send, refusal.status, refusal.reply, extra)
            return None
        opened, granted = None, extra
        if event.peer.revision.stateless:
            event.headers = headers
            try:
                verify(event, headers)
            except HeaderMismatch as error:
                refusal = connection.refuse(event, error)
                await respond(send, refusal.status, refusal.reply, extra)
                return None
            session = None
        elif session is None:
            if event.request is not INITIALIZE:
                if version not in self._stateless:
                    raise _no_session()
                refusal = connection.refuse(event, _not_stateless(version))
                await respond(send, refusal.status, refusal.reply, extra)
                return None
            try:
                session = opened = await self._sessions.open(connection, event.peer, owner_of(caller))
            except ServerUnavailable as error:
                await respond(send, 503, connection.refuse(event, error).reply, [RETRY_LATER, *extra])
                return None
            granted = [*extra, (b"mcp-session-id", session.id.encode())]
        stream = _stream(connection, session, events=events)
        try:
            self._check_load(event, session)
            reply = self._app.answer(event, stream)
        except ServerUnavailable as error:
            reply = connection.refuse(event, error)
        event.headers = None  # checked already; frees memory, as a stream may live long
        await absorb()
        if type(reply) is Refusal:
            if opened is not None:
                await self._sessions.end(opened)
            await respond(send, reply.status, reply.reply, extra)
            return None
        if session is not None:
            session.save()
            await self._app.replica.written()  # so that other replicas know of it before the client does
        if type(reply) is bytes:
            if stream.idle and json:
                await answer(send, connection, event.id, reply, granted)
                return None
            reply = _ready(reply)
        work = begin(self._app, event, reply)
        if session is None:
            self._in_flight[client] = self._in_flight.get(client, 0) + 1
            work.add_done_callback(lambda _: self._count_down(client))
        if caller is not None and event.request.endless:
            lease = Lease(stream.expire)
            lease.extend(caller)
            work.add_done_callback(lease.cancel)
        return PendingResponse(event.id, work, stream, connection, session, granted, json=json, events=events)

    def _check_load(self, call: Call, session: Session | None) -> None:
        """Check the limit of requests in flight of a session, or of the client of a stateless request.

        Raises:
            ServerUnavailable: the limit is reached.
        """
        limit = self._limits.max_requests_in_flight
        if session is None:
            check_load(call, self._in_flight.get(call.connection.client, 0), limit)
        else:
            session.in_flight.check(call, limit)

    def _count_down(self, client: str) -> None:
        count = self._in_flight[client] - 1
        if count:
            self._in_flight[client] = count
        else:
            del self._in_flight[client]

    async def _post_other(
        self,
        event: Event,
        session: Session | None,
        headers: Headers,
        send: Send,
        extra: list[tuple[bytes, bytes]],
        *,
        json: bool,
        events: bool,
    ) -> PendingResponse | None:
        """Handle a notification, a response, a batch or an invalid message."""
        if type(event) is Refusal:
            await respond(send, event.status, event.reply, extra)
            return None
        if type(event) is Batch:
            assert session is not None  # only revisions with sessions have batches
            stream = _stream(session.connection, session, events=events)
            answers = spawn(self._answer_batch(event, session, stream))
            return PendingResponse(
                stream, answers, stream, session.connection, session, extra, json=json, events=events
            )
        if session is None and headers.get(b"mcp-protocol-version") not in self._stateless:
            raise _no_session()
        self._take(event, session)
        await respond(send, 202, b"", extra)
        return None

    def _take(self, event: Event, session: Session | None) -> bytes | None:
        if type(event) is Refusal:
            return event.reply
        if type(event) is Notification and session is not None:
            self._sessions.take_notification(session, event)
        elif type(event) is Response or type(event) is ErrorResponse:
            event.deliver()
        elif type(event) is Ignored and event.response is not None and session is not None:
            self._sessions.pass_on(session, event.response)
        return None

    async def _answer_batch(self, batch: Batch, session: Session, stream: Stream) -> bytes:
        replies = await answer_batch(
            self._app, batch, stream, session.in_flight, lambda event: self._take(event, session)
        )
        return b"[%b]" % b",".join(replies) if replies else b""

    # GET and DELETE: sessions only

    async def _get(
        self,
        headers: Headers,
        receive: Receive,
        send: Send,
        extra: list[tuple[bytes, bytes]],
        caller: Caller | None = None,
    ) -> None:
        if not accepts(headers.get(b"accept", b""))[1]:
            raise Rejection(406, "This is an MCP endpoint: GET is for streams, and must accept text/event-stream")
        session = await self._session(headers, caller, required=True)
        assert session is not None
        last = headers.get(b"last-event-id", b"").decode("latin-1")
        after, replay = None, b""
        fetched = None
        found = session.find_stream(last)
        if found is not None:
            stream, after = found
        else:
            fetched = await session.fetch_stream(last)
            stream, replay = fetched or (session.new_stream(standing=True), b"")
        if stream.standing:
            session.keep(stream)
            session.listen(stream, self._limits.max_streams_per_session)
            if fetched is not None:
                self._app.resync(session.connection)  # something may have been missed
        gone = disconnected(receive, stream)
        lease = Lease(stream.expire)
        lease.extend(caller)
        try:
            unended = await pump(stream, gone, send, extra, self._streams, after, replay)
        finally:
            gone.cancel()
            lease.cancel()
            if stream.standing:
                session.unlisten(stream)
            session.leave_stream(stream)
            session.rest(stream)
        if unended:
            await end(send)

    async def _delete(
        self, headers: Headers, send: Send, extra: list[tuple[bytes, bytes]], caller: Caller | None = None
    ) -> None:
        session = await self._session(headers, caller, required=True)
        assert session is not None
        await self._sessions.end(session)
        await respond(send, 204, b"", extra)


def _stream(connection: Connection, session: Session | None, *, events: bool) -> Stream:
    if not events:
        return MutedStream(connection)
    return Stream(connection) if session is None else session.new_stream()


def _no_session(version: bytes | None = None) -> Rejection:
    """Return the rejection of a request without a session; ``version`` is the stateless revision that it names."""
    if version is None:
        return Rejection(400, "The Mcp-Session-Id header is missing")
    name = version.decode("latin-1")
    return Rejection(
        405,
        f"GET and DELETE are for sessions, which revision {name} does not have: in a session, MCP-Protocol-Version is "
        "what initialize agreed on",
        [(b"allow", b"POST, OPTIONS")],
    )


def _not_stateless(version: bytes) -> InvalidParams:
    """Return the error for a request whose header names a stateless revision but whose body does not."""
    error = InvalidParams(
        "Invalid params: _meta lacks io.modelcontextprotocol/protocolVersion, which revision "
        f"{version.decode('latin-1')} of the MCP-Protocol-Version header needs; in a session, the header is what "
        "initialize agreed on",
        parameter="_meta",
    )
    error.status = 400
    return error


def _needs_stream(call: Call) -> InvalidMessage:
    error = InvalidMessage(f"{call.request.method} is answered with a stream: Accept must allow text/event-stream")
    error.status = 406
    return error


async def _ready(answer: bytes) -> bytes:
    return answer


def path_of(scope: Scope) -> str:
    """Return the path of a request relative to where this application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
