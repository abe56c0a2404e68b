"""Streamable HTTP as an ASGI application: one endpoint for clients of every age.

A request of 2026-07-28 is answered on its own. A client of an older revision gets a session at ``initialize``, may
listen with GET, resume with Last-Event-ID, and end with DELETE. An answer is JSON if it is ready soon and nothing else
has to be said before it, and otherwise a stream of events.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import UNSET

from carrel.errors import INVALID_REQUEST, HeaderMismatch
from carrel.protocol.encoding import encode_error
from carrel.protocol.http import verify
from carrel.protocol.revisions import REVISIONS
from carrel.protocol.server import Batch, Call, Connection, Event, Refusal, Signal
from carrel.transports.application import Application
from carrel.transports.dialogue import answer_batch, spawn
from carrel.transports.origin import Origins
from carrel.transports.streams import Send, Session, Stream

__all__ = ["StreamableHTTP"]

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Headers = dict[bytes, bytes]

JSON = b"application/json"
EVENTS = b"text/event-stream"
#: Headers that may be there once only: two parties that read different ones would see different requests.
SINGLE = frozenset((b"accept", b"content-type", b"host", b"last-event-id", b"origin"))
STREAM_HEADERS = [
    (b"content-type", EVENTS),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class Rejection(Exception):
    """A request that is refused before anybody reads its message."""

    def __init__(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = list(headers)


class StreamableHTTP:
    """The MCP endpoint as an ASGI application.

    Mounted in another application, its own start-up and shutdown do not happen by themselves: give ``lifespan`` to
    the outer application (without it, the server starts with the first request).

    Args:
        app: the server.
        path: where the endpoint is, within where this application is mounted.
        allowed_hosts: names that the Host header may have, besides those of this machine ("*": any).
        allowed_origins: origins, such as "https://example.org", whose pages may call besides those of this machine.
        max_body: the longest body that is read, in bytes.
        session_ttl: seconds after which a session that nobody uses ends.
        max_sessions: how many sessions there may be at a time.
        keep_alive: seconds after which a silent stream gets a comment, so that nobody on the way closes it.
        patience: seconds that an answer may take before a stream is begun for a client with a session.
        body_timeout: seconds in which a body has to come in.
    """

    def __init__(
        self,
        app: Application,
        *,
        path: str = "/mcp",
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        max_body: int = 16 * 1024 * 1024,
        session_ttl: float = 1800.0,
        max_sessions: int = 10_000,
        keep_alive: float = 15.0,
        patience: float = 0.5,
        body_timeout: float = 60.0,
    ) -> None:
        self._app = app
        self._path = "/" + path.strip("/")
        self._origins = Origins(allowed_hosts, allowed_origins)
        self._max_body = max_body
        self._session_ttl = session_ttl
        self._max_sessions = max_sessions
        self._keep_alive = keep_alive
        self._patience = patience
        self._body_timeout = body_timeout
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._streams: set[Stream] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stateless = frozenset(name.encode() for name, row in REVISIONS.items() if row.stateless)
        self._known = frozenset(name.encode() for name in REVISIONS)
        self._answers: set[asyncio.Task[Any]] = set()

    # Starting and stopping

    async def start(self) -> None:
        """Start the server. Happens by itself where the ASGI server sends lifespan events."""
        await self._app.start()
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """End all streams and sessions, and stop the server."""
        self.end_streams()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
        for id in list(self._sessions):
            self._end(id)
        if self._answers:
            await asyncio.wait(self._answers, timeout=5)
        self._starting = None
        await self._app.stop()

    def end_streams(self) -> None:
        """End every open stream properly, such as before the process stops."""
        self._app.end_streams()
        for session in self._sessions.values():
            for stream in session.listening:
                stream.done = True
                stream.wake()

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Start and stop with an outer application: ``Starlette(routes=…, lifespan=mcp.lifespan)``."""
        await self._ensure_started()
        try:
            yield
        finally:
            await self.stop()

    async def _ensure_started(self) -> None:
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self.start())
        await asyncio.shield(self._starting)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._ensure_started()
        except Exception as error:
            self._starting = None
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _keep(self) -> None:
        """Keep silent streams open, and end sessions that nobody uses."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._keep_alive)
            for stream in self._streams:
                stream.ping = True
                stream.wake()
            self._sweep(loop.time())

    def _sweep(self, now: float) -> None:
        for id, session in list(self._sessions.items()):
            if session.touched > now - self._session_ttl:
                break  # they are in the order of their last use
            if not session.busy:
                self._end(id)

    def _end(self, id: str) -> None:
        session = self._sessions.pop(id)
        session.close()
        self._app.disconnect(session.connection)

    # One request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._run_lifespan(receive, send)
            return
        if kind != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        if self._keeper is None:
            await self._ensure_started()
        try:
            headers = self._check(scope)
            method = scope["method"]
            if method == "POST":
                await self._post(headers, receive, send)
            elif method == "GET":
                await self._get(headers, receive, send)
            elif method == "DELETE":
                await self._delete(headers, send)
            elif method == "OPTIONS" and b"origin" in headers:
                await _respond(send, 204, b"", self._origins.preflight(headers))
            else:
                raise Rejection(405, f"{method} is not for this endpoint", [(b"allow", b"GET, POST, DELETE, OPTIONS")])
        except Rejection as refusal:
            body = encode_error(UNSET, INVALID_REQUEST, str(refusal))
            await _respond(send, refusal.status, body, refusal.headers)

    def _check(self, scope: Scope) -> Headers:
        """Check where the request goes and where it comes from; return its headers by lower-case name."""
        path, root = scope["path"], scope.get("root_path", "")
        if root and path.startswith(root):
            path = path[len(root) :]
        if path != self._path and path.rstrip("/") != self._path.rstrip("/"):
            raise Rejection(404, f"The MCP endpoint is {root}{self._path}")
        headers: Headers = dict(scope["headers"])
        if len(headers) != len(scope["headers"]):
            names = [name for name, _ in scope["headers"]]
            for name in names:
                if names.count(name) > 1 and (name in SINGLE or name.startswith(b"mcp-")):
                    raise Rejection(400, f"The {name.decode('latin-1')} header is there more than once")
        problem = self._origins.check(headers)
        if problem is not None:
            raise Rejection(403, problem)
        return headers

    def _session(self, headers: Headers, *, required: bool) -> Session | None:
        """Return the session that a request belongs to.

        A request of a stateless revision has none, whatever its headers say.
        """
        version = headers.get(b"mcp-protocol-version")
        id = headers.get(b"mcp-session-id")
        if id is None or (version is not None and version in self._stateless):
            if required:
                raise Rejection(400, "The Mcp-Session-Id header is missing")
            return None
        session = self._sessions.get(id.decode("latin-1"))
        if session is None:
            raise Rejection(404, "There is no such session (any more): initialize a new one")
        if version is not None and version not in self._known:
            raise Rejection(400, f"MCP-Protocol-Version {version[:50].decode('latin-1')!r} is not spoken here")
        session.touched = asyncio.get_running_loop().time()
        self._sessions.move_to_end(session.id)
        return session

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        length = headers.get(b"content-length")
        if length is not None and length.isdigit() and int(length) > self._max_body:
            raise Rejection(413, f"The body is too long: at most {self._max_body} bytes")
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Rejection(400, "The client went away")
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            if len(body) > self._max_body:
                raise Rejection(413, f"The body is too long: at most {self._max_body} bytes")
            return body
        pieces, size = [body], len(body)
        try:
            async with asyncio.timeout(self._body_timeout):
                while message.get("more_body", False):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Rejection(400, "The client went away")
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > self._max_body:
                        raise Rejection(413, f"The body is too long: at most {self._max_body} bytes")
        except TimeoutError:
            raise Rejection(408, f"The body did not come within {self._body_timeout} seconds") from None
        return b"".join(pieces)

    async def _post(self, headers: Headers, receive: Receive, send: Send) -> None:
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON:
            raise Rejection(415, "The content type must be application/json")
        json, events = _accepts(headers.get(b"accept", b"*/*"))
        if not json and not events:
            raise Rejection(406, "The Accept header must allow application/json and text/event-stream")
        session = self._session(headers, required=False)
        body = await self._body(headers, receive)
        if session is None:
            connection = self._app.connect()
            version = headers.get(b"mcp-protocol-version")
            connection.version_header = None if version is None else version.decode("latin-1").strip(" \t")
        else:
            connection = session.connection
        event = connection.receive(body)
        extra = self._origins.answer(headers)
        if type(event) is not Call:
            await self._post_other(event, connection, session, receive, send, extra, json, events)
            return
        if event.peer.revision.stateless:
            event.headers = headers
            try:
                verify(event, headers)
            except HeaderMismatch as error:
                refusal = connection.refuse(event, error)
                await _respond(send, refusal.status, refusal.reply, extra)
                return
            session = None
        elif session is None and event.request.operation == "initialize":
            session = self._new_session(connection)
            extra = [*extra, (b"mcp-session-id", session.id.encode())]
        stream = Stream() if session is None else session.new_stream()
        answer = self._app.answer(event, stream)
        if type(answer) is bytes:
            if stream.idle and json:
                await _respond(send, 200, answer, extra)
                return
            answer = _ready(answer)
        elif type(answer) is Refusal:
            if event.request.operation == "initialize" and session is not None:
                self._end(session.id)
            await _respond(send, answer.status, answer.reply, extra)
            return
        await self._answer_later(event.id, answer, stream, session, receive, send, extra, json, events)

    async def _post_other(
        self,
        event: Event,
        connection: Connection,
        session: Session | None,
        receive: Receive,
        send: Send,
        extra: list[tuple[bytes, bytes]],
        json: bool,
        events: bool,
    ) -> None:
        """Take a notification, a response, a batch, or what is none of them."""
        if type(event) is Refusal:
            await _respond(send, event.status, event.reply, extra)
            return
        if type(event) is Batch:
            assert session is not None  # a batch needs a session to be of a revision that has batches
            stream = session.new_stream()
            pending = self._answer_batch(event, session, stream)
            await self._answer_later(stream, pending, stream, session, receive, send, extra, json, events)
            return
        self._take(event, session)
        await _respond(send, 202, b"", extra)

    def _take(self, event: Event, session: Session | None) -> bytes | None:
        if type(event) is Refusal:
            return event.reply
        if type(event) is Signal and event.operation == "cancelled" and session is not None:
            task = session.in_flight.get(event.params.request_id)
            if task is not None:
                task.cancel()
        return None

    async def _answer_batch(self, batch: Batch, session: Session, stream: Stream) -> bytes:
        replies = await answer_batch(
            self._app, batch, stream, session.in_flight, lambda event: self._take(event, session)
        )
        return b"[%b]" % b",".join(replies) if replies else b""

    def _new_session(self, connection: Connection) -> Session:
        loop = asyncio.get_running_loop()
        if len(self._sessions) >= self._max_sessions:
            self._sweep(loop.time())
            idle = next((id for id, session in self._sessions.items() if not session.busy), None)
            if len(self._sessions) >= self._max_sessions:
                if idle is None:
                    raise Rejection(503, "There are too many sessions", [(b"retry-after", b"10")])
                self._end(idle)
        session = Session(secrets.token_urlsafe(16), connection, loop.time())
        self._sessions[session.id] = session
        return session

    # Answers that are not ready at once

    async def _answer_later(
        self,
        key: Any,
        pending: Coroutine[Any, Any, bytes | Refusal],
        stream: Stream,
        session: Session | None,
        receive: Receive,
        send: Send,
        extra: list[tuple[bytes, bytes]],
        json: bool,
        events: bool,
    ) -> None:
        """Send what a request leads to: its answer as JSON if that is all there is, otherwise a stream of events."""
        task: asyncio.Task[bytes | Refusal] = spawn(pending)
        self._answers.add(task)
        if session is not None:
            session.in_flight[key] = task
        loop = asyncio.get_running_loop()

        def finish(_: asyncio.Task[Any]) -> None:
            self._answers.discard(task)
            if session is not None:
                session.in_flight.pop(key, None)
                session.touched = loop.time()
            if streaming:
                self._close(stream, task)
            stream.wake()

        streaming = False
        task.add_done_callback(finish)
        gone = loop.create_task(_disconnected(receive))
        gone.add_done_callback(lambda _: stream.wake())
        timer = loop.call_later(self._patience if session is not None else self._keep_alive, stream.nudge)
        try:
            while events and not (task.done() or gone.done()) and stream.idle:
                await stream.wait()
            if json and not events:
                await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if task.done() and (stream.idle or not events) and json:
                await self._respond_once(task, send, extra)
                return
            if gone.done():
                return
            streaming = True
            if task.done():
                self._close(stream, task)
            if session is not None:
                session.keep(stream)
            await self._pump(stream, gone, send, extra, stream.open())
        finally:
            timer.cancel()
            gone.cancel()
            if not task.done() and not (streaming and stream.id):
                task.cancel()  # nobody can get the answer any more
                await asyncio.wait((task,))

    @staticmethod
    def _close(stream: Stream, task: asyncio.Task[bytes | Refusal]) -> None:
        """Put the answer at the end of the stream."""
        if stream.done:
            return
        if not task.cancelled():
            answer = task.result()
            reply = answer.reply if type(answer) is Refusal else answer
            if reply:
                stream.send(reply)  # type: ignore[arg-type]
        stream.done = True

    @staticmethod
    async def _respond_once(task: asyncio.Task[bytes | Refusal], send: Send, extra: list[tuple[bytes, bytes]]) -> None:
        if task.cancelled():
            await _respond(send, 202, b"", extra)  # cancelled by the client: there is no answer
            return
        answer = task.result()
        if type(answer) is Refusal:
            await _respond(send, answer.status, answer.reply, extra)
        else:
            await _respond(send, 200 if answer else 202, answer, extra)  # type: ignore[arg-type]

    async def _pump(
        self, stream: Stream, gone: asyncio.Task[None], send: Send, extra: list[tuple[bytes, bytes]], opening: bytes
    ) -> None:
        """Send a stream until it is over, the client is gone, or it has come back on another connection."""
        await send({"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *extra]})
        self._streams.add(stream)
        connection = stream.attach()
        try:
            if opening:
                await send({"type": "http.response.body", "body": opening, "more_body": True})
            while not gone.done() and stream.connection == connection:
                data = stream.take()
                if data:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                elif stream.paused:
                    await send({"type": "http.response.body", "body": stream.close(), "more_body": True})
                    break
                elif stream.done:
                    break
                else:
                    await stream.wait()
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if stream.connection == connection:
                stream.detach()
                self._streams.discard(stream)

    # GET and DELETE: sessions only

    async def _get(self, headers: Headers, receive: Receive, send: Send) -> None:
        if not _accepts(headers.get(b"accept", b""))[1]:
            raise Rejection(406, "This is an MCP endpoint: GET is for streams, and must accept text/event-stream")
        session = self._session(headers, required=True)
        assert session is not None
        extra = self._origins.answer(headers)
        last = headers.get(b"last-event-id")
        found = None if last is None else session.find_stream(last.decode("latin-1"))
        stream, after = (session.new_stream(), -1) if found is None else found
        gone = asyncio.get_running_loop().create_task(_disconnected(receive))
        gone.add_done_callback(lambda _: stream.wake())
        standing = found is None or stream.standing
        if standing:
            stream.standing = True
            session.keep(stream)
            session.listen(stream)
        try:
            await self._pump(stream, gone, send, extra, stream.open() if found is None else stream.replay(after))
        finally:
            gone.cancel()
            if standing:
                session.unlisten(stream)

    async def _delete(self, headers: Headers, send: Send) -> None:
        session = self._session(headers, required=True)
        assert session is not None
        self._end(session.id)
        await _respond(send, 204, b"", self._origins.answer(headers))


def _accepts(accept: bytes) -> tuple[bool, bool]:
    """Say whether JSON and whether event streams are accepted."""
    if accept == b"application/json, text/event-stream":
        return True, True
    kinds = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    everything = b"*/*" in kinds
    return (
        everything or JSON in kinds or b"application/*" in kinds,
        everything or EVENTS in kinds or b"text/*" in kinds,
    )


async def _ready(answer: bytes) -> bytes:
    return answer


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _respond(send: Send, status: int, body: bytes, extra: Iterable[tuple[bytes, bytes]] = ()) -> None:
    headers = [(b"content-type", JSON), (b"content-length", b"%d" % len(body)), *extra] if body else [*extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
