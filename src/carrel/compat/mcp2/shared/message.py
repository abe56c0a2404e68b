"""Messages on streams, with what their transport knows about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from carrel.compat.mcp2.types.jsonrpc import JSONRPCMessage, RequestId

__all__ = [
    "ClientMessageMetadata",
    "CloseSSEStreamCallback",
    "MessageMetadata",
    "ResumptionToken",
    "ResumptionTokenUpdateCallback",
    "ServerMessageMetadata",
    "SessionMessage",
]

ResumptionToken = str
ResumptionTokenUpdateCallback = Callable[[ResumptionToken], Awaitable[None]]
CloseSSEStreamCallback = Callable[[], Awaitable[None]]


@dataclass
class ClientMessageMetadata:
    """Metadata of a message of a client."""

    resumption_token: ResumptionToken | None = None
    on_resumption_token_update: ResumptionTokenUpdateCallback | None = None
    headers: dict[str, str] | None = None


@dataclass
class ServerMessageMetadata:
    """Metadata of a message of a server."""

    related_request_id: RequestId | None = None
    request_context: Any = None
    close_sse_stream: CloseSSEStreamCallback | None = None
    close_standalone_sse_stream: CloseSSEStreamCallback | None = None
    on_request_unanswered: Callable[[], Awaitable[None]] | None = None
    can_send_request: bool = True


MessageMetadata = ClientMessageMetadata | ServerMessageMetadata | None


@dataclass
class SessionMessage:
    """A JSON-RPC message with its metadata."""

    message: JSONRPCMessage
    metadata: MessageMetadata = None
