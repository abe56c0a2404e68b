"""Headers of Streamable HTTP, and event stores of programs, which Carrel replaces with its event log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carrel.compat.exchange import REQUEST_CANCELLED
from carrel.compat.lazy import lazily
from carrel.compat.mcp.types.base import JSONRPCMessage

if TYPE_CHECKING:
    from carrel.compat.mcp.server.streamable_http_transport import StreamableHTTPServerTransport
else:
    __getattr__ = lazily("carrel.compat.mcp.server", {"StreamableHTTPServerTransport": "streamable_http_transport"})

__all__ = [
    "LAST_EVENT_ID_HEADER",
    "MCP_PROTOCOL_VERSION_HEADER",
    "MCP_SESSION_ID_HEADER",
    "REQUEST_CANCELLED",
    "EventCallback",
    "EventId",
    "EventMessage",
    "EventStore",
    "StreamId",
    "StreamableHTTPServerTransport",
]

MCP_SESSION_ID_HEADER = "mcp-session-id"
MCP_PROTOCOL_VERSION_HEADER = "mcp-protocol-version"
LAST_EVENT_ID_HEADER = "last-event-id"
CONTENT_TYPE_JSON = "application/json"
CONTENT_TYPE_SSE = "text/event-stream"

StreamId = str
EventId = str


@dataclass
class EventMessage:
    """Message with the id of its event."""

    message: JSONRPCMessage
    event_id: str | None = None


EventCallback = Callable[[EventMessage], Awaitable[None]]


class EventStore(ABC):
    """Store of events, for programs that have one. It is not asked: Carrel replays from its own state."""

    @abstractmethod
    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Store an event."""

    @abstractmethod
    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Replay the events after one."""
