"""Interface of observers of the requests of a server, such as an audit log or metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from carrel.protocol.methods import CALL_TOOL
from carrel.protocol.server import ErrorResponse

if TYPE_CHECKING:
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call, Reply

__all__ = ["Observer", "Outcome", "RejectedRequest", "outcome_of"]

Outcome: TypeAlias = Literal["ok", "error", "tool_error", "cancelled", "open"]

TOOL_ERROR = b'"isError":true'


class RejectedRequest(msgspec.Struct, frozen=True, gc=False):
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

    def http_rejected(self, request: RejectedRequest) -> None:
        """Called after the HTTP transport has refused a request."""


def outcome_of(call: Call, reply: Reply | None) -> tuple[Outcome, int]:
    """Return the outcome of a call, and the size of its response in bytes.

    The outcome is "open" when a stream begins, "tool_error" if a tool has failed, and "cancelled" without a response.
    """
    if type(reply) is bytes and reply and call.request is not CALL_TOOL:
        return "ok", len(reply)
    if reply is None:
        return "cancelled", 0
    if isinstance(reply, ErrorResponse):
        return "error", len(reply.reply)
    if not reply:
        return "open", 0
    return ("tool_error" if call.request is CALL_TOOL and TOOL_ERROR in reply else "ok"), len(reply)
