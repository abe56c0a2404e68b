"""Event stores of programs, and headers of Streamable HTTP."""

from carrel.compat.mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from carrel.compat.mcp2.shared.inbound import MCP_PROTOCOL_VERSION_HEADER

__all__ = [
    "LAST_EVENT_ID_HEADER",
    "MCP_PROTOCOL_VERSION_HEADER",
    "MCP_SESSION_ID_HEADER",
    "EventCallback",
    "EventId",
    "EventMessage",
    "EventStore",
    "StreamId",
]

MCP_SESSION_ID_HEADER = "mcp-session-id"
LAST_EVENT_ID_HEADER = "last-event-id"
