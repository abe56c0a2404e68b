"""HTTP responses of the Streamable HTTP server: JSON if the response is the only message, or else an SSE stream.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from math import ceil
from typing import Any

from msgspec import UNSET

from carrel.errors import INTERNAL_ERROR, ServerUnavailable
from carrel.protocol.channel import ConnectedClient
from carrel.protocol.encoding import encode_error
from carrel.protocol.server import ErrorResponse
from carrel.transports.server.direct import direct_writer, disconnection, write_response
from carrel.transports.server.dispatcher import CLEANUP, UNWEIGHED, Work, answer_of, cancel, no_room
from carrel.transports.server.session import StreamableHTTPSession
from carrel.transports.server.streams import Stream

__all__ = [
    *("RETRY_LATER", "PendingResponse", "answer", "disconnected", "end", "pump", "respond"),
    *("respond_error", "respond_unavailable"),
]

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

#: How many bytes are sent to the connection at a time: the rest counts against the client's budget.
CHUNK = 256 * 1024

RETRY_LATER = (b"retry-after", b"5")
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class PendingResponse:
    """Pending HTTP response to a request in flight, as JSON or as an SSE stream.

    ``key`` identifies the request in its session; ``json``: the client accepts JSON. If the client
    disconnects, the request is cancelled, unless the stream has begun and is resumable.
    """

    __slots__ = ("_extra", "_json", "_key", "_session", "_stream", "_streaming", "_work")

    def __init__(
        self,
        key: Any,
        work: Work,
        stream: Stream,
        session: StreamableHTTPSession | None,
        extra: Headers,
        *,
        json: bool,
    ) -> None:
        self._key = key
        self._work = work
        self._stream = stream
        self._session = session
        self._extra = extra
        self._json = json
        self._streaming = False

    @property
    def stateless(self) -> bool:
        """Whether the request belongs to no session."""
        return self._session is None

    async def run(self, receive: Receive, send: Send, patience: float, streams: set[Stream], works: set[Work]) -> None:
        """Send the response, as a stream if it is not ready within ``patience`` seconds.

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
            while not (work.done() or gone.done()) and (stream.idle or stream.muted):
                await stream.wait()
            timer.cancel()
            del timer  # frees memory, as a stream may live long
            if work.done() and self._json and (stream.idle or stream.muted):
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
                session.mark_replayable(stream)
            if not work.done() and not (self._streaming and stream.id):
                cancel(work)  # the response cannot be delivered any more
                await asyncio.wait((work,), timeout=CLEANUP)
        if unended:
            await end(send)

    def _finish(self, work: Work) -> None:
        if self._session is not None:
            self._session.finish(self._key, work)
        if self._streaming:
            self._conclude()
            if self._session is not None:
                self._session.mark_replayable(self._stream)
        self._stream.wake()

    def _conclude(self) -> None:
        """Send the response on the stream and complete it."""
        stream = self._stream
        if not stream.complete:
            answer = answer_of(self._work)
            reply = answer.reply if isinstance(answer, ErrorResponse) else answer
            stream.finish(reply or b"", no_room(self._key))

    async def _respond(self, send: Send) -> None:
        reply = answer_of(self._work)
        if isinstance(reply, ErrorResponse):
            await respond_error(send, reply, self._extra)
        elif reply:
            await answer(send, self._stream.client, self._key, reply, self._extra)
        elif reply is None and (self._session is None or self._session.closed):
            error = encode_error(UNSET, INTERNAL_ERROR, "The session or the server ended before the response was ready")
            await respond(send, 503, error, self._extra)
        else:
            await respond(send, 202, b"", self._extra)  # cancelled by the client, or a batch without requests


async def pump(
    stream: Stream,
    gone: asyncio.Future[None],
    send: Send,
    extra: Headers,
    streams: set[Stream],
    after: int | None = None,
) -> bool:
    """Send an SSE stream until it is complete, the client disconnects or is too slow, or another connection resumes it.

    ``after`` is the number of the last event that a resuming client has.
    Returns whether the response still has to be ended with ``end``, which may block on a client that does not read.
    """
    connection = stream.attach()
    streams.add(stream)
    try:
        opening = await stream.opening(after)
        await send({"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *extra]})
        if opening:
            await _send_body(send, opening)
        if stream.attached == connection:
            stream.direct = direct_writer(send)
        while stream.attached == connection and not (gone.done() or stream.aborted):
            data = stream.take()
            if data:
                if len(data) > CHUNK:
                    await _send_body(send, data)
                else:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            elif stream.closing:
                await send({"type": "http.response.body", "body": stream.closing_bytes(), "more_body": True})
                break
            elif stream.complete:
                break
            else:
                await stream.wait()
        if not (gone.done() or stream.aborted):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    except OSError:
        return False  # some ASGI servers raise this if the client has disconnected
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not (stream.aborted or stream.attached != connection) or task is None or task.uncancel():
            raise
        return True
    else:
        return stream.aborted
    finally:
        if stream.attached == connection:
            stream.detach()
            streams.discard(stream)


def disconnected(receive: Receive, stream: Stream) -> asyncio.Future[None]:
    """Return a future, or a task, that completes when the client disconnects, and then wakes ``stream``."""
    gone = disconnection(receive) or asyncio.get_running_loop().create_task(_disconnected(receive))
    gone.add_done_callback(stream.wake)
    return gone


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def end(send: Send) -> None:
    """End a streaming response."""
    try:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except OSError:
        pass  # the client is gone


async def answer(send: Send, client: ConnectedClient, id: Any, reply: bytes, extra: Headers = ()) -> None:
    """Send a JSON response, charged to the client's budget until it is sent; or an error if it exceeds that."""
    size = len(reply)
    if size <= UNWEIGHED:
        if extra or not write_response(send, reply):
            await respond(send, 200, reply, extra)
        return
    if not client.take(size):
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
        client.give(size)


async def respond_unavailable(send: Send, error: ServerUnavailable, extra: Headers) -> None:
    """Send the error of a request that needs the store of shared state, which has failed."""
    await respond(send, 503, encode_error(UNSET, error.code, error.message), [RETRY_LATER, *extra])


async def respond_error(send: Send, error: ErrorResponse, extra: Headers) -> None:
    """Send the error response to a request, with the time after which it may be sent again."""
    headers = list(extra)
    if error.retry_after is not None and error.status == 429:
        headers.append((b"retry-after", b"%d" % ceil(error.retry_after)))
    elif error.status == 503:
        headers.append(RETRY_LATER)
    await respond(send, error.status, error.reply, headers)


async def _send_body(send: Send, data: bytes) -> None:
    """Send part of a body in chunks, so that the server's flow control applies between them."""
    for start in range(0, len(data), CHUNK):
        await send({"type": "http.response.body", "body": data[start : start + CHUNK], "more_body": True})


async def respond(send: Send, status: int, body: bytes, extra: Headers = ()) -> None:
    """Send a complete response: ``body`` is JSON, or empty."""
    headers = (
        [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *extra] if body else [*extra]
    )
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
