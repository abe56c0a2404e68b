"""What a transport offers to the application: a way to send what is not the answer to a request."""

from __future__ import annotations

from collections.abc import Awaitable, Hashable
from typing import Protocol

__all__ = ["Channel"]


class Channel(Protocol):
    """A way to one client: the stream of one request, or the one of a whole session."""

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send an encoded message soon; never waits.

        Of several messages with the same ``key`` that could not leave yet, one is enough.
        """

    def drain(self) -> Awaitable[None]:
        """Wait until what was sent has left, or nearly: so that a slow reader slows us down."""

    def pause(self, retry: int | None = None) -> None:
        """Have the client come back later for the rest, in ``retry`` milliseconds; nothing where it cannot."""
