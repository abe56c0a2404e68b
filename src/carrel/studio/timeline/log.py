"""WireLog: the newest messages of all connections, in bounded memory, and the transport that records them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.client.client import Client
from carrel.doctor.recorder import RecordingTransport
from carrel.printable import printable
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.methods import INITIALIZE
from carrel.redaction import MASK, without_secrets
from carrel.transports.client.http_base import HTTPTransportBase
from carrel.transports.client.transport import Transport

if TYPE_CHECKING:
    from carrel.studio.timeline.facts import Facts

__all__ = ["Entry", "Exchange", "WireConnection", "WireLog", "WireRecorder", "record", "without_secret_values"]

#: Bytes of messages that are kept, and the bytes that each message needs besides its data.
KEPT, OVERHEAD = 64 * 1024 * 1024, 500
#: HTTP headers whose values are shown.
SHOWN = frozenset(
    (
        *("accept", "allow", "cache-control", "connection", "content-encoding", "content-length", "content-type"),
        *("date", "last-event-id", "location", "mcp-method", "mcp-name", "mcp-protocol-version", "retry-after"),
        *("server", "transfer-encoding", "user-agent", "vary", "www-authenticate", "x-accel-buffering"),
    )
)


class Exchange(msgspec.Struct, frozen=True, gc=False):
    """HTTP request and the status and headers of its response; values of secret headers are hidden."""

    method: str
    status: int
    sent: Mapping[str, str]
    received: Mapping[str, str]


class WireConnection:
    """Connection whose messages are recorded."""

    def __init__(self, log: WireLog, server: str, number: int) -> None:
        self.server = server
        self.number = number
        self.revision: str | None = None
        """Revision of the last sent message; None if it was the first message of a handshake."""
        self._log = log

    def add(self, sent: bool, data: bytes) -> None:
        """Record a message."""
        self._log.add(Entry(self, sent, bytes(data), time.time()))


class Entry:
    """Recorded message. ``time`` is in seconds since 1970; ``facts`` is None until the timeline is shown."""

    __slots__ = ("connection", "data", "exchange", "facts", "number", "revision", "sent", "time")

    def __init__(self, connection: WireConnection, sent: bool, data: bytes, time: float) -> None:
        self.number = 0
        self.connection = connection
        self.sent = sent
        self.data = data
        self.time = time
        self.revision = connection.revision
        self.facts: Facts | None = None
        self.exchange: Exchange | None = None


class WireLog:
    """The newest messages of all connections. ``on_news`` is called once for the first message after each ``arm``."""

    def __init__(self, on_news: Callable[[], object] = lambda: None, *, kept: int = KEPT) -> None:
        self.entries: deque[Entry] = deque()
        """The messages, oldest first."""
        self.last = 0
        """Number of the newest message. The first message has number 1."""
        self.dropped = 0
        """Number of messages that were dropped."""
        self.size = 0
        """Bytes of the kept messages."""
        self._kept = kept
        self._by_number: dict[int, Entry] = {}
        self._on_news = on_news
        self._armed = False
        self._numbers = count(1)

    def connect(self, server: str) -> WireConnection:
        """Return a new connection to a server."""
        return WireConnection(self, server, next(self._numbers))

    def add(self, entry: Entry) -> None:
        """Add a message. If the memory is full, drop the oldest messages."""
        self.last += 1
        entry.number = self.last
        self.entries.append(entry)
        self._by_number[self.last] = entry
        self.size += len(entry.data) + OVERHEAD
        while self.size > self._kept and len(self.entries) > 1:
            old = self.entries.popleft()
            del self._by_number[old.number]
            self.size -= len(old.data) + OVERHEAD
            self.dropped += 1
        if self._armed:
            self._armed = False
            self._on_news()

    def arm(self) -> None:
        """Report the next message by ``on_news``."""
        self._armed = True

    def find(self, number: int) -> Entry | None:
        """Return a message by its number, or None if it was dropped."""
        return self._by_number.get(number)

    def after(self, number: int) -> list[Entry]:
        """Return the messages after a number."""
        newest = list(islice(reversed(self.entries), max(0, self.last - number)))
        newest.reverse()
        return newest

    def attach(self, data: bytes, exchange: Exchange) -> None:
        """Add the HTTP exchange of a sent message, found by the identity of its bytes."""
        for entry in reversed(self.entries):
            if entry.data is data:
                entry.exchange = exchange
                return


class WireRecorder(RecordingTransport):
    """Transport that records the messages of a connection, and sends additional requests."""

    def __init__(self, transport: Transport, connection: WireConnection, log: WireLog) -> None:
        super().__init__(transport, connection)
        self.connection = connection
        self._log = log
        if isinstance(transport, HTTPTransportBase):
            transport.observe(self._responded)

    def _responded(
        self, method: str, data: bytes | None, sent: Mapping[str, str], status: int, received: Mapping[str, str]
    ) -> None:
        if data is not None:
            self._log.attach(
                data, Exchange(method, status, without_secret_values(sent), without_secret_values(received))
            )

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Record a message and its revision, and send it."""
        if message.revision is not None:
            self.connection.revision = message.revision.name
        elif message.method == INITIALIZE.method:
            self.connection.revision = None
        return super().send(message)


def without_secret_values(headers: Mapping[str, str]) -> dict[str, str]:
    """Return HTTP headers as text. Only the values of common headers are shown; all others may be secrets."""
    return {
        printable(name, 100): printable(without_secrets(value)) if name.lower() in SHOWN else MASK
        for name, value in headers.items()
    }


def record(client: Client, log: WireLog, server: str) -> None:
    """Have a client that is not connected yet record its messages."""
    endpoint = client.session.endpoint

    def around(open: Callable[[], Any]) -> Callable[[], WireRecorder]:
        return lambda: WireRecorder(open(), log.connect(server), log)

    older = endpoint.open_older
    client.session.endpoint = msgspec.structs.replace(
        endpoint, open=around(endpoint.open), open_older=None if older is None else around(older)
    )
