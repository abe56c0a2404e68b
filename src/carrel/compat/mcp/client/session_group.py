"""Group of client sessions: the face of ``mcp.client.session_group``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from pydantic import BaseModel

from carrel.compat.mcp.client.session import Callback, ClientSession
from carrel.compat.mcp.client.stdio import StdioServerParameters
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types import CallToolResult
from carrel.compat.mcp.types.base import Implementation
from carrel.compat.session_group import SessionGroup, SseServerParameters

__all__ = [
    "ClientSessionGroup",
    "ClientSessionParameters",
    "ServerParameters",
    "SseServerParameters",
    "StreamableHttpParameters",
]


class StreamableHttpParameters(BaseModel):
    """Server over Streamable HTTP: URL, headers, and limits."""

    url: str
    headers: dict[str, Any] | None = None
    timeout: timedelta = timedelta(seconds=30)
    sse_read_timeout: timedelta = timedelta(seconds=300)
    terminate_on_close: bool = True


ServerParameters: TypeAlias = StdioServerParameters | SseServerParameters | StreamableHttpParameters


@dataclass
class ClientSessionParameters:
    """Arguments of a ``ClientSession``."""

    read_timeout_seconds: timedelta | None = None
    sampling_callback: Callback | None = None
    elicitation_callback: Callback | None = None
    list_roots_callback: Callback | None = None
    logging_callback: Callback | None = None
    message_handler: Callback | None = None
    client_info: Implementation | None = None


class ClientSessionGroup(SessionGroup):
    """Client of several servers."""

    session, parameters, information, error = ClientSession, ClientSessionParameters, "serverInfo", McpError

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: timedelta | None = None,
        progress_callback: Callback | None = None,
        *,
        meta: dict[str, Any] | None = None,
        args: dict[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool by its name in the group. ``args`` is an earlier name of ``arguments``."""
        found: CallToolResult = await super().call_tool(
            name,
            arguments if args is None else args,
            read_timeout_seconds=read_timeout_seconds,
            progress_callback=progress_callback,
            meta=meta,
        )
        return found
