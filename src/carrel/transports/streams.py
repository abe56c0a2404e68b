"""The streams of Streamable HTTP: what is on its way to a client, and how it can be had again.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from carrel.protocol.http import event
from carrel.protocol.server import Connection

__all__ = ["Send", "Session", "Stream"]

Send = Callable[[dict[str, Any]], Awaitable[None]]

#: How many events of one stream can be had again.
MAX_EVENTS = 256

#: How many streams of one session can be resumed.
MAX_STREAMS = 64

#: Messages that may wait for a stream before ``drain`` waits for them to leave.
HIGH_WATER = 64


class Stream:
    """One stream of events to a client: the answer to a POST, or what a GET opened.

    Messages wait here until the connection takes them. If the stream can be resumed, each has an id, and the last ones
    are kept for a client that lost its connection. ``retry`` is in milliseconds.
    """

    __slots__ = (
        "_drained",
        "_held",
        "_kept",
        "_messages",
        "_next",
        "_waiter",
        "connection",
        "done",
        "id",
        "nudged",
        "paused",
        "ping",
        "primed",
        "retry",
        "standing",
    )

    def __init__(self, id: str = "", *, primed: bool = False) -> None:
        self.id = id
        self.primed = primed
        self.done = False
        """No message will follow."""
        self.connection = 0
        """Which connection takes the messages: the first, the second …; negative if it is gone."""
        self.paused = False
        """The connection is to be closed although the stream goes on."""
        self.ping = False
        self.nudged = False
        """The answer takes so long that the stream should begin."""
        self.standing = False
        """It was opened by GET, and carries what belongs to no request."""
        self.retry: int | None = None
        self._messages: list[bytes] = []
        self._held: dict[Hashable, bytes] | None = None
        self._kept: deque[tuple[int, bytes]] | None = None
        self._next = 1
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    # The sending side

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message. Of those with the same key that have not left yet, the last one is enough."""
        if key is None:
            self._messages.append(message)
        else:
            if self._held is None:
                self._held = {}
            self._held[key] = message
        self.wake()

    async def drain(self) -> None:
        """Wait while many messages have not left yet. Without a connection there is nobody to wait for."""
        while self.connection >= 0 and len(self._messages) > HIGH_WATER:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def pause(self, retry: int | None = None) -> None:
        """Close the connection, not the stream: the client is to come back for the rest, after ``retry`` ms.

        Only where clients know that this can happen (2025-11-25, with a session); otherwise nothing happens.
        """
        if self.id and self.primed:
            self.retry = retry
            self.paused = True
            self.wake()

    def wake(self) -> None:
        """Have the connection look again."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def nudge(self) -> None:
        """Have the stream begin, although there is nothing to send yet."""
        self.nudged = True
        self.wake()

    # The connection's side

    @property
    def idle(self) -> bool:
        """Whether there is no reason to begin the stream, or to go on with it."""
        return not (self._messages or self._held or self.ping or self.done or self.paused or self.nudged)

    async def wait(self) -> None:
        """Wait to be woken."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def take(self) -> bytes:
        """Return all that waits, as events; nothing is an empty string."""
        pieces: list[bytes] = []
        if self.ping:
            self.ping = False
            pieces.append(b":\r\n\r\n")
        messages, self._messages = self._messages, []
        if self._held:
            messages.extend(self._held.values())
            self._held = None
        for message in messages:
            if self.id:
                data = event(message, f"{self.id}-{self._next}")
                if self._kept is None:
                    self._kept = deque(maxlen=MAX_EVENTS)
                self._kept.append((self._next, data))
                self._next += 1
                pieces.append(data)
            else:
                pieces.append(event(message))
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        return b"".join(pieces)

    def attach(self) -> int:
        """Begin to take messages on a new connection; the one before it, if any, takes no more. Return its number."""
        self.connection = abs(self.connection) + 1
        self.wake()
        return self.connection

    def detach(self) -> None:
        """The connection is gone."""
        self.connection = -self.connection
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def open(self) -> bytes:
        """Return what a stream begins with."""
        return event(b"", f"{self.id}-0", self.retry) if self.primed and self.id else b""

    def close(self) -> bytes:
        """Return what to send before the connection is closed although the stream goes on."""
        self.paused = False
        return b"" if self.retry is None else b"retry: %d\n\n" % self.retry

    def replay(self, after: int) -> bytes:
        """Return the events after number ``after`` that have been sent before."""
        return b"".join(data for number, data in self._kept or () if number > after)


