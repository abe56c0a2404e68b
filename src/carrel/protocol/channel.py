"""Transports as handlers see them: the channel for messages other than responses, and the client of a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from carrel.wire.base import Id

if TYPE_CHECKING:
    from carrel.limits import Budget
    from carrel.protocol.principal import Principal

__all__ = ["ChangeKey", "Channel", "ConnectedClient"]


class ChangeKey(NamedTuple):
    """Key of a notification that a resource or list has changed. ``tag`` is the id of the listen request."""

    event: str
    uri: str
    tag: Id | None


class Channel(Protocol):
    """Outgoing channel to one client: the stream of a request or of a session."""

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Queue an encoded message for sending; never blocks.

        Of several queued messages with the same ``key``, only one need be sent.
        """

    def drain(self) -> Awaitable[None]:
        """Wait until the queue is sent, or nearly: backpressure from a slow reader."""

    def pause(self, retry: int | None = None) -> None:
        """Close the stream, so that the client reconnects after ``retry`` milliseconds; a no-op if it cannot resume."""


class ConnectedClient(msgspec.Struct, eq=False, weakref=True):
    """Client of a connection: its identity, limits and channel, which transports and the server share.

    ``key`` is the client for limits and the budget: a principal, an address, or empty for the only client of a process.
    ``budget`` limits the bytes that are kept for clients, None without a limit.
    """

    budget: Budget | None = None
    key: str = ""
    session_id: str = ""
    """Id of a session over HTTP."""
    shared: bool = False
    """Whether other replicas know the session."""
    principal: Principal | None = None
    """Caller of the last request: the rights of notifications are its rights. None without authorization."""
    address: str = ""
    """Address group of the last request over HTTP."""
    channel: Channel | None = None
    """Channel of messages that belong to no request; None for a stateless request."""
    closed: bool = False
    """Whether the client has disconnected."""
    closing: list[Callable[[], object]] | None = None
    """Callbacks for when the client disconnects, each called once; or None."""

    def take(self, size: int) -> bool:
        """Take bytes from the budget of the client; return False if they exceed it."""
        return self.budget is None or self.budget.take(self.key, size)

    def give(self, size: int) -> None:
        """Give bytes back to the budget of the client."""
        if self.budget is not None:
            self.budget.give(self.key, size)

    def has_room(self, size: int) -> bool:
        """Return whether the budget of the client has room for ``size`` bytes."""
        return self.budget is None or self.budget.make_room(self.key, size)

    def close(self) -> None:
        """Mark the client as disconnected, and run the callbacks."""
        self.closed = True
        closing, self.closing = self.closing, None
        for call in closing or ():
            call()
