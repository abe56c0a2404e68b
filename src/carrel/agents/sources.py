"""ToolSource: where the tools for a model come from; ClientTools: the tools of the server of one client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Unpack
from weakref import WeakKeyDictionary

from carrel.client.client import Client
from carrel.client.options import CallOptions
from carrel.client.session import ClientSession
from carrel.protocol.client import ServerNotification
from carrel.wire.tools import CallToolResult, Tool

__all__ = ["ClientTools", "ToolSource"]


class ToolSource(Protocol):
    """Tools of one or several servers."""

    @property
    def changed(self) -> bool:
        """Whether the list may differ from the one that was returned last."""

    async def list_tools(self) -> Sequence[tuple[str, Tool]]:
        """Return the tools, each with the name of its server."""

    async def call_tool(
        self, server: str, name: str, arguments: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Call a tool of a server. Raises ``MCPError`` if there is no result."""


class ListVersion:
    """Count of the changes of the list of tools of a session's server. Observes the session."""

    def __init__(self) -> None:
        self.number = 0

    def notified(self, notification: ServerNotification) -> None:
        """Count a change."""
        if notification.event == "tools_list_changed":
            self.number += 1

    def connected(self) -> None:
        """Count a new connection, whose list may be another one."""
        self.number += 1

    def missed(self) -> None:
        """Count notifications that may have been missed."""
        self.number += 1


#: One observer per session, however often its tools are listed.
VERSIONS: WeakKeyDictionary[ClientSession, ListVersion] = WeakKeyDictionary()


class ClientTools:
    """Tools of the server of one client. The name of the server is empty."""

    def __init__(self, client: Client) -> None:
        self._client = client
        version = VERSIONS.get(client.session)
        if version is None:
            version = VERSIONS[client.session] = ListVersion()
            client.session.observers.append(version)
        self._version = version
        self._listed: int | None = None

    @property
    def changed(self) -> bool:
        """Whether the list may differ from the one that was returned last."""
        return self._listed != self._version.number

    async def list_tools(self) -> Sequence[tuple[str, Tool]]:
        """Return the tools."""
        number = self._version.number
        found = [("", tool) for tool in await self._client.list_tools()]
        self._listed = number
        return found

    async def call_tool(
        self, server: str, name: str, arguments: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> CallToolResult:
        """Call a tool."""
        return await self._client.call_tool(name, arguments, **options)
