"""Session table of a Streamable HTTP server: limits, lifetimes, and sessions that other replicas have begun or ended.

The record of a session is in the state that replicas share; its ``StreamableHTTPSession`` is in this process only. If a
request names a session that has a record but no ``StreamableHTTPSession`` yet, the session is restored here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from math import ceil
from typing import Any

import msgspec

from carrel.errors import ServerUnavailable
from carrel.limits import Quota
from carrel.protocol.channel import ConnectedClient
from carrel.protocol.connection import FailedRequest, Peer, Response
from carrel.protocol.encoding import encode
from carrel.protocol.revisions import REVISIONS
from carrel.protocol.server import Call, ClientNotification, ServerProtocol
from carrel.state.records import (
    AnswerLetter,
    FollowLetter,
    Gap,
    ReplicaGone,
    RequestCancelled,
    SessionEnded,
    SessionMessage,
    SessionRecord,
    SlotExpired,
    SubscriptionChanged,
    TailLetter,
    slot_of_request,
)
from carrel.transports.server.application import Application
from carrel.transports.server.http_request import Rejection, session_quota_exceeded
from carrel.transports.server.session import SessionEndpoint, StreamableHTTPSession
from carrel.transports.server.standing_stream import StandingEvents
from carrel.wire.base import ClientCapabilities, Implementation
from carrel.wire.jsonrpc import Message

__all__ = ["SessionTable"]

#: Maximum number and bytes of descriptions of clients that sessions share.
MAX_DESCRIPTIONS = 64
MAX_DESCRIPTION_BYTES = 1024

#: Maximum number of sessions of a client that are searched for an idle one.
MAX_TRIES = 32


class AnswerMessage(msgspec.Struct):
    """A client's response, as it is passed to the replica that waits for it."""

    id: int
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    jsonrpc: str = "2.0"


