"""One HTTP request that is answered later: with JSON if the answer is all there is to say, or else with a stream.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec import UNSET

from carrel.errors import INTERNAL_ERROR
from carrel.protocol.encoding import encode_error
from carrel.protocol.server import Connection, Refusal
from carrel.transports.server.dispatcher import CLEANUP, UNWEIGHED, Work, answer_of, cancel, no_room
from carrel.transports.server.streams import Session, Stream

__all__ = ["PendingResponse", "answer", "disconnected", "pump", "respond"]

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

#: How many bytes are given to the connection at a time: the rest waits here, where it counts as kept for the client.
CHUNK = 256 * 1024

STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class PendingResponse:
    """A request in work. ``key`` is what it is known by in its session; ``json`` and ``events`` say what is accepted.

    If the client goes away, the work is cancelled; unless the stream has begun and can be resumed.
    """

    __slots__ = ("_connection", "_events", "_extra", "_json", "_key", "_session", "_stream", "_streaming", "_work")

    def __init__(
        self,
        key: Any,
        work: Work,
        stream: Stream,
        connection: Connection,
        session: Session | None,
        extra: Headers,
        *,
        json: bool,
        events: bool,
    ) -> None:
        self._key = key
        self._work = work
        self._connection = connection
        self._stream = stream
        self._session = session
        self._extra = extra
        self._json = json
        self._events = events
        self._streaming = False

    @property
    def stateless(self) -> bool:
        """Whether the request belongs to no session."""
        return self._session is None

    async def run(self, receive: Receive, send: Send, patience: float, streams: set[Stream], works: set[Work]) -> None:
        """Answer, after ``patience`` seconds at the latest with a stream.

        While it is being sent, the stream is in ``streams``; the work is in ``works`` until it is done.
        """
        stream, session, work = self._stream, self._session, self._work
        works.add(work)
        if session is not None:
            session.in_flight[self._key] = work
        work.add_done_callback(works.discard)
        work.add_done_callback(self._finish)
        unended = False
        gone = disconnected(receive, stream)
        timer = asyncio.get_running_loop().call_later(patience, stream.nudge)
        try:
            while not (work.done() or gone.done()) and (stream.idle or not self._events):
                await stream.wait()
            timer.cancel()
            del timer  # a stream may live long, and it costs memory
            if work.done() and self._json and (stream.idle or not self._events):
                await self._respond(send)
            elif not gone.done():
                self._streaming = True
                if work.done():
                    self._conclude()
                if session is not None:
                    session.keep(stream)
                unended = await pump(stream, gone, send, self._extra, streams)
        finally:
            gone.cancel()
            if not self._streaming:
                stream.discard()
            elif session is not None:
                session.rest(stream)
            if not work.done() and not (self._streaming and stream.id):
                cancel(work)  # nobody can get the answer any more
                await asyncio.wait((work,), timeout=CLEANUP)
        if unended:
            await end(send)

    def _finish(self, work: Work) -> None:
        if self._session is not None:
            self._session.finish(self._key, work)
        if self._streaming:
            self._conclude()
            if self._session is not None:
                self._session.rest(self._stream)
        self._stream.wake()

    def _conclude(self) -> None:
        """Put the answer at the end of the stream."""
        stream = self._stream
        if not stream.done:
            answer = answer_of(self._work)
            reply = answer.reply if type(answer) is Refusal else answer
            stream.finish(reply or b"", no_room(self._key))

    async def _respond(self, send: Send) -> None:
        reply = answer_of(self._work)
        if type(reply) is Refusal:
            await respond(send, reply.status, reply.reply, self._extra)
        elif reply:
            await answer(send, self._connection, self._key, reply, self._extra)
        elif reply is None and (self._session is None or self._session.closed):
            error = encode_error(UNSET, INTERNAL_ERROR, "The session or the server ended before the answer was there")
            await respond(send, 503, error, self._extra)
        else:
            await respond(send, 202, b"", self._extra)  # cancelled by the client, or a batch that asks nothing


async def pump(
    stream: Stream,
    gone: asyncio.Task[None],
    send: Send,
    extra: Headers,
    streams: set[Stream],
    after: int | None = None,
) -> bool:
    """Send a stream until it is over, the client is gone or given up, or it has come back on another connection.

    ``after`` is the number of the last event that the client has, if it comes back. Returns whether the response still
    has to be ended: that waits for a client that does not read.
    """
    opening = stream.attach(after)
    connection = stream.connection
    streams.add(stream)
    try:
        await send({"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *extra]})
        if opening:
            await _send_body(send, opening)
        while stream.connection == connection and not (gone.done() or stream.lost):
            data = stream.take()
            if data:
                if len(data) > CHUNK:
                    await _send_body(send, data)
                else:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            elif stream.paused:
                await send({"type": "http.response.body", "body": stream.close(), "more_body": True})
                break
            elif stream.done:
                break
            else:
                await stream.wait()
        if not (gone.done() or stream.lost):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    except OSError:
        return False  # how some servers say that the client is gone
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not (stream.lost or stream.connection != connection) or task is None or task.uncancel():
            raise
        return True
    else:
        return stream.lost
    finally:
        if stream.connection == connection:
            stream.detach()
            streams.discard(stream)


def disconnected(receive: Receive, stream: Stream) -> asyncio.Task[None]:
    """Return a task that ends when the client is gone; ``stream`` is woken then."""
    gone = asyncio.get_running_loop().create_task(_disconnected(receive))
    gone.add_done_callback(stream.wake)
    return gone


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def end(send: Send) -> None:
    """End a response that is a stream."""
    try:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except OSError:
        pass  # the client is gone


async def answer(send: Send, connection: Connection, id: Any, reply: bytes, extra: Headers = ()) -> None:
    """Send an answer, which counts as kept for the client until it has left; or an error if there is no room for it."""
    size = len(reply)
    if size <= UNWEIGHED:
        await respond(send, 200, reply, extra)
        return
    if not connection.take(size):
        await respond(send, 429, no_room(id), [(b"retry-after", b"5"), *extra])
        return
    try:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % size), *extra]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _send_body(send, reply)
        await end(send)
    except OSError:
        pass  # the client is gone
    finally:
        connection.give(size)


async def _send_body(send: Send, data: bytes) -> None:
    """Send some of a body in pieces, each once the connection has taken most of the one before."""
    for start in range(0, len(data), CHUNK):
        await send({"type": "http.response.body", "body": data[start : start + CHUNK], "more_body": True})


async def respond(send: Send, status: int, body: bytes, extra: Headers = ()) -> None:
    """Send a response that is whole: ``body`` is JSON, or empty."""
    headers = (
        [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *extra] if body else [*extra]
    )
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
