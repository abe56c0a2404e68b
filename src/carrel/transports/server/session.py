"""Session of a client of a revision with a handshake over Streamable HTTP: requests in flight, streams, resumption.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import msgspec

from carrel.limits import Limits
from carrel.protocol.channel import ChangeKey, ConnectedClient
from carrel.protocol.event_ids import EventId, name_stream, slot_of_stream
from carrel.protocol.server import ServerProtocol
from carrel.state.records import FollowLetter, SessionMessage, SessionRecord, SubscriptionChanged
from carrel.state.replica import Replica
from carrel.transports.server.dispatcher import InFlight, Work, cancel
from carrel.transports.server.event_log import SessionLog
from carrel.transports.server.standing_stream import Missed, StandingEvents, StandingStream
from carrel.transports.server.streams import MAX_EVENTS, ResumedStream, Stream

__all__ = ["StreamableHTTPSession"]

#: Maximum number and bytes of resumable streams of one session, and the bytes that one counts besides its events.
MAX_STREAMS = 64
MAX_STREAM_BYTES = 16 * 1024 * 1024
STREAM_BYTES = 1024

#: How many times within its lifetime the record of a session in use is renewed.
RENEWALS = 4

#: Bytes of a message that belongs to no request up to which it is kept for a client that reconnects.
MAX_KEPT_MESSAGE = 64 * 1024

numbers = count(1)


class SessionEndpoint(NamedTuple):
    """Replica, events of GET streams, and limits that all sessions of an endpoint share."""

    replica: Replica
    events: StandingEvents
    limits: Limits


class StreamableHTTPSession:
    """Session (Mcp-Session-Id) of a client of a revision with a handshake: its state in this process.

    ``record`` is the state that all replicas share; the limits of ``endpoint`` have the lifetime after the last use.
    """

    __slots__ = (
        *("_events", "_held", "_limits", "_listening", "_log", "_replica", "_replayable", "_resumed", "_streams"),
        *("client", "closed", "connection", "id", "in_flight", "record", "renewed", "touched"),
    )

    def __init__(
        self,
        id: str,
        record: SessionRecord,
        connection: ServerProtocol,
        client: ConnectedClient,
        endpoint: SessionEndpoint,
    ) -> None:
        replica = endpoint.replica
        self.id = id
        self.record = record
        self.connection = connection
        self.client = client
        self.closed = False
        self.touched = self.renewed = asyncio.get_running_loop().time()
        """When it was last used, and when the lifetime of its record began anew, by the event loop's clock."""
        self.in_flight = InFlight(connection)
        self._replica = replica
        self._events = endpoint.events
        self._limits = endpoint.limits
        self._log: SessionLog | None = None
        self._resumed: dict[str, ResumedStream] | None = None
        self._streams: OrderedDict[str, Stream] | None = None
        self._replayable: dict[str, float] | None = None
        self._listening: list[StandingStream] | None = None
        self._held: dict[Hashable, bytes] | None = None
        client.session_id = id
        client.shared = replica.shared
        client.channel = self
        connection.use_slot(replica.state.slot)

    @property
    def busy(self) -> bool:
        """Whether the session has requests in flight or an open GET stream."""
        return bool(self.in_flight) or bool(self._listening)

    @property
    def listening(self) -> list[StandingStream]:
        """The open streams of GET requests."""
        return self._listening or []

    def touch(self) -> None:
        """Record that the session is in use, and renew the lifetime of its record from time to time."""
        self.touched = asyncio.get_running_loop().time()
        ttl = self._limits.session_ttl
        if self.touched - self.renewed > ttl / RENEWALS and not self.closed:
            self.renewed = self.touched
            self._replica.write(self._replica.state.sessions.touch(self.id, self.record.owner, ttl))

    def update(self, record: SessionRecord) -> None:
        """Apply a record that another replica has changed."""
        self.record = record
        if self.connection.peer is not None:
            self.connection.peer.log_level = record.log_level

    def save(self) -> None:
        """Store the log level, if the client has changed it."""
        peer = self.connection.peer
        if peer is not None and peer.log_level != self.record.log_level:
            self.record = msgspec.structs.replace(self.record, log_level=peer.log_level)
            self._replica.write(self._replica.state.sessions.update(self.id, self.record))

    def save_subscription(self, uri: str, spelled: str | None) -> None:
        """Store a subscription of the client, or (None) its end, for other replicas."""
        if not self._replica.shared:
            return
        sessions = self._replica.state.sessions
        if spelled is None:
            self._replica.write(sessions.unsubscribe(self.id, uri))
        else:
            self._replica.write(sessions.subscribe(self.id, uri, spelled))
        self._replica.publish(SubscriptionChanged(self.id, uri, spelled))

    def finish(self, key: Any, work: Work) -> None:
        """Remove a completed request."""
        self.in_flight.remove(key, work)
        self._trim()
        self.touch()

    # Messages that belong to no request: they are sent on one of the GET streams

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message on the newest GET stream, or keep it until there is one (one per key).

        Messages other than change notifications go to the bus, so that a client that loses its connection gets them
        when it resumes.
        """
        if isinstance(key, ChangeKey) or len(message) > MAX_KEPT_MESSAGE:
            if self._listening:  # as ``deliver`` does: there may be thousands of sessions
                self._listening[-1].send(message, key)
            else:
                self.deliver(message, key)
            return
        notice = SessionMessage(self.id, self._replica.state.slot, message, key)  # type: ignore[arg-type]
        if self._replica.shared:
            self._replica.write(self._publish(notice))
        else:
            self._replica.record(notice)
            self.deliver(message, key)

    async def _publish(self, notice: SessionMessage) -> None:
        """Put a message on the bus: it is delivered when this replica reads it there, or now if the store fails."""
        try:
            await self._replica.state.bus.publish(notice)
        except Exception:
            self.deliver(notice.message, notice.key)
            raise

    def deliver(self, message: bytes, key: Hashable = None) -> None:
        """Send a message on the newest GET stream, or keep it until there is one (one per key)."""
        if self._listening:
            self._listening[-1].send(message, key)
            return
        if self._held is None:
            self._held = {}
        key = message if key is None else key
        replaced = self._held.get(key)
        if replaced is not None:
            self.client.give(len(replaced))
        elif len(self._held) >= MAX_EVENTS:
            return
        if not self.closed and self.client.take(len(message)):
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

    def listen(self, stream: StandingStream, most: int) -> None:
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
            self.client.give(len(message))
        return held

    def unlisten(self, stream: Stream) -> None:
        """Remove a GET stream whose connection is closed."""
        if self._listening and stream in self._listening:
            self._listening.remove(stream)
        self.touch()

    async def resume(self, last: EventId) -> tuple[StandingStream, Missed]:
        """Return a new GET stream that replaces an earlier one, here or on another replica, and the missed messages.

        Raises:
            ServerUnavailable: the store has failed.
        """
        here = self._replica.state.slot
        missed = await self._events.since(self.id, last)
        if last.slot != here and self._replica.shared:
            self._replica.notify(last.slot, FollowLetter(self.id, last.stream, here))
        self._leave(last.stream)
        return self.new_standing_stream(0 if missed.changes is None else last.number), missed

    def _leave(self, name: str) -> None:
        """Close the connection of a GET stream that its client has resumed."""
        for stream in self.listening:
            if stream.name == name:
                stream.expire()

    # Streams that can be resumed

    @property
    def log(self) -> SessionLog:
        """Event log of the resumable streams."""
        if self._log is None:
            self._log = SessionLog(self._replica, self.id, self._limits)
        return self._log

    def new_stream(self) -> Stream:
        """Return a new stream for a response, resumable if the session's revision has that.

        Its id names the replica that writes it: ``slot.stream``.
        """
        peer = self.connection.peer
        if peer is None or not peer.revision.resumable:
            return Stream(self.client)
        id = name_stream(self._replica.state.slot, next(numbers))
        return Stream(self.client, id, self.log, primed=peer.revision.primed)

    def new_standing_stream(self, resumed: int | None = None) -> StandingStream:
        """Return a new stream of a GET, resumable if the session's revision has that."""
        peer = self.connection.peer
        if peer is None or not peer.revision.resumable:
            return StandingStream(self.client)
        events, primed = self._events, peer.revision.primed
        return StandingStream(self.client, events.name(next(numbers)), events, primed=primed, resumed=resumed)

    def keep(self, stream: Stream) -> None:
        """Store a stream, so that the client can resume it."""
        if not stream.id or stream.dropped:
            return
        if self._streams is None:
            self._streams = OrderedDict()
        if stream.id not in self._streams:
            if self.closed or not self.client.take(STREAM_BYTES):
                stream.forget()
                return
            self._streams[stream.id] = stream
        self._trim()

    def mark_replayable(self, stream: Stream) -> None:
        """Record that a connection of a stream is closed. If the stream is complete, its replay data may be dropped."""
        if stream.replay_only:
            if self._replayable is None:
                self._replayable = {}
            self._replayable[stream.id] = asyncio.get_running_loop().time()
            if self.client.budget is not None:
                self.client.budget.add_evictable(self.client.key, stream, partial(self._forget, stream))
            self.log.finish(stream.id)

    def end_replays(self, before: float) -> None:
        """Drop the streams that became replayable before a time of the event loop's clock."""
        while self._replayable and self._streams is not None:
            id, since = next(iter(self._replayable.items()))
            if since >= before:
                break
            self._forget(self._streams[id])

    def _reopen(self, stream: Stream) -> None:
        replayable = self._replayable is not None and self._replayable.pop(stream.id, None) is not None
        if replayable and self.client.budget is not None:
            self.client.budget.remove_evictable(self.client.key, stream)

    def _forget(self, stream: Stream, *, drop: bool = True) -> None:
        self._reopen(stream)
        if self._streams is not None and self._streams.pop(stream.id, None) is not None:
            self.client.give(STREAM_BYTES)
        stream.forget(drop=drop)

    def _trim(self) -> None:
        """Drop streams over the limits of number and size: complete ones first, the oldest first."""
        streams = self._streams
        if streams is None:
            return
        size = sum(stream.size for stream in streams.values())
        for complete in (True, False):
            for stream in [stream for stream in streams.values() if stream.complete is complete]:
                if len(streams) <= MAX_STREAMS and (size <= MAX_STREAM_BYTES or len(streams) == 1):
                    return
                size -= stream.size
                self._forget(stream)

    def find_stream(self, name: str) -> Stream | None:
        """Return the stream that a client resumes, or None if another replica writes it."""
        stream = None if self._streams is None else self._streams.get(name)
        if stream is not None:
            self._reopen(stream)
        return stream

    async def fetch_stream(self, last: EventId) -> ResumedStream | None:
        """Return a stream that follows the events another replica writes, or None if the stream does not exist.

        Raises:
            ServerUnavailable: the store has failed.
        """
        slot, origin, after = last.slot, last.stream, last.number
        if slot == self._replica.state.slot:
            return None
        letter = FollowLetter(self.id, origin, self._replica.state.slot)
        if await self.log.read(origin, after) is None:
            return None
        stream = ResumedStream(self.client, self.log, origin, after)
        if self._resumed is None:
            self._resumed = {}
        previous = self._resumed.get(origin)
        if previous is not None:
            previous.expire()
        self._resumed[origin] = stream
        try:
            if not await self._replica.ask(self._replica.state.mailbox.put(slot, letter)):
                stream.end_content()  # the replica is gone, and with it the request
        except BaseException:
            self.leave_stream(stream)
            raise
        return stream

    def drop_replica(self, slot: int) -> None:
        """End the streams here that a replica has written which is gone."""
        for origin, stream in (self._resumed or {}).items():
            if slot_of_stream(origin) == slot:
                stream.end_writer()

    def leave_stream(self, stream: Stream) -> None:
        """Remove a stream of another replica whose connection here is closed."""
        for origin, resumed in list((self._resumed or {}).items()):
            if resumed is stream and self._resumed is not None:
                del self._resumed[origin]

    def add_follower(self, id: str, slot: int) -> None:
        """Close a stream's connection because its client resumes it on another replica, which is told of events."""
        self._leave(id)
        stream = None if self._streams is None else self._streams.get(id)
        if stream is None:
            return
        stream.expire()
        self.log.add_follower(id, slot)

    def follow(self, id: str) -> None:
        """Read new events of a stream that another replica writes."""
        stream = None if self._resumed is None else self._resumed.get(id)
        if stream is not None:
            stream.follow()

    def close(self, *, ended: bool) -> None:
        """Cancel all requests in flight and end all streams; drop their logs if the session has ``ended``."""
        self.closed = True
        self.record = msgspec.structs.replace(self.record, info=None, capabilities=None)  # they may be large
        for work in list(self.in_flight.values()):
            cancel(work)
        streams = () if self._streams is None else self._streams.values()
        for stream in (*(self._listening or ()), *streams, *(self._resumed or {}).values()):
            stream.end_content()
            if not isinstance(stream, ResumedStream):
                self._forget(stream, drop=ended)
        self._take_held()
