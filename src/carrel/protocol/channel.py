"""Interface of a transport for messages other than responses: notifications and server requests."""

from __future__ import annotations

from collections.abc import Awaitable, Hashable
from typing import NamedTuple, Protocol

from carrel.wire.base import Id

__all__ = ["ChangeKey", "Channel"]


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
        """Have the client reconnect for the rest after ``retry`` milliseconds; does nothing where it cannot."""
