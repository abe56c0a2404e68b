"""Servers of a configuration: their time limits, alone and behind a proxy, and their transports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel.compat.fastmcp import Client, ClientGroup, FastMCP
from carrel.compat.fastmcp.client.transports import FastMCPTransport
from carrel.compat.fastmcp.exceptions import McpError, ToolError
from carrel.compat.fastmcp.mcp_config import MCPConfig, StdioMCPServer
from carrel.compat.mcp2.server.mcpserver import MCPServer


def _server() -> FastMCP:
    mcp = FastMCP("patient")

    @mcp.tool(tags={"public"})
    async def waits() -> None:
        await asyncio.Event().wait()

    @mcp.tool(tags={"public"})
    def add(a: int, b: int) -> int:
        return a + b

    return mcp


class Entry(StdioMCPServer):
    """Server of a configuration that runs in this process."""

    command: str = "unused"

    def to_transport(self) -> Any:
        return FastMCPTransport(_server())


async def test_the_limit_of_a_server_in_milliseconds_holds_for_its_requests() -> None:
    config = MCPConfig.model_construct(mcpServers={"one": Entry(timeout=1500)})
    async with Client(config) as client:
        with pytest.raises(McpError, match=r"1\.5 seconds"):
            await client.call_tool("waits")
        assert (await client.call_tool("add", {"a": 1, "b": 2}, timeout=30)).data == 3


async def test_each_of_several_servers_has_its_own_limit() -> None:
    config = MCPConfig.model_construct(mcpServers={"one": Entry(timeout=1500), "two": Entry()})
    async with Client(config) as client:
        with pytest.raises(ToolError, match=r"1\.5 seconds"):
            await client.call_tool("one_waits")
        assert (await client.call_tool("two_add", {"a": 1, "b": 2})).data == 3


async def test_a_limit_of_zero_is_none_and_replaces_the_limit_of_the_client() -> None:
    config = MCPConfig.model_construct(mcpServers={"one": Entry(timeout=0)})
    async with Client(config, timeout=0.02) as client:
        calling = asyncio.create_task(client.call_tool("waits"))
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
        done, _ = await asyncio.wait([calling], timeout=0.2)
        assert not done
        calling.cancel()


async def test_a_group_has_the_transports_of_the_entries() -> None:
    config = MCPConfig.model_construct(mcpServers={"one": Entry(), "two": Entry()})
    async with ClientGroup.from_config(config) as group:
        assert (await group.call_tool("two_add", {"a": 1, "b": 2})).data == 3


async def test_a_server_of_mcp_2_may_be_the_target() -> None:
    server = MCPServer("newer")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    async with Client(server) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