class Session:
    """One client of a revision with handshakes, between its requests."""

    __slots__ = ("_held", "_listening", "_numbers", "_streams", "connection", "id", "in_flight", "touched")

    def __init__(self, id: str, connection: Connection, now: float) -> None:
        self.id = id
        self.connection = connection
        self.touched = now
        self.in_flight: dict[Any, asyncio.Task[Any]] = {}
        self._streams: OrderedDict[str, Stream] | None = None
        self._listening: list[Stream] | None = None
        self._held: dict[Hashable, bytes] | None = None
        self._numbers = 0
        connection.id = id
        connection.channel = self
        connection.in_flight = self.in_flight

    @property
    def busy(self) -> bool:
        """Whether the session has requests in work or a stream that somebody listens to."""
        return bool(self.in_flight) or bool(self._listening)

    @property
    def listening(self) -> list[Stream]:
        """The open streams of GET requests."""
        return self._listening or []

    # Messages that belong to no request: they go to one of the streams that GET requests opened

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message on the newest open stream, or keep it until there is one (one per key)."""
        if self._listening:
            self._listening[-1].send(message, key)
            return
        if self._held is None:
            self._held = {}
        if len(self._held) < MAX_EVENTS or key in self._held:
            self._held[message if key is None else key] = message

    def pause(self, retry: int | None = None) -> None:
        """Have the client come back for its newest stream."""
        if self._listening:
            self._listening[-1].pause(retry)

    async def drain(self) -> None:
        """Wait while the stream has much to send."""
        if self._listening:
            await self._listening[-1].drain()

    def listen(self, stream: Stream) -> None:
        """Send messages that belong to no request to ``stream`` from now on."""
        if self._listening is None:
            self._listening = []
        self._listening.append(stream)
        held, self._held = self._held, None
        for key, message in (held or {}).items():
            stream.send(message, key)

    def unlisten(self, stream: Stream) -> None:
        """The connection of a GET stream is gone; what did not leave waits for the next one."""
        if self._listening and stream in self._listening:
            self._listening.remove(stream)

    # Streams that can be resumed

    def new_stream(self) -> Stream:
        """Return a stream that can be resumed, if the session's revision has that."""
        peer = self.connection.peer
        if peer is None or not peer.revision.resumable:
            return Stream()
        self._numbers += 1
        return Stream(f"{self._numbers:x}", primed=peer.revision.primed)

    def keep(self, stream: Stream) -> None:
        """Remember a stream, so that the client can come back to it."""
        if not stream.id:
            return
        if self._streams is None:
            self._streams = OrderedDict()
        self._streams[stream.id] = stream
        while len(self._streams) > MAX_STREAMS:
            self._streams.popitem(last=False)

    def find_stream(self, last_event_id: str) -> tuple[Stream, int] | None:
        """Return the stream of an event id, and the number of that event in it; None if it is forgotten."""
        id, _, number = last_event_id.rpartition("-")
        stream = None if self._streams is None else self._streams.get(id)
        if stream is None or not (number.isascii() and number.isdigit() and len(number) < 18):
            return None
        return stream, int(number)

    def close(self) -> None:
        """Cancel what is in work and end every stream."""
        for task in list(self.in_flight.values()):
            task.cancel()
        for stream in (*(self._listening or ()), *({} if self._streams is None else self._streams).values()):
            stream.done = True
            stream.wake()
