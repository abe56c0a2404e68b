"""Tools that call other tools several times in one call."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from carrel.compat.fastmcp.client.client import Client
from carrel.compat.fastmcp.client.transports import FastMCPTransport
from carrel.compat.fastmcp.contrib.mcp_mixin import MCPMixin, mcp_tool
from carrel.compat.mcp.types import CallToolResult, TextContent

__all__ = ["BulkToolCaller", "CallToolRequest", "CallToolRequestResult"]

OWN = ("call_tools_bulk", "call_tool_bulk")
ITSELF = f"BulkToolCaller cannot call itself. The tools '{OWN[0]}' and '{OWN[1]}' are disallowed."


class CallToolRequest(BaseModel):
    """Call of a tool."""

    tool: str = Field(description="The name of the tool to call.")
    arguments: dict[str, Any] = Field(description="A dictionary containing the arguments for the tool call.")


class CallToolRequestResult(CallToolResult):  # type: ignore[misc]
    """Result of a call, with the call."""

    tool: str = Field(description="The name of the tool that was called.")
    arguments: dict[str, Any] = Field(description="The arguments used for the tool call.")


class BulkToolCaller(MCPMixin):
    """Object whose tools call the other tools of its server."""

    def register_tools(self, mcp_server: Any, prefix: str | None = None, separator: str = "_") -> None:
        """Register the tools."""
        self.connection = FastMCPTransport(mcp_server)
        super().register_tools(mcp_server, prefix, separator)

    @mcp_tool()
    async def call_tools_bulk(
        self, tool_calls: list[CallToolRequest], continue_on_error: bool = True
    ) -> list[CallToolRequestResult]:
        """Call several tools, each with its arguments."""
        return await self._call_all([(each.tool, each.arguments) for each in tool_calls], continue_on_error)

    @mcp_tool()
    async def call_tool_bulk(
        self,
        tool: str,
        tool_arguments: list[dict[str, str | int | float | bool | None]],
        continue_on_error: bool = True,
    ) -> list[CallToolRequestResult]:
        """Call one tool several times, with several arguments."""
        return await self._call_all([(tool, each) for each in tool_arguments], continue_on_error)

    async def _call_all(
        self, calls: list[tuple[str, dict[str, Any]]], continue_on_error: bool
    ) -> list[CallToolRequestResult]:
        results = []
        for tool, arguments in calls:
            results.append(await self._call(tool, arguments))
            if results[-1].isError and not continue_on_error:
                break
        return results

    async def _call(self, tool: str, arguments: dict[str, Any]) -> CallToolRequestResult:
        content: Any = [TextContent(type="text", text=ITSELF)]
        failed = True
        if tool not in OWN:
            async with Client[Any](self.connection) as client:
                found = await client.call_tool_mcp(tool, arguments)
            content, failed = found.content, found.isError
        return CallToolRequestResult(tool=tool, arguments=arguments, isError=failed, content=content)
