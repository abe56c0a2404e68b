"""Sessions with one upstream: one per key, opened on first use, closed when idle, and limited in number."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from carrel.catalog.provider import Interest, Recipients
from carrel.errors import InvalidCursor, ServerUnavailable
from carrel.log import Log
from carrel.protocol.channel import ConnectedClient
from carrel.protocol.encoding import encode_event
from carrel.wire.utilities import SEVERITY, LoggingMessageParams

if TYPE_CHECKING:
    from collections.abc import Collection

    from carrel.client.handlers import LogMessage
    from carrel.host.remote import RemoteProvider
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import ServerProtocol

__all__ = ["AllInterest", "Mode", "SessionKey", "SessionLimits", "UpstreamSession", "UpstreamSessions", "key_of"]

log = Log("carrel.gateway")

Mode: TypeAlias = Literal["shared", "client", "principal"]

#: Maximum number of queued log messages (without a call) for a client that does not read. The latest are kept.
MAX_UNSENT = 100
#: Characters of the tag that binds a cursor to its session.
TAG = 16


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the sessions with one upstream, and so on its processes if it is a command.

    ``max_sessions`` is the total limit, ``max_sessions_per_principal`` the limit per authenticated user, across all of
    the user's OAuth clients. A session without requests and subscriptions is closed after ``idle_seconds``.
    """

    max_sessions: int = 100
    max_sessions_per_principal: int = 20
    idle_seconds: float = 1800.0


class SessionKey(msgspec.Struct, frozen=True):
    """Owner of a session with an upstream: a principal, and the client's connection if isolation is "client"."""

    mode: Mode
    principal: str | None
    client: ConnectedClient | None = None
    connection: ServerProtocol | None = None

    def __hash__(self) -> int:
        return hash((self.mode, self.principal, id(self.client)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SessionKey)
            and self.client is other.client
            and (self.mode, self.principal) == (other.mode, other.principal)
        )

    def __repr__(self) -> str:
        return f"SessionKey({self.mode!r}, {self.principal!r}, client={self.client is not None})"

    def include(self, client: ConnectedClient) -> bool:
        """Return whether a client is the owner, so that it receives the changes of the session."""
        return key_of(self.mode, client.principal, client) == self


def key_of(
    mode: Mode, principal: Principal | None, client: ConnectedClient, connection: ServerProtocol | None = None
) -> SessionKey:
    """Return the owner of the session for a client's requests.

    Each stateless HTTP request has a separate connection and no client session, so only its principal counts.
    """
    subject = None if principal is None else principal.id
    if mode != "client" or client.channel is None:
        return SessionKey(mode, subject)
    return SessionKey(mode, subject, client, connection)


class OwnInterest(Interest):
    """Resources to which the owner of a session has subscribed."""

    def __init__(self, outer: Interest, owner: Recipients) -> None:
        super().__init__()
        self._outer = outer
        self._owner = owner

    @property
    def uris(self) -> Collection[str]:
        """URIs to which the owner has subscribed."""
        return self._outer.of(self._owner)

    @uris.setter
    def uris(self, _: Collection[str]) -> None:
        """No-op: the server sets the URIs."""


class AllInterest(Interest):
    """Resources to which any client has subscribed, for the shared session."""

    def __init__(self, outer: Interest) -> None:
        super().__init__()
        self._outer = outer

    @property
    def uris(self) -> Collection[str]:
        """URIs with at least one subscription."""
        return self._outer.uris

    @uris.setter
    def uris(self, _: Collection[str]) -> None:
        """No-op: the server sets the URIs."""


