"""Interface of a transport for messages other than responses: notifications and server requests."""

from __future__ import annotations

from collections.abc import Awaitable, Hashable
from typing import Protocol

__all__ = ["Channel"]


class Channel(Protocol):
    """Outgoing channel to one client: the stream of one request, or that of a session."""

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Queue an encoded message for sending; never blocks.

        Of several queued messages with the same ``key``, only one need be sent.
        """

    def drain(self) -> Awaitable[None]:
        """Wait until the queue is sent, or nearly: backpressure from a slow reader."""

    def pause(self, retry: int | None = None) -> None:
        """Have the client reconnect for the rest after ``retry`` milliseconds; does nothing where it cannot."""
