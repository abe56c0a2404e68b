"""Incremental parser of server-sent events (SSE): bytes in, events out, however they are split.

Time is linear in the input, and memory is bounded by the limit.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

import msgspec

from carrel.errors import InvalidMessage
from carrel.protocol.encoding import CR, LF

__all__ = ["EventStream", "ServerSentEvent"]

#: Maximum length of an event id, in bytes: it has to fit into the Last-Event-ID header.
MAX_ID = 4096

#: Maximum reconnection delay that is accepted from a server, in milliseconds: a day.
MAX_RETRY = 86_400_000


class ServerSentEvent(msgspec.Struct, gc=False):
    """Server-sent event: its type ("message" by default), and its data, lines separated by line feeds."""

    name: str
    data: bytes


class EventStream:
    """Parser of one event stream, over one or several connections; keeps the id to resume after.

    Args:
        limit: maximum size of an event, in bytes.
    """

    __slots__ = ("_after_return", "_at_start", "_data", "_id", "_limit", "_name", "_rest", "_size", "last_id", "retry")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.last_id = ""
        """The id of the last event, to resume after it, or ""."""
        self.retry: int | None = None
        """Reconnection delay in milliseconds, if the server has sent one."""
        self.restart()

    def restart(self) -> None:
        """Reset for a new connection; an incomplete event is discarded."""
        self._at_start = True
        self._after_return = False
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""
        self._id = self.last_id

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Feed received bytes, and return the events that they complete.

        Raises:
            InvalidMessage: an event exceeds the limit. The parser cannot be used after that.
        """
        if self._after_return and data[:1] == b"\n":
            data = data[1:]
            self._after_return = False
        if not data:
            return []
        if LF not in data and CR not in data:  # fast path: a part of a long line
            self._after_return = False
            self._keep(data)
            return []
        self._after_return = data.endswith(b"\r")
        lines = data.splitlines()
        rest = b"" if data.endswith((b"\n", b"\r")) else lines.pop()
        events: list[ServerSentEvent] = []
        if lines:
            if self._rest:
                self._rest += lines[0]
                lines[0] = bytes(self._rest)
                self._rest = bytearray()
            if self._at_start:
                self._at_start = False
                lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            for line in lines:
                self._read_line(line, events)
        self._keep(rest)
        return events

    def _keep(self, rest: bytes) -> None:
        """Buffer an incomplete line until the rest of it arrives."""
        if rest:
            self._rest += rest
            self._check(len(self._rest))

    def _read_line(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if not line:
            self._dispatch(events)
        elif line.startswith(b"data:"):
            value = line[6:] if line.startswith(b" ", 5) else line[5:]
            self._check(len(value))
            self._size += len(value) + 1
            self._data.append(value)
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            self._read_field(field, value.removeprefix(b" "))

    def _read_field(self, field: bytes, value: bytes) -> None:
        if field == b"event":
            self._name = value[:100].decode("utf-8", "replace")
        elif field == b"id":
            # ids with NUL must be ignored; ids with other controls could not be sent back in a header
            if len(value) <= MAX_ID and not any(byte < 0x20 or byte == 0x7F for byte in value):
                self._id = value.decode("utf-8", "replace")
        elif field == b"retry":
            if value.isdigit():
                self.retry = min(int(value[:10]), MAX_RETRY)
        elif field == b"data":  # a line without a colon
            self._size += 1
            self._check(0)
            self._data.append(b"")

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        self.last_id = self._id
        if self._data:
            events.append(ServerSentEvent(self._name or "message", b"\n".join(self._data)))
            self._data = []
            self._size = 0
        self._name = ""

    def _check(self, more: int) -> None:
        if self._size + more > self._limit:
            raise InvalidMessage(f"An event is longer than {self._limit} bytes")
