"""The streams of Streamable HTTP: what is on its way to a client, and how it can be had again.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Any

from carrel.protocol.http import event
from carrel.protocol.server import Connection
from carrel.transports.dialogue import Work, cancel

__all__ = ["MutedStream", "Session", "Stream"]

#: How many events of one stream can be had again, and how many bytes of them (but always the last one).
MAX_EVENTS = 256
MAX_EVENT_BYTES = 1024 * 1024

#: How many streams of one session can be resumed, and how many bytes they may take.
MAX_STREAMS = 64
MAX_STREAM_BYTES = 16 * 1024 * 1024

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
        "size",
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
        self.size = 0
        """How many bytes of events are kept."""
        self._messages: list[bytes] = []
        self._held: dict[Hashable, bytes] | None = None
        self._kept: deque[tuple[int, bytes]] | None = None
        self._next = 1
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Event | None = None

    # The sending side

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message. Of those with the same key that have not left yet, the last one is enough.

        Without a connection only what can be kept for the next one is; if there will be none, nothing.
        """
        if self.connection < 0:
            if self.id:
                self._keep(message)
            return
        if key is None:
            self._messages.append(message)
        else:
            if self._held is None:
                self._held = {}
            self._held[key] = message
        self.wake()

    async def drain(self) -> None:
        """Wait while many messages have not left yet. Without a connection there is nobody to wait for."""
        if self.connection < 0:
            await asyncio.sleep(0)  # so that a handler whose client is gone can be cancelled
        while self.connection >= 0 and len(self._messages) > HIGH_WATER:
            if self._drained is None:
                self._drained = asyncio.Event()
            await self._drained.wait()

    def pause(self, retry: int | None = None) -> None:
        """Close the connection, not the stream: the client is to come back for the rest, after ``retry`` ms.

        Only where clients know that this can happen (2025-11-25, with a session); otherwise nothing happens.
        """
        if self.id and self.primed and self.connection >= 0:
            self.retry = retry
            self.paused = True
            self.wake()

    def expire(self) -> None:
        """Close the connection, because whoever opened it may not have it any longer."""
        self.paused = True
        self.wake()

    def wake(self, _: Any = None) -> None:
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
        pieces.extend([self._keep(message) for message in messages] if self.id else map(event, messages))
        self._let_go()
        return b"".join(pieces)

    def _keep(self, message: bytes) -> bytes:
        """Make a message an event that can be had again, and return it."""
        data = event(message, f"{self.id}-{self._next}")
        if self._kept is None:
            self._kept = deque()
        self._kept.append((self._next, data))
        self._next += 1
        self.size += len(data)
        while len(self._kept) > MAX_EVENTS or (self.size > MAX_EVENT_BYTES and len(self._kept) > 1):
            self.size -= len(self._kept.popleft()[1])
        return data

    def _let_go(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    def attach(self, after: int | None = None) -> bytes:
        """Begin to take messages on a new connection (``connection`` is its number), and return what goes first.

        That is what begins a stream or, for a client that has all events up to number ``after``, the ones it missed.
        The connection before this one, if any, takes no more.
        """
        self.connection = abs(self.connection) + 1
        self.wake()
        if after is None:
            return event(b"", f"{self.id}-0", self.retry) if self.primed and self.id else b""
        return b"".join(data for number, data in self._kept or () if number > after)

    def detach(self) -> None:
        """The connection is gone."""
        self.connection = -self.connection
        if self.id:
            for message in self._messages:
                self._keep(message)
        self._messages.clear()
        self._let_go()

    def close(self) -> bytes:
        """Return what to send before the connection is closed although the stream goes on."""
        self.paused = False
        return b"" if self.retry is None else b"retry: %d\n\n" % self.retry


class MutedStream(Stream):
    """The stream of a client that takes no events: what is not the answer is lost."""

    __slots__ = ()
    muted = True
    """Nobody can be asked anything on it."""

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Drop a message."""


class Session:
    """One client of a revision with handshakes, between its requests."""

    __slots__ = (
        "_held",
        "_listening",
        "_numbers",
        "_streams",
        "closed",
        "connection",
        "id",
        "in_flight",
        "owner",
        "touched",
    )

    def __init__(self, id: str, connection: Connection, now: float) -> None:
        self.id = id
        self.connection = connection
        self.closed = False
        self.owner: str | None = None
        """Whom the session belongs to, where the transport knows who calls."""
        self.touched = now
        self.in_flight: dict[Any, Work] = {}
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

    def touch(self) -> None:
        """Note that the session is in use."""
        self.touched = asyncio.get_running_loop().time()

    def finish(self, key: Any) -> None:
        """A request is answered."""
        self.in_flight.pop(key, None)
        self._trim()
        self.touch()

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
        self.touch()

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
        self._trim()

    def _trim(self) -> None:
        """Forget streams when they are too many or too large: first those that are over, the oldest first."""
        streams = self._streams
        if streams is None:
            return
        size = sum(stream.size for stream in streams.values())
        for over in (True, False):
            for stream in [stream for stream in streams.values() if stream.done is over]:
                if len(streams) <= MAX_STREAMS and (size <= MAX_STREAM_BYTES or len(streams) == 1):
                    return
                size -= stream.size
                del streams[stream.id]

    def find_stream(self, last_event_id: str) -> tuple[Stream, int] | None:
        """Return the stream of an event id, and the number of that event in it; None if it is forgotten."""
        id, _, number = last_event_id.rpartition("-")
        stream = None if self._streams is None else self._streams.get(id)
        if stream is None or not (number.isascii() and number.isdigit() and len(number) < 18):
            return None
        return stream, int(number)

    def close(self) -> None:
        """Cancel what is in work and end every stream."""
        self.closed = True
        for work in list(self.in_flight.values()):
            cancel(work)
        for stream in (*(self._listening or ()), *({} if self._streams is None else self._streams).values()):
            stream.done = True
            stream.wake()
