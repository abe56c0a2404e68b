"""Direct use of the connection, past ASGI: reading of bodies, writing of responses and of chunks, noticing its end.

Sending a message through ASGI wakes a task and awaits ``send``, which costs several times as much as the write. If
``send`` belongs to uvicorn's httptools protocol, without middleware around it, a small message can be written at once,
provided that the send queue is empty. So can a response that only has headers of its body. A body that has arrived is
taken without awaiting ``receive``. And no task has to wait for the end of the connection, which saves three kilobytes
per stream.
"""

from __future__ import annotations

import asyncio
from typing import Any

from carrel.transports.server.uvicorn_internals import cycle_of

__all__ = ["DirectWriter", "direct_writer", "disconnection", "take_body", "write_response"]


class DirectWriter:
    """Writer of chunks of one response (``Transfer-Encoding: chunked``) whose headers have been sent."""

    __slots__ = ("_cycle", "_transport")

    def __init__(self, cycle: Any) -> None:
        self._cycle = cycle
        self._transport = cycle.transport

    @property
    def ready(self) -> bool:
        """Whether the response is still open, and everything written has been sent to the client."""
        transport, cycle = self._transport, self._cycle
        return not (
            cycle.disconnected or cycle.response_complete or transport.get_write_buffer_size() or transport.is_closing()
        )

    def write(self, data: bytes) -> None:
        """Write a chunk, which is not empty. The writer has to be ``ready``."""
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))


def direct_writer(send: Any) -> DirectWriter | None:
    """Return the writer for the response that an ASGI ``send`` has begun; None where it has to go through ASGI."""
    cycle = cycle_of(send)
    if cycle is None or not hasattr(getattr(cycle, "transport", None), "get_write_buffer_size"):
        return None
    if getattr(cycle, "chunked_encoding", None) is not True or cycle.scope["method"] == "HEAD":
        return None
    return DirectWriter(cycle)


def take_body(receive: Any) -> bytes | None:
    """Take the body of a request that has arrived completely; return None where ``receive`` has to be awaited."""
    cycle = cycle_of(receive)
    if cycle is None or cycle.more_body or cycle.waiting_for_100_continue:
        return None
    if cycle.disconnected or cycle.response_complete:
        return None
    cycle.flow.resume_reading()
    cycle.message_event.clear()
    body, cycle.body = bytes(cycle.body), bytearray()
    return body


def write_response(send: Any, body: bytes) -> bool:
    """Write a complete JSON response with status 200; return False where it has to go through ASGI.

    That is the case where uvicorn adds headers or logs the response, the request or the connection ends with it, or
    nothing can be written now.
    """
    cycle = cycle_of(send)
    if cycle is None or cycle.default_headers or cycle.access_log:
        return False
    if cycle.response_started or cycle.disconnected or not cycle.keep_alive or cycle.flow.write_paused:
        return False
    if cycle.scope["method"] == "HEAD" or cycle.transport.is_closing():
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = cycle.chunked_encoding = False
    cycle.transport.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )
    cycle.message_event.set()
    cycle.on_response()
    return True


class Disconnection:
    """Event of a request that has arrived: set when the client disconnects, or the response is complete."""

    __slots__ = ("_gone",)

    def __init__(self, gone: asyncio.Future[None]) -> None:
        self._gone: asyncio.Future[None] | None = gone

    def set(self) -> None:
        """Complete the future, and drop it: an idle connection keeps its last request."""
        gone, self._gone = self._gone, None
        if gone is not None and not gone.done():
            gone.set_result(None)

    def clear(self) -> None:
        """Do nothing: nothing more is received."""

    async def wait(self) -> None:
        """Wait until it is set."""
        if self._gone is not None:
            await asyncio.wait((self._gone,))


def disconnection(receive: Any) -> asyncio.Future[None] | None:
    """Return a future of the end of a request's connection; None where ``receive`` has to tell that."""
    cycle = cycle_of(receive)
    if cycle is None or cycle.more_body or cycle.disconnected or cycle.response_complete:
        return None
    cycle.flow.resume_reading()
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cycle.message_event = Disconnection(gone)
    return gone
