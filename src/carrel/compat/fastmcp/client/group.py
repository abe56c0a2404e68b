"""Group of clients, whose tools have the names of their servers in front."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from carrel.compat.fastmcp.client.client import CallToolResult, Client
from carrel.compat.fastmcp.exceptions import NotFoundError

__all__ = ["ClientGroup", "ToolRoute"]


@dataclass(frozen=True)
class ToolRoute:
    """Client that has a tool, and the tool's name there."""

    client: Client[Any]
    name: str


class ClientGroup:
    """Clients by the names of their servers. Enter it to connect all of them."""

    def __init__(self, clients: Mapping[str, Client[Any]]) -> None:
        self._clients = dict(clients)
        self._leave = AsyncExitStack()

    @property
    def clients(self) -> Mapping[str, Client[Any]]:
        """The clients."""
        return MappingProxyType(self._clients)

    @classmethod
    def from_config(cls, config: Any, **_: Any) -> ClientGroup:
        """Return the clients of the servers in a configuration."""
        servers = config if isinstance(config, dict) else {"mcpServers": config.mcpServers}
        servers = servers.get("mcpServers", servers)
        return cls({name: Client({"mcpServers": {name: server}}) for name, server in servers.items()})

    async def __aenter__(self) -> ClientGroup:
        try:
            for client in self._clients.values():
                await self._leave.enter_async_context(client)
        except BaseException:
            await self._leave.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        leave, self._leave = self._leave, AsyncExitStack()
        await leave.aclose()

    async def list_tools(self, **_: Any) -> list[Any]:
        """Return the tools of all servers, as ``SERVER_TOOL``."""
        return [
            tool.model_copy(update={"name": f"{server}_{tool.name}"})
            for server, client in self._clients.items()
            for tool in await client.list_tools()
        ]

    async def resolve_tool(self, name: str) -> ToolRoute:
        """Return the client of a tool, and its name there.

        Raises:
            NotFoundError: no server has this tool.
        """
        for server, client in self._clients.items():
            inner = name.removeprefix(f"{server}_")
            if inner != name and any(tool.name == inner for tool in await client.list_tools()):
                return ToolRoute(client, inner)
        raise NotFoundError(f"Unknown tool: {name!r}")

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> CallToolResult:
        """Call a tool of one of the servers."""
        route = await self.resolve_tool(name)
        return await route.client.call_tool(route.name, arguments, **options)

    async def call_tool_mcp(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        """Call a tool of one of the servers, and return the result of the protocol."""
        route = await self.resolve_tool(name)
        return await route.client.call_tool_mcp(route.name, arguments, **options)
