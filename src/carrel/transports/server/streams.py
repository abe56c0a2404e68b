"""SSE streams of the Streamable HTTP server: buffering, backpressure and resumption (Last-Event-ID).

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#receiving-messages
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Hashable
from typing import Any

from carrel.errors import ServerUnavailable
from carrel.protocol.channel import ConnectedClient
from carrel.protocol.event_ids import encode_event_id
from carrel.protocol.http import event
from carrel.protocol.stream_states import (
    FOLLOWING,
    Following,
    FollowStep,
    StreamConnection,
    StreamContent,
    StreamStates,
    StreamStep,
)
from carrel.transports.server.direct import DirectWriter
from carrel.transports.server.dispatcher import UNWEIGHED
from carrel.transports.server.event_log import SessionLog

__all__ = ["MAX_EVENTS", "MutedStream", "ResumedStream", "Stream"]

#: Maximum number and bytes of events that one stream keeps for replay (but always the last one).
MAX_EVENTS = 256
MAX_EVENT_BYTES = 1024 * 1024

#: High-water marks, in messages and bytes: beyond them, ``drain`` waits until buffered messages are sent.
HIGH_WATER = 64
HIGH_WATER_BYTES = 1024 * 1024

#: Event without data, which keeps a connection alive.
COMMENT = b":\r\n\r\n"

#: The states that ``send`` compares, for each message.
DISCONNECTED, ABORTED = StreamConnection.DISCONNECTED, StreamConnection.ABORTED


class Stream(StreamStates):
    """SSE stream to a client: the response to a POST, or the long-lived stream of a GET (``StandingStream``).

    Messages are buffered until the connection sends them. On a resumable stream, which has a ``log``, each has an event
    id, and the last ones are kept for replay. Both count against the budget of ``client``. ``retry`` is in
    milliseconds.
    """

    __slots__ = (
        *("_burst", "_counted", "_drained", "_held", "_kept", "_leaving", "_log", "_messages", "_next"),
        *("_waiter", "_waiting"),
        *("attached", "client", "direct", "id", "nudged", "ping", "primed", "pump", "retry", "size", "stalls"),
    )
    standing = False
    """Whether the stream was opened by GET, and carries messages that belong to no request."""
    muted = False
    """Whether the client accepts no SSE, so that no request can be sent to it."""

    def __init__(
        self, client: ConnectedClient, id: str = "", log: SessionLog | None = None, *, primed: bool = False
    ) -> None:
        super().__init__(bool(id))
        self.client = client
        self._log = log
        self.id = id
        self.primed = primed
        self.attached = 0
        """Number of the connections that have been attached."""
        self.ping = False
        self.nudged = False
        """The response takes so long that the stream should begin without a message."""
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
        self._kept: deque[tuple[int, int]] | None = None
        """Numbers and sizes of the events that the log keeps."""
        self._next = 1
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Event | None = None

    # The sending side

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message. It replaces an unsent message with the same key.

        Without a connection, the message is kept for replay if the stream is resumable, and dropped otherwise.
        """
        state = self.connection
        if state is DISCONNECTED:
            if self.id:
                self._keep(message)
            return
        if state is ABORTED:
            return
        direct, waiter = self.direct, self._waiter
        waits = waiter is not None and not waiter.done()  # the task that sends has sent everything
        if waits and direct is not None and len(message) <= UNWEIGHED and direct.ready:
            self._burst += 1
            direct.write(self._event(message))
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

    def finish(self, answer: bytes, too_large: bytes) -> None:
        """Send the response, or ``too_large`` if it exceeds the budget, and complete the stream."""
        if len(answer) > UNWEIGHED and not self.client.has_room(len(answer)):
            answer = too_large
        if answer:
            self.send(answer)
        self.end_content()

    def end_content(self) -> None:
        """Complete the stream: no message will follow."""
        self.step(StreamStep.COMPLETE)
        self.wake()

    def _count(self) -> None:
        """Charge buffered bytes to the client's budget; if that is exhausted, close the connection."""
        more = self._waiting - self._counted
        if self.client.take(more):
            self._counted += more
        else:
            self.give_up()

    def _uncount(self) -> None:
        """Return sent bytes to the client's budget."""
        less = self._counted - max(self._waiting, UNWEIGHED)
        if less > 0:
            self._counted -= less
            self.client.give(less)

    def give_up(self) -> None:
        """Close the connection because its client reads too slowly or not at all."""
        self.step(StreamStep.ABORT)
        if self.pump is not None and self.pump is not asyncio.current_task():
            self.pump.cancel()
        self._let_go()
        self.wake()

    async def drain(self) -> None:
        """Wait while the buffer is above its high-water mark (backpressure). Without a connection, only yield.

        A handler also yields after ``HIGH_WATER`` messages that were written at once.
        """
        if self.disconnected or self.aborted or self._burst >= HIGH_WATER:
            self._burst = 0
            await asyncio.sleep(0)  # so that a handler whose client is gone can be cancelled, and others have a turn
        await self.wait_below(HIGH_WATER_BYTES, HIGH_WATER)

    async def wait_below(self, size: int, number: float = math.inf) -> None:
        """Wait while more than ``size`` bytes or ``number`` messages are buffered for the connection."""
        while self._waiting > size or len(self._messages) > number:
            if self.disconnected or self.aborted:
                break
            if self._drained is None:
                self._drained = asyncio.Event()
            await self._drained.wait()

    def pause(self, retry: int | None = None) -> None:
        """Close the connection but not the stream: the client is to reconnect after ``retry`` ms.

        Does nothing unless the revision has this (2025-11-25, with a session).
        """
        if self.id and self.primed and not self.disconnected:
            self.retry = retry
            self.expire()

    def expire(self) -> None:
        """Close the connection because its token has expired or a newer stream replaces it."""
        self.step(StreamStep.CLOSE)
        self.wake()

    def wake(self, _: Any = None) -> None:
        """Wake the task that sends to the connection."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def keep_alive(self) -> None:
        """Send a comment, at once if everything before it has been sent."""
        direct, waiter = self.direct, self._waiter
        if direct is not None and waiter is not None and not waiter.done() and direct.ready:
            direct.write(COMMENT)
        else:
            self.ping = True
            self.wake()

    def nudge(self) -> None:
        """Begin the stream although there is no message to send yet."""
        self.nudged = True
        self.wake()

    # The connection's side

    @property
    def idle(self) -> bool:
        """Whether there is nothing to send and no change of state to act on."""
        return not (self._messages or self._held or self.ping or self.nudged) and self.undisturbed

    async def wait(self) -> None:
        """Wait for ``wake``."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def take(self) -> bytes:
        """Return all buffered messages as SSE events, or b""."""
        pieces: list[bytes] = []
        if self.ping:
            self.ping = False
            pieces.append(COMMENT)
        messages, self._messages = self._messages, []
        if self._held:
            messages.extend(self._held.values())
            self._held = None
        self._left(self._waiting - self._leaving)
        pieces.extend(self._events(messages))
        return b"".join(pieces)

    def _events(self, messages: list[bytes]) -> list[bytes]:
        return [self._event(message) for message in messages]

    def _event(self, message: bytes) -> bytes:
        return self._keep(message) if self.id else event(message)

    def _keep(self, message: bytes) -> bytes:
        """Encode a message as an event with an id, keep it for replay, and return it."""
        data = event(message, encode_event_id(self.id, self._next))
        self._next += 1
        if self.dropped or self._log is None:
            return data
        if self._kept is None:
            self._kept = deque()
        while self._kept and (len(self._kept) >= MAX_EVENTS or self.size + len(data) > MAX_EVENT_BYTES):
            self._drop()
        while not self.client.take(len(data)):
            if not self._kept:
                return data
            self._drop()
        self._kept.append((self._next - 1, len(data)))
        self.size += len(data)
        self._log.append(self.id, self._next - 1, data, self._kept[0][0])
        return data

    def _drop(self) -> None:
        """Drop the oldest event kept for replay."""
        assert self._kept is not None
        _, size = self._kept.popleft()
        self.size -= size
        self.client.give(size)

    def forget(self, *, drop: bool = True) -> None:
        """Drop the events kept for replay: the stream cannot be resumed any more, or only on another replica."""
        self.step(StreamStep.DROP)
        if self._kept is not None:
            self._kept = None
            self.client.give(self.size)
            self.size = 0
            if drop and self._log is not None:
                self._log.drop(self.id)

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

    def attach(self) -> int:
        """Attach a new connection, and return its number. A previous connection, if any, is detached."""
        if self.pump is not None and self._leaving:
            self.pump.cancel()  # it may be blocked by a client that does not read
        self.step(StreamStep.ATTACH)
        self.attached += 1
        self.direct = None
        self.pump = asyncio.current_task()
        self._waiting -= self._leaving
        self._leaving = 0
        self.wake()
        return self.attached

    async def opening(self, after: int | None = None) -> bytes:
        """Return the first bytes for the attached connection.

        These are the priming event of a new stream or, for a client that resumes after event number ``after``, the
        replay of the events it missed.
        """
        if after is None or self._log is None:
            if not (self.primed and self.id):
                return b""
            if self._log is not None and self._next == 1:
                await self._log.begin(self.id)
            return event(b"", encode_event_id(self.id, 0), self.retry)
        connection, upto = self.attached, self._next
        replay = await self._log.read(self.id, after)
        if replay is None or self.attached != connection:
            return b""
        opening = b"".join(data for number, data in replay.events if number < upto)
        self._waiting += len(opening)
        self._leaving = len(opening)
        if self._waiting > self._counted:
            self._count()
        return opening

    def detach(self) -> None:
        """Detach the closed connection; unsent messages are kept for replay if the stream is resumable."""
        self.step(StreamStep.DETACH)
        self.pump = self.direct = None
        messages, self._messages = self._messages, []
        self.discard()
        if self.id:
            for message in messages:
                self._keep(message)
        self._let_go()

    def discard(self) -> None:
        """Drop buffered messages, except messages that a resumed connection will get."""
        self._messages.clear()
        if not self.id or self.dropped:
            self._held = None
        self._leaving = 0
        self._waiting = sum(map(len, self._held.values())) if self._held else 0
        self._uncount()

    def closing_bytes(self) -> bytes:
        """Return the bytes to send before the connection is closed: ``retry``, or b""."""
        return b"" if self.retry is None else b"retry: %d\n\n" % self.retry


