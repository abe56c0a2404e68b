"""Direct writing of chunks of a response to the connection, past ASGI.

Sending a message through ASGI wakes a task and awaits ``send``: that costs several times as much as to write it. Where
``send`` is that of uvicorn's httptools protocol, with no middleware around it, a small message can be written at once,
provided that nothing waits to be sent before it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DirectWriter", "direct_writer"]

PROTOCOL = "uvicorn.protocols.http.httptools_impl"


class DirectWriter:
    """Writer of chunks of one response (``Transfer-Encoding: chunked``) whose headers have been sent."""

    __slots__ = ("_cycle", "_transport")

    def __init__(self, cycle: Any) -> None:
        self._cycle = cycle
        self._transport = cycle.transport

    @property
    def ready(self) -> bool:
        """Whether the response goes on, and the client has been sent all that was written."""
        transport, cycle = self._transport, self._cycle
        return not (
            cycle.disconnected or cycle.response_complete or transport.get_write_buffer_size() or transport.is_closing()
        )

    def write(self, data: bytes) -> None:
        """Write a chunk, which is not empty. The writer has to be ``ready``."""
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))


def direct_writer(send: Any) -> DirectWriter | None:
    """Return the writer for the response that an ASGI ``send`` has begun; None where it has to go through ASGI."""
    cycle: Any = getattr(send, "__self__", None)
    if type(cycle).__module__ != PROTOCOL or not hasattr(getattr(cycle, "transport", None), "get_write_buffer_size"):
        return None
    if getattr(cycle, "chunked_encoding", None) is not True or cycle.scope["method"] == "HEAD":
        return None
    return DirectWriter(cycle)