class SessionTable:
    """Sessions that live in this process, by id and by client, least recently used first."""

    def __init__(self, app: Application, quota: Quota) -> None:
        self._app = app
        self._quota = quota
        self._limits = app.limits
        self._replica = app.replica
        self._records = app.replica.state.sessions
        self._events = StandingEvents(app)
        self._endpoint = SessionEndpoint(app.replica, self._events, app.limits)
        self._live: dict[str, StreamableHTTPSession] = {}
        self._of: dict[str, dict[str, StreamableHTTPSession]] = {}
        self._descriptions: dict[bytes, tuple[Implementation | None, ClientCapabilities | None]] = {}
        replica = app.replica
        replica.on(SessionEnded, self._on_ended)
        replica.on(RequestCancelled, self._on_cancelled)
        replica.on(SessionMessage, self._on_message)
        replica.on(SubscriptionChanged, self._on_subscription)
        replica.on(AnswerLetter, self._on_answer)
        replica.on(FollowLetter, self._on_follow)
        replica.on(TailLetter, self._on_tail)
        replica.on(Gap, self._on_gap)
        replica.on(ReplicaGone, self._on_gone)
        replica.on(SlotExpired, self._on_slot_expired)

    def __iter__(self) -> Iterator[StreamableHTTPSession]:
        return iter(list(self._live.values()))

    # One session

    async def open(self, call: Call, owner: str | None) -> StreamableHTTPSession:
        """Create a session. At the limit, it replaces an expired session, or an idle one of the same client.

        Raises:
            Rejection: this client, or all of them, have too many sessions in use.
            ServerUnavailable: the store has failed.
        """
        self._replica.check_slot()
        connection, peer, client = call.connection, call.peer, call.client.key
        self._share_description(peer)
        await self._take_quota(client)
        await self._reserve(client)
        record = SessionRecord(peer.revision.name, owner, client, peer.client, peer.capabilities, peer.log_level)
        try:
            id = await self._replica.ask(self._records.create(record, self._limits.session_ttl))
        except BaseException:
            self._quota.give(client)
            raise
        return self._add(id, record, connection, call.client)

    async def find(self, id: str, owner: str | None) -> StreamableHTTPSession | None:
        """Return a session and renew it; None if it has ended, or is of another owner.

        Raises:
            Rejection: it does not live in this process yet, and there is no room for it.
            ServerUnavailable: the store has failed.
        """
        self._replica.check_slot()
        session = self._live.get(id)
        record = await self._replica.ask(self._records.touch(id, owner, self._limits.session_ttl))
        if record is None:
            if session is not None and session.record.owner == owner:
                self._drop(session, ended=True)
            return None
        if session is None or session.closed:
            session = self._live.get(id)
            if session is None and not self._replica.shared:
                return None  # it belongs to another endpoint of this process
            if session is None:
                session = await self._restore(id, record)
        elif record is not session.record and record != session.record:
            session.update(record)
        session.touched = session.renewed = asyncio.get_running_loop().time()
        self._use(session)
        return session

    async def end(self, session: StreamableHTTPSession) -> None:
        """End a session on all replicas.

        Raises:
            ServerUnavailable: the store has failed.
        """
        self._drop(session, ended=True)
        await self._replica.ask(self._records.end(session.id))
        self._replica.publish(SessionEnded(session.id))

    def _add(
        self, id: str, record: SessionRecord, connection: ServerProtocol, client: ConnectedClient
    ) -> StreamableHTTPSession:
        session = StreamableHTTPSession(id, record, connection, client, self._endpoint)
        self._live[id] = session
        self._of.setdefault(client.key, {})[id] = session
        return session

    def _share_description(self, peer: Peer) -> None:
        """Replace the client information by equal objects of earlier sessions: many are of the same client software."""
        described = peer.client, peer.capabilities
        key = encode(described)
        if len(key) <= MAX_DESCRIPTION_BYTES:
            peer.client, peer.capabilities = self._descriptions.setdefault(key, described)
            if len(self._descriptions) > MAX_DESCRIPTIONS:
                del self._descriptions[next(iter(self._descriptions))]

    def _use(self, session: StreamableHTTPSession) -> None:
        """Put a session behind all others."""
        for sessions in (self._live, self._of[session.client.key]):
            del sessions[session.id]
            sessions[session.id] = session

    async def _restore(self, id: str, record: SessionRecord) -> StreamableHTTPSession:
        """Return a session that another replica has begun, with its subscriptions."""
        subscriptions = await self._replica.ask(self._records.subscriptions(id))
        await self._reserve(record.client)
        known = self._live.get(id)
        if known is not None:  # restored by another request meanwhile
            self._quota.give(record.client)
            return known
        connection = self._app.connect()
        client = ConnectedClient(self._app.budget, record.client)
        connection.restore(Peer(REVISIONS[record.revision], record.info, record.capabilities, record.log_level))
        session = self._add(id, record, connection, client)
        try:
            self._app.restore(connection, client, subscriptions)
        except ServerUnavailable as error:
            self._drop(session, ended=False)
            raise Rejection(503, str(error), [(b"retry-after", b"5")]) from None
        return session

    def _drop(self, session: StreamableHTTPSession, *, ended: bool) -> None:
        """Remove a session from this process; ``ended`` if its record is gone too."""
        if self._live.pop(session.id, None) is None:
            return
        client = session.client.key
        own = self._of[client]
        del own[session.id]
        if not own:
            del self._of[client]
        self._quota.give(client)
        session.close(ended=ended)
        self._app.disconnect(session.connection, session.client)

    # Limits and lifetimes

    async def _take_quota(self, client: str) -> None:
        """Count a new session of a client on all replicas.

        Raises:
            Rejection: the client has begun too many.
        """
        if not self._replica.shared:
            return
        most, seconds = self._limits.max_sessions_per_client, self._limits.session_ttl
        wait = await self._replica.ask(self._replica.state.quotas.take(f"sessions {client}", 1, most, seconds))
        if wait:
            complaint = f"There are too many sessions of this client: at most {most} in {seconds:g} seconds"
            raise Rejection(429, complaint, [(b"retry-after", b"%d" % ceil(wait))])

    async def _reserve(self, client: str) -> None:
        """Reserve room for a session. At the limit, evict an expired or idle session; it continues on other replicas.

        Raises:
            Rejection: there is no room.
        """
        self._quota.limit(self._limits.max_sessions, self._limits.max_sessions_per_client)
        if self._quota.take(client):
            return
        oldest = next(iter(self._live.values()), None)
        if oldest is None or not self._is_over(oldest, asyncio.get_running_loop().time()):
            oldest = self._find_idle(self._of.get(client))
        if oldest is not None:
            self._drop(oldest, ended=not self._replica.shared)
        taken = oldest is not None and self._quota.take(client)
        if oldest is not None and not self._replica.shared:
            self._replica.write(self._records.end(oldest.id))
        if not taken:
            raise session_quota_exceeded(self._quota, client)

    def _is_over(self, session: StreamableHTTPSession, now: float) -> bool:
        return session.touched < now - self._limits.session_ttl and not session.busy

    def _find_idle(self, sessions: dict[str, StreamableHTTPSession] | None) -> StreamableHTTPSession | None:
        """Return the least recently used idle session of a client. Busy sessions are marked as used now."""
        for _ in range(min(len(sessions or ()), MAX_TRIES)):
            assert sessions is not None
            session = next(iter(sessions.values()))
            if not session.busy:
                return session
            session.touch()
            self._use(session)
        return None

    @property
    def interval(self) -> float:
        """The longest time between two sweeps, in seconds, so that the record of a busy session does not expire."""
        return max(self._limits.session_ttl / 3, 0.05)

    def sweep(self) -> None:
        """Drop sessions and replays whose lifetime is over, and renew the records of busy sessions."""
        now = asyncio.get_running_loop().time()
        for session in self:
            if session.busy:
                session.touch()
            elif self._is_over(session, now):  # it may be in use on other replicas
                self._drop(session, ended=not self._replica.shared)
                continue
            session.end_replays(now - self._limits.replay_ttl)

    def close(self) -> None:
        """Drop all sessions. They continue on other replicas, or end if there are no replicas."""
        for session in self:
            self._drop(session, ended=not self._replica.shared)
            if not self._replica.shared:
                self._replica.write(self._records.end(session.id))

    # Messages that belong to another replica

    def pass_on(self, session: StreamableHTTPSession, response: Message) -> Coroutine[Any, Any, bool] | None:
        """Return an operation that sends a client's response to the replica whose handler waits for it, or None.

        It is None if the response is not for another replica: it answers nothing.
        """
        slot = slot_of_request(response.id)
        if slot is None or slot == self._replica.state.slot or not self._replica.shared:
            return None
        body = encode(AnswerMessage(response.id, response.result, response.error))
        return self._replica.state.mailbox.put(slot, AnswerLetter(session.id, body))

    def take_notification(self, session: StreamableHTTPSession, notification: ClientNotification) -> None:
        """Cancel the request that a notification names, on the replica that runs it."""
        if notification.operation != "cancelled":
            return
        id = notification.params.request_id
        if id in session.in_flight:
            session.in_flight.cancel(id)
        elif id is not None:
            self._replica.publish(RequestCancelled(session.id, id))

    def _on_ended(self, notice: SessionEnded) -> None:
        session = self._live.get(notice.session)
        if session is not None:
            self._drop(session, ended=True)

    def _on_message(self, notice: SessionMessage) -> None:
        session = self._live.get(notice.session)
        if session is None:
            return
        if notice.slot == self._replica.state.slot or (notice.key is not None and session.listening):
            session.deliver(notice.message, notice.key)

    def _on_cancelled(self, notice: RequestCancelled) -> None:
        session = self._live.get(notice.session)
        if session is not None:
            session.in_flight.cancel(notice.request)

    def _on_subscription(self, notice: SubscriptionChanged) -> None:
        session = self._live.get(notice.session)
        if session is not None:
            self._app.take_subscription(session.connection, notice.uri, notice.spelled)

    def _on_answer(self, letter: AnswerLetter) -> None:
        session = self._live.get(letter.session)
        if session is not None:
            answer = session.connection.receive(letter.body)
            if isinstance(answer, Response | FailedRequest):
                answer.deliver()

    def _on_follow(self, letter: FollowLetter) -> None:
        session = self._live.get(letter.session)
        if session is not None:
            session.add_follower(letter.stream, letter.slot)

    def _on_tail(self, letter: TailLetter) -> None:
        session = self._live.get(letter.session)
        if session is not None:
            session.follow(letter.stream)

    def _on_gap(self, _: Gap) -> None:
        """Drop the idle sessions, and the busy ones that have ended. Those that have not are restored when needed."""
        for session in self:
            if session.busy:
                self._replica.write(self._verify(session))
            else:
                self._drop(session, ended=False)

    def _on_gone(self, notice: ReplicaGone) -> None:
        for session in self:
            session.drop_replica(notice.slot)

    def _on_slot_expired(self, _: SlotExpired) -> None:
        """Cancel all requests of sessions and end their streams: others answer for this replica as for a dead one."""
        for session in self:
            self._drop(session, ended=False)

    async def _verify(self, session: StreamableHTTPSession) -> None:
        if await self._records.touch(session.id, session.record.owner, self._limits.session_ttl) is None:
            self._drop(session, ended=True)
