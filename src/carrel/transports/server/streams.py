"""SSE streams and sessions of the Streamable HTTP server: buffering, backpressure and resumption (Last-Event-ID).

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Hashable
from functools import partial
from typing import Any

from carrel.protocol.http import event
from carrel.protocol.server import Connection
from carrel.transports.server.direct import DirectWriter
from carrel.transports.server.dispatcher import UNWEIGHED, InFlight, Work, cancel

__all__ = ["MutedStream", "Session", "Stream"]

#: Maximum number and bytes of events that one stream keeps for replay (but always the last one).
MAX_EVENTS = 256
MAX_EVENT_BYTES = 1024 * 1024

#: Maximum number and bytes of resumable streams of one session, and the bytes that one counts besides its events.
MAX_STREAMS = 64
MAX_STREAM_BYTES = 16 * 1024 * 1024
STREAM_BYTES = 1024

#: High-water marks, in messages and bytes: beyond them, ``drain`` waits until buffered messages are sent.
HIGH_WATER = 64
HIGH_WATER_BYTES = 1024 * 1024


class Stream:
    """SSE stream to a client: the response to a POST, or the long-lived stream of a GET.

    Messages are buffered until the connection sends them. On a resumable stream, each has an event id, and the last
    ones are kept for replay. Both count against the budget of the client of ``owner``. ``retry`` is in milliseconds.
    """

    __slots__ = (
        *("_burst", "_counted", "_drained", "_held", "_kept", "_leaving", "_messages", "_next", "_owner"),
        *("_waiter", "_waiting"),
        *("connection", "direct", "done", "forgotten", "id", "lost", "nudged", "paused", "ping", "primed", "pump"),
        *("retry", "size", "stalls", "standing"),
    )

    def __init__(self, owner: Connection, id: str = "", *, primed: bool = False) -> None:
        self._owner = owner
        self.id = id
        self.primed = primed
        self.done = False
        """The stream is complete: no message will follow."""
        self.connection = 0
        """Number of the connection that sends the messages, from 1; negative once it is closed."""
        self.paused = False
        """The connection is to be closed; the stream can be resumed."""
        self.ping = False
        self.nudged = False
        """The response takes so long that the stream should begin without a message."""
        self.standing = False
        """The stream was opened by GET, and carries messages that belong to no request."""
        self.lost = False
        """The connection is being closed because the client reads too slowly."""
        self.forgotten = False
        """The stream cannot be resumed any more."""
        self.pump: asyncio.Task[Any] | None = None
        """The task that sends to the connection."""
        self.direct: DirectWriter | None = None
        """Writer of small messages while the task waits, if the HTTP server has one."""
        self.stalls = 0
        """Number of consecutive keep-alive checks at which the previous ping had not been sent."""
        self.retry: int | None = None
        self.size = 0
        """Bytes of events that are kept for replay."""
        self._burst = 0
        self._waiting = 0
        self._leaving = 0
        self._counted = UNWEIGHED
        self._messages: list[bytes] = []
        self._held: dict[Hashable, bytes] | None = None
        self._kept: deque[tuple[int, bytes]] | None = None
        self._next = 1
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Event | None = None

    # The sending side

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message. It replaces an unsent message with the same key.

        Without a connection, the message is kept for replay if the stream is resumable, and dropped otherwise.
        """
        if self.connection < 0:
            if self.id:
                self._keep(message)
            return
        if self.lost:
            return
        if self.direct is not None and len(message) <= UNWEIGHED and self._resting and self.direct.ready:
            self._burst += 1
            self.direct.write(self._event(message))
            return
        if key is None:
            self._messages.append(message)
        else:
            if self._held is None:
                self._held = {}
            replaced = self._held.get(key)
            if replaced is not None:
                self._waiting -= len(replaced)
            self._held[key] = message
        self._waiting += len(message)
        if self._waiting > self._counted:
            self._count()
        self.wake()

    def finish(self, answer: bytes, refusal: bytes) -> None:
        """Send the response, or ``refusal`` if it exceeds the budget, and complete the stream."""
        if len(answer) > UNWEIGHED and not self._owner.has_room(len(answer)):
            answer = refusal
        if answer:
            self.send(answer)
        self.done = True

    def _count(self) -> None:
        """Charge buffered bytes to the client's budget; if that is exhausted, close the connection."""
        more = self._waiting - self._counted
        if self._owner.take(more):
            self._counted += more
        else:
            self.give_up()

    def _uncount(self) -> None:
        """Return sent bytes to the client's budget."""
        less = self._counted - max(self._waiting, UNWEIGHED)
        if less > 0:
            self._counted -= less
            self._owner.give(less)

    def give_up(self) -> None:
        """Close the connection because its client reads too slowly or not at all."""
        self.lost = True
        if self.pump is not None and self.pump is not asyncio.current_task():
            self.pump.cancel()
        self._let_go()
        self.wake()

    async def drain(self) -> None:
        """Wait while the buffer is above its high-water mark (backpressure). Without a connection, only yield.

        A handler also yields after ``HIGH_WATER`` messages that were written at once.
        """
        if self.connection < 0 or self.lost or self._burst >= HIGH_WATER:
            self._burst = 0
            await asyncio.sleep(0)  # so that a handler whose client is gone can be cancelled, and others have a turn
        await self.fall(HIGH_WATER_BYTES, HIGH_WATER)

    async def fall(self, size: int, number: float = math.inf) -> None:
        """Wait while more than ``size`` bytes or ``number`` messages are buffered for the connection."""
        while self.connection >= 0 and not self.lost and (self._waiting > size or len(self._messages) > number):
            if self._drained is None:
                self._drained = asyncio.Event()
            await self._drained.wait()

    def pause(self, retry: int | None = None) -> None:
        """Close the connection but not the stream: the client is to reconnect after ``retry`` ms.

        Does nothing unless the revision has this (2025-11-25, with a session).
        """
        if self.id and self.primed and self.connection >= 0:
            self.retry = retry
            self.paused = True
            self.wake()

    def expire(self) -> None:
        """Close the connection because its token has expired or a newer stream replaces it."""
        self.paused = True
        self.wake()

    def wake(self, _: Any = None) -> None:
        """Wake the task that sends to the connection."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def nudge(self) -> None:
        """Begin the stream although there is no message to send yet."""
        self.nudged = True
        self.wake()

    # The connection's side

    @property
    def idle(self) -> bool:
        """Whether there is nothing to send and no change of state to act on."""
        return not (self._messages or self._held or self.ping or self.done or self.paused or self.nudged or self.lost)

    async def wait(self) -> None:
        """Wait for ``wake``."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    @property
    def _resting(self) -> bool:
        """Whether the task that sends has sent everything, and waits."""
        return self._waiter is not None and not self._waiter.done()

    def take(self) -> bytes:
        """Return all buffered messages as SSE events; empty if there are none."""
        pieces: list[bytes] = []
        if self.ping:
            self.ping = False
            pieces.append(b":\r\n\r\n")
        messages, self._messages = self._messages, []
        if self._held:
            messages.extend(self._held.values())
            self._held = None
        self._left(self._waiting - self._leaving)
        pieces.extend([self._event(message) for message in messages])
        return b"".join(pieces)

    def _event(self, message: bytes) -> bytes:
        return self._keep(message) if self.id else event(message)

    def _keep(self, message: bytes) -> bytes:
        """Encode a message as an event with an id, keep it for replay, and return it."""
        data = event(message, f"{self.id}-{self._next}")
        self._next += 1
        if self.forgotten:
            return data
        if self._kept is None:
            self._kept = deque()
        while self._kept and (len(self._kept) >= MAX_EVENTS or self.size + len(data) > MAX_EVENT_BYTES):
            self._drop()
        while not self._owner.take(len(data)):
            if not self._kept:
                return data
            self._drop()
        self._kept.append((self._next - 1, data))
        self.size += len(data)
        return data

    def _drop(self) -> None:
        """Drop the oldest event kept for replay."""
        assert self._kept is not None
        size = len(self._kept.popleft()[1])
        self.size -= size
        self._owner.give(size)

    def forget(self) -> None:
        """Drop the events kept for replay: the stream cannot be resumed any more."""
        self.forgotten = True
        if self._kept is not None:
            self._kept = None
            self._owner.give(self.size)
            self.size = 0

    def _left(self, leaving: int) -> None:
        """Record that all bytes in transit have been sent, and that ``leaving`` bytes are in transit now."""
        self._waiting -= self._leaving
        self._leaving = leaving
        if self._counted > UNWEIGHED:
            self._uncount()
        self._let_go()

    @property
    def waiting(self) -> int:
        """Bytes of messages that are not sent yet."""
        return self._waiting

    def _let_go(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    def attach(self, after: int | None = None) -> bytes:
        """Attach a new connection (``connection`` is its number), and return the first bytes to send.

        These are the priming event of a new stream or, for a client that resumes after event number ``after``, the
        replay of the events it missed. A previous connection, if any, is detached.
        """
        if self.pump is not None and self._leaving:
            self.pump.cancel()  # it may be blocked by a client that does not read
        self.connection = abs(self.connection) + 1
        self.direct = None
        self.pump = asyncio.current_task()
        self.wake()
        if after is None:
            return event(b"", f"{self.id}-0", self.retry) if self.primed and self.id else b""
        opening = b"".join(data for number, data in self._kept or () if number > after)
        self._waiting += len(opening) - self._leaving
        self._leaving = len(opening)
        if self._waiting > self._counted:
            self._count()
        return opening

    def detach(self) -> None:
        """Detach the closed connection; unsent messages are kept for replay if the stream is resumable."""
        self.connection = -self.connection
        self.pump = self.direct = None
        self.lost = False
        messages, self._messages = self._messages, []
        self.discard()
        if self.id:
            for message in messages:
                self._keep(message)
        self._let_go()

    def discard(self) -> None:
        """Drop buffered messages, except those that a resumed connection will get."""
        self._messages.clear()
        if not self.id or self.forgotten:
            self._held = None
        self._leaving = 0
        self._waiting = sum(map(len, self._held.values())) if self._held else 0
        self._uncount()

    def close(self) -> bytes:
        """Return the bytes to send (``retry``) before the connection of a paused stream is closed."""
        self.paused = False
        return b"" if self.retry is None else b"retry: %d\n\n" % self.retry


class MutedStream(Stream):
    """Stream of a client that does not accept SSE: all messages but the response are dropped."""

    __slots__ = ()
    muted = True
    """No request can be sent to the client on this stream."""

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Drop a message."""


class Session:
    """Session (Mcp-Session-Id) of a client of a revision with a handshake."""

    __slots__ = (
        "_held",
        "_listening",
        "_numbers",
        "_resting",
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
        """Principal id of the owner, if requests are authenticated."""
        self.touched = now
        self.in_flight = InFlight()
        self._streams: OrderedDict[str, Stream] | None = None
        self._resting: dict[str, float] | None = None
        self._listening: list[Stream] | None = None
        self._held: dict[Hashable, bytes] | None = None
        self._numbers = 0
        connection.id = id
        connection.channel = self
        connection.in_flight = self.in_flight

    @property
    def busy(self) -> bool:
        """Whether the session has requests in flight or an open GET stream."""
        return bool(self.in_flight) or bool(self._listening)

    @property
    def listening(self) -> list[Stream]:
        """The open streams of GET requests."""
        return self._listening or []

    def touch(self) -> None:
        """Record that the session is in use."""
        self.touched = asyncio.get_running_loop().time()

    def finish(self, key: Any, work: Work) -> None:
        """Remove a completed request."""
        self.in_flight.remove(key, work)
        self._trim()
        self.touch()

    # Messages that belong to no request: they are sent on one of the GET streams

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message on the newest GET stream, or keep it until there is one (one per key)."""
        if self._listening:
            self._listening[-1].send(message, key)
            return
        if self._held is None:
            self._held = {}
        key = message if key is None else key
        replaced = self._held.get(key)
        if replaced is not None:
            self.connection.give(len(replaced))
        elif len(self._held) >= MAX_EVENTS:
            return
        if not self.closed and self.connection.take(len(message)):
            self._held[key] = message
        elif replaced is not None:
            del self._held[key]

    def pause(self, retry: int | None = None) -> None:
        """Close the connection of the newest GET stream, so that the client reconnects."""
        if self._listening:
            self._listening[-1].pause(retry)

    async def drain(self) -> None:
        """Wait while the newest GET stream is above its high-water mark (backpressure)."""
        if self._listening:
            await self._listening[-1].drain()

    def listen(self, stream: Stream, most: int) -> None:
        """Add a GET stream, for messages that belong to no request; of the previous streams, ``most`` - 1 stay.

        The oldest streams are closed rather than the new one refused, because their connections may have been lost.
        """
        if self._listening is None:
            self._listening = []
        while len(self._listening) >= most:
            self._listening.pop(0).expire()
        self._listening.append(stream)
        for key, message in self._take_held().items():
            stream.send(message, key)

    def _take_held(self) -> dict[Hashable, bytes]:
        held, self._held = self._held or {}, None
        for message in held.values():
            self.connection.give(len(message))
        return held

    def unlisten(self, stream: Stream) -> None:
        """Remove a GET stream whose connection is closed."""
        if self._listening and stream in self._listening:
            self._listening.remove(stream)
        self.touch()

    # Streams that can be resumed

    def new_stream(self) -> Stream:
        """Return a new stream, resumable if the session's revision has that."""
        peer = self.connection.peer
        if peer is None or not peer.revision.resumable:
            return Stream(self.connection)
        self._numbers += 1
        return Stream(self.connection, f"{self._numbers:x}", primed=peer.revision.primed)

    def keep(self, stream: Stream) -> None:
        """Store a stream, so that the client can resume it."""
        if not stream.id or stream.forgotten:
            return
        if self._streams is None:
            self._streams = OrderedDict()
        if stream.id not in self._streams:
            if self.closed or not self.connection.take(STREAM_BYTES):
                stream.forget()
                return
            self._streams[stream.id] = stream
        self._trim()

    def rest(self, stream: Stream) -> None:
        """Record that a connection of a stream is closed. If the stream is complete, its replay data may be dropped."""
        if stream.id and not stream.forgotten and stream.connection < 0 and (stream.done or stream.standing):
            if self._resting is None:
                self._resting = {}
            self._resting[stream.id] = asyncio.get_running_loop().time()
            if self.connection.budget is not None:
                self.connection.budget.spare(self.connection.client, stream, partial(self._forget, stream))

    def end_replays(self, before: float) -> None:
        """Drop the streams that came to rest before a time of the event loop's clock."""
        while self._resting and self._streams is not None:
            id, since = next(iter(self._resting.items()))
            if since >= before:
                break
            self._forget(self._streams[id])

    def _need(self, stream: Stream) -> None:
        resting = self._resting is not None and self._resting.pop(stream.id, None) is not None
        if resting and self.connection.budget is not None:
            self.connection.budget.need(self.connection.client, stream)

    def _forget(self, stream: Stream) -> None:
        self._need(stream)
        if self._streams is not None and self._streams.pop(stream.id, None) is not None:
            self.connection.give(STREAM_BYTES)
        stream.forget()

    def _trim(self) -> None:
        """Drop streams over the limits of number and size: complete ones first, the oldest first."""
        streams = self._streams
        if streams is None:
            return
        size = sum(stream.size for stream in streams.values())
        for over in (True, False):
            for stream in [stream for stream in streams.values() if stream.done is over]:
                if len(streams) <= MAX_STREAMS and (size <= MAX_STREAM_BYTES or len(streams) == 1):
                    return
                size -= stream.size
                self._forget(stream)

    def find_stream(self, last_event_id: str) -> tuple[Stream, int] | None:
        """Return the stream of a Last-Event-ID and the number of that event in it; None if it is not stored."""
        id, _, number = last_event_id.rpartition("-")
        stream = None if self._streams is None else self._streams.get(id)
        if stream is None or not (number.isascii() and number.isdigit() and len(number) < 18):
            return None
        self._need(stream)
        return stream, int(number)

    def close(self) -> None:
        """Cancel all requests in flight and end all streams."""
        self.closed = True
        for work in list(self.in_flight.values()):
            cancel(work)
        for stream in (*(self._listening or ()), *({} if self._streams is None else self._streams).values()):
            stream.done = True
            stream.wake()
            self._forget(stream)
        self._take_held()
