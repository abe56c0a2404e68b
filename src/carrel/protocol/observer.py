"""Interface of observers of the requests of a server, such as an audit log or metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call, Reply

__all__ = ["Observer", "Refusal"]


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """HTTP request that a transport has refused: before its message was read, or because of its caller.

    ``status`` is the HTTP status, ``message`` the reason. ``path`` is the path of the request, which is not trusted.
    """

    status: int
    message: str
    method: str
    path: str
    address: str = ""
    principal: Principal | None = None


class Observer(Protocol):
    """Observer of requests. Its methods are called on the event loop, and must be fast."""

    def admit(self, call: Call) -> None:
        """Called before a call is handled.

        Raises:
            ServerUnavailable: calls cannot be observed now, and must not be handled.
        """

    def answered(self, call: Call, reply: Reply | None, seconds: float) -> None:
        """Called with the response to a call and its duration; None if the call was cancelled.

        For a stream that may never end, it is called twice: with the duration 0 when the stream begins, and at its end.
        """

    def refused(self, refusal: Refusal) -> None:
        """Called after the HTTP transport has refused a request."""