class MutedStream(Stream):
    """Stream of a client that does not accept SSE: all messages but the response are dropped."""

    __slots__ = ()
    muted = True

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Drop a message."""


class ResumedStream(Stream):
    """Stream that another replica writes, resumed here: its events come from the log.

    Messages may not be sent on it. ``origin`` is the id of the stream, and ``after`` the number of the last event that
    the client has.
    """

    __slots__ = ("_after", "_following", "_fresh", "_origin", "_task")

    def __init__(self, client: ConnectedClient, log: SessionLog, origin: str, after: int) -> None:
        super().__init__(client, log=log)
        self._origin = origin
        self._after = after
        self._fresh = b""
        self._following = Following.OPENING
        self._task: asyncio.Task[None] | None = None

    async def opening(self, after: int | None = None) -> bytes:
        """Return the replay of the events that the client missed."""
        replay = await self._read()
        self._follow(FollowStep.READ)
        return replay

    def take(self) -> bytes:
        """Return new events, or b""."""
        ping = super().take()
        fresh, self._fresh = self._fresh, b""
        return ping + fresh

    def follow(self) -> None:
        """Read the log again, as there are new events in it."""
        self._follow(FollowStep.NOTICE)

    def end_writer(self) -> None:
        """Send the logged events and end, because the replica that ran the request and wrote the stream has died."""
        self.step(StreamStep.END)
        self.follow()

    def _follow(self, step: FollowStep) -> None:
        self._following = FOLLOWING[self._following][step]
        if self._following is Following.READING and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read_new_events())

    async def _read_new_events(self) -> None:
        try:
            while self._following is not Following.UP_TO_DATE:
                events = await self._read()
                self._fresh += events
                self._follow(FollowStep.READ)
        except ServerUnavailable:
            self._follow(FollowStep.FAIL)
            self.expire()  # the client resumes it again
        finally:
            self._task = None
            self.wake()

    async def _read(self) -> bytes:
        assert self._log is not None
        replay = await self._log.read(self._origin, self._after)
        if replay is None:  # the session has ended, or the client comes too late
            self.step(StreamStep.COMPLETE)
            return b""
        events = [event for event in replay.events if event[0] > self._after]
        if events:
            self._after = events[-1][0]
        stale = self._following in (Following.OPENING_STALE, Following.READING_STALE)
        if replay.done or (self.content is StreamContent.ENDING and not stale):
            self.step(StreamStep.COMPLETE)
        return b"".join(data for _, data in events)
