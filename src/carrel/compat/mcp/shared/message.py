"""Messages on streams, with what their transport knows about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from carrel.compat.mcp.types.base import JSONRPCMessage, RequestId

__all__ = ["ClientMessageMetadata", "MessageMetadata", "ServerMessageMetadata", "SessionMessage"]


@dataclass
class ClientMessageMetadata:
    """Metadata of a message of a client."""

    resumption_token: str | None = None
    on_resumption_token_update: Callable[[str], Awaitable[None]] | None = None


@dataclass
class ServerMessageMetadata:
    """Metadata of a message of a server."""

    related_request_id: RequestId | None = None
    request_context: Any = None
    close_sse_stream: Callable[[], Awaitable[None]] | None = None
    close_standalone_sse_stream: Callable[[], Awaitable[None]] | None = None


MessageMetadata = ClientMessageMetadata | ServerMessageMetadata | None


@dataclass
class SessionMessage:
    """A JSON-RPC message with its metadata."""

    message: JSONRPCMessage
    metadata: MessageMetadata = None