class UpstreamSession:
    """Session with an upstream, for one owner. ``provider`` is set once ``opening`` is done."""

    def __init__(self, key: SessionKey, name: str) -> None:
        self.key = key
        self.provider: RemoteProvider | None = None
        self.opening: asyncio.Task[None] | None = None
        self.user: str | None = None
        """User whose session limit it counts toward."""
        self.is_open = False
        """Whether it has been opened. After that, changes of its lists are reported."""
        self.users = 0
        """Number of requests in progress."""
        self.used = 0.0
        """Event loop time of the last request."""
        self.interest: OwnInterest | None = None
        self.following: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.on_close: Callable[[], object] | None = None
        self.forget: Callable[[], object] | None = None
        """Callback for when the session is closed."""
        self._logged = 0
        if key.client is None:  # the same on each replica, and after the session is reopened
            self._tag = sha256(msgspec.json.encode((name, key.mode, key.principal))).hexdigest()[:TAG]
        else:
            self._tag = os.urandom(TAG // 2).hex()

    @property
    def busy(self) -> bool:
        """Whether the session is in use: it has requests in progress or waiting for a client, or subscriptions."""
        parked = self.provider is not None and self.provider.parked > 0
        return self.users > 0 or parked or (self.interest is not None and bool(self.interest.uris))

    def log(self, message: LogMessage) -> bool:
        """Send a log message without a call to the client that owns the session, if it has set a matching log level.

        Return whether it was sent. Stateless clients receive log messages only for their requests.
        https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#log-message-notifications
        """
        client, connection = self.key.client, self.key.connection
        peer = None if connection is None else connection.peer
        if client is None or client.channel is None or peer is None or client.closed:
            return False
        if peer.log_level is None or SEVERITY[message.level] < peer.log_level:
            return False
        self._logged = (self._logged + 1) % MAX_UNSENT
        params = LoggingMessageParams(level=message.level, logger=message.logger, data=message.data)
        client.channel.send(encode_event(peer.revision, "message", params), ("log", str(self._logged)))
        return True

    def interest_in(self, outer: Interest) -> OwnInterest:
        """Return the resources to which the owner has subscribed."""
        return OwnInterest(outer, self.key)

    def cursor_out(self, cursor: str | None) -> str | None:
        """Turn a cursor of the upstream into a cursor that is valid in this session only."""
        return None if cursor is None else f"{self._tag}{cursor}"

    def cursor_in(self, cursor: str | None) -> str | None:
        """Turn a client's cursor into the cursor of the upstream.

        Raises:
            InvalidCursor: the cursor is from another session.
        """
        if cursor is None:
            return None
        if not cursor.startswith(self._tag):
            raise InvalidCursor
        return cursor[TAG:]


class UpstreamSessions:
    """Sessions with one upstream, by owner.

    ``open`` connects a session; ``close`` ends it. A session is closed when the client's session ends. A session that
    is not ``busy`` is closed when it has been idle for too long. If a limit is reached, the session that has been idle
    for the longest time is closed.
    """

    def __init__(
        self,
        name: str,
        limits: SessionLimits,
        open: Callable[[UpstreamSession, Principal | None], Awaitable[None]],
        close: Callable[[UpstreamSession], Awaitable[None]],
    ) -> None:
        self.name = name
        self.limits = limits
        self._open = open
        self._close = close
        self._sessions: dict[SessionKey, UpstreamSession] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[UpstreamSession]:
        return iter(list(self._sessions.values()))

    def enter(self, key: SessionKey, principal: Principal | None) -> UpstreamSession:
        """Return the session of an owner, which stays in use until ``leave``. Start to open a session if needed.

        Raises:
            ServerUnavailable: there are too many sessions, and all are in use.
        """
        session = self._sessions.get(key)
        if session is None:
            session = self._begin(key, principal)
        session.users += 1
        return session

    def open_session(self, key: SessionKey) -> UpstreamSession | None:
        """Return the session of an owner if it is open; None if it is not there, or still opening."""
        session = self._sessions.get(key)
        return session if session is not None and session.is_open else None

    def leave(self, session: UpstreamSession) -> None:
        """Release a session after a request."""
        session.users -= 1
        session.used = asyncio.get_running_loop().time()
        if session.timer is None:
            self._wait(session, self.limits.idle_seconds)

    def _begin(self, key: SessionKey, principal: Principal | None) -> UpstreamSession:
        user = None if principal is None else principal.user
        self._make_room(user)
        session = self._sessions[key] = UpstreamSession(key, self.name)
        session.user = user
        if key.client is not None:
            session.on_close = lambda: self.drop(session)
            key.client.closing = [*(key.client.closing or ()), session.on_close]
        session.opening = asyncio.ensure_future(self._open(session, principal))
        session.opening.add_done_callback(lambda task: self._opened(session, task))
        return session

    def _opened(self, session: UpstreamSession, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.drop(session)  # the next request tries again

    def _make_room(self, user: str | None) -> None:
        """Close the session that has been idle for the longest time if a limit is reached.

        Raises:
            ServerUnavailable: all sessions are in use.
        """
        limits = self.limits
        own = [one for one in self if user is not None and one.user == user]
        for sessions, most in ((own, limits.max_sessions_per_principal), (list(self), limits.max_sessions)):
            if len(sessions) < most:
                continue
            idle = min((one for one in sessions if not one.busy), key=lambda one: one.used, default=None)
            if idle is None:
                raise ServerUnavailable(
                    f"{self.name} has {len(sessions)} sessions, all of them in use; try again later"
                )
            log.info("%s: a session is closed, as another one needs its place", self.name)
            self.drop(idle)
            if sessions is own:
                return  # this makes room under the total limit too

    def _wait(self, session: UpstreamSession, seconds: float) -> None:
        """Schedule a check for whether a session has been idle for too long."""
        if self._sessions.get(session.key) is session:
            session.timer = asyncio.get_running_loop().call_later(seconds, self._expire, session)

    def _expire(self, session: UpstreamSession) -> None:
        session.timer = None
        left = session.used + self.limits.idle_seconds - asyncio.get_running_loop().time()
        if session.busy:
            self._wait(session, self.limits.idle_seconds)
        elif left > 0:
            self._wait(session, left)
        else:
            self.drop(session)

    def drop(self, session: UpstreamSession) -> None:
        """Close a session in the background. No-op if it is already closed."""
        if self._sessions.get(session.key) is not session:
            return
        del self._sessions[session.key]
        if session.timer is not None:
            session.timer.cancel()
        closing = None if session.key.client is None else session.key.client.closing
        if closing is not None and session.on_close in closing:
            closing.remove(session.on_close)
        task = asyncio.ensure_future(self._end(session))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, session: UpstreamSession) -> None:
        tasks = [task for task in (session.opening, session.following) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._close(session)
        except Exception:
            log.exception("%s: a session could not be closed", self.name)

    async def ended(self) -> None:
        """Wait until all closing sessions are closed."""
        while self._ending:
            await asyncio.gather(*self._ending, return_exceptions=True)

    async def stop(self) -> None:
        """Close all sessions."""
        for session in self:
            self.drop(session)
        await self.ended()
