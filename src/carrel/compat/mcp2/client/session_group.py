"""Group of client sessions: the face of ``mcp.client.session_group`` 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, Field

from carrel.compat.mcp.client.stdio import StdioServerParameters
from carrel.compat.mcp2.client.context import ElicitationFnT, ListRootsFnT, LoggingFnT, MessageHandlerFnT, SamplingFnT
from carrel.compat.mcp2.client.session import ClientSession
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.types import Implementation
from carrel.compat.session_group import SessionGroup, SseServerParameters

__all__ = [
    "ClientSessionGroup",
    "ClientSessionParameters",
    "ServerParameters",
    "SseServerParameters",
    "StreamableHttpParameters",
]


class StreamableHttpParameters(BaseModel):
    """Server over Streamable HTTP: URL, headers, and limits in seconds. The size of an event has Carrel's limit."""

    url: str
    headers: dict[str, Any] | None = None
    timeout: float = 30.0
    sse_read_timeout: float = 300.0
    terminate_on_close: bool = True
    max_sse_event_size: int | None = Field(default=1024 * 1024, gt=0, exclude=True)


ServerParameters: TypeAlias = StdioServerParameters | SseServerParameters | StreamableHttpParameters


@dataclass
class ClientSessionParameters:
    """Arguments of a ``ClientSession``."""

    read_timeout_seconds: float | None = None
    sampling_callback: SamplingFnT | None = None
    elicitation_callback: ElicitationFnT | None = None
    list_roots_callback: ListRootsFnT | None = None
    logging_callback: LoggingFnT | None = None
    message_handler: MessageHandlerFnT | None = None
    client_info: Implementation | None = None


class ClientSessionGroup(SessionGroup):
    """Client of several servers."""

    session, parameters, information, error = ClientSession, ClientSessionParameters, "server_info", MCPError
