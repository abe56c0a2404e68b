"""Pending request of a client: the future of its response, the receiver of its notifications, and its deadline."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import msgspec

from carrel.client.handlers import ClientCall, Progress
from carrel.protocol.client import ServerNotification

__all__ = ["NEVER", "Subscriber", "Waiter"]

#: Later than any time on the loop's clock.
NEVER = float("inf")


class Subscriber(Protocol):
    """Receiver of the notifications of one listen request (subscription stream)."""

    def take_notice(self, notice: ServerNotification) -> None:
        """Handle a notification of the subscription."""


class Waiter(msgspec.Struct, gc=False):
    """Pending request: the future of its response, its callbacks and its deadline."""

    future: asyncio.Future[Any]
    progress: Progress | None = None
    subscriber: Subscriber | None = None
    timeout: float | None = None
    deadline: float = NEVER
    """When the request times out, on the loop's clock."""
    latest: float = NEVER
    """The latest ``deadline`` to which progress notifications can extend it."""
    call: ClientCall[Any] | None = None
    held: bool = False
    """Whether the timeout is suspended, because the user is probably responding to a server request."""

    def resolve(self, result: Any) -> None:
        """Set the result of the request."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        """Set the error of the request."""
        if not self.future.done():
            self.future.set_exception(error)
