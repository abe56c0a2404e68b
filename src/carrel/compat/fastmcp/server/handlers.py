"""Handlers of requests: from the low-level server to the methods of ``FastMCP``, with results of the protocol."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import AnyUrl

from carrel.compat.fastmcp.exceptions import NotFoundError
from carrel.compat.fastmcp.utilities.json_schema import dereference_refs
from carrel.compat.mcp import types
from carrel.compat.mcp.server.lowlevel.server import NotificationOptions, Server
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types.base import INVALID_PARAMS, ErrorData

__all__ = ["LowLevelServer", "register"]

T = TypeVar("T")
RESOURCE_NOT_FOUND = -32002


class LowLevelServer(Server[Any, Any]):
    """Low-level server, which declares that all lists may change; on stdio it is the list of tools alone."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
    ) -> Any:
        """Return the server's name, version, capabilities and instructions."""
        options = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(options, experimental_capabilities)


def register(app: Any, low_level: LowLevelServer, *, strict: bool, page: int | None, inline: bool) -> None:
    """Register handlers that answer with the methods of a ``FastMCP``."""

    async def list_tools(request: types.ListToolsRequest) -> types.ListToolsResult:
        tools = [each.to_mcp_tool() for each in await app.list_tools()]
        if inline:
            for tool in tools:
                tool.inputSchema = dereference_refs(tool.inputSchema)
                tool.outputSchema = tool.outputSchema and dereference_refs(tool.outputSchema)
        found, cursor = _page(tools, request, page)
        return types.ListToolsResult(tools=found, nextCursor=cursor)

    async def list_resources(request: types.ListResourcesRequest) -> types.ListResourcesResult:
        found, cursor = _page([each.to_mcp_resource() for each in await app.list_resources()], request, page)
        return types.ListResourcesResult(resources=found, nextCursor=cursor)

    async def list_prompts(request: types.ListPromptsRequest) -> types.ListPromptsResult:
        found, cursor = _page([each.to_mcp_prompt() for each in await app.list_prompts()], request, page)
        return types.ListPromptsResult(prompts=found, nextCursor=cursor)

    async def list_templates(request: types.ListResourceTemplatesRequest) -> types.ServerResult:
        templates = [each.to_mcp_template() for each in await app.list_resource_templates()]
        found, cursor = _page(templates, request, page)
        result = types.ListResourceTemplatesResult(resourceTemplates=found, nextCursor=cursor)
        return types.ServerResult.model_construct(result)

    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        result = await app.call_tool(name, arguments)
        if result.meta is not None or result.is_error:
            return result.to_mcp_result()
        if result.structured_content is None:
            return result.content
        return result.content, result.structured_content

    async def read_resource(request: types.ReadResourceRequest) -> types.ServerResult:
        uri: AnyUrl = request.params.uri
        try:
            result = await app.read_resource(str(uri))
        except NotFoundError as error:
            message = f"Resource not found: {error}"
            raise McpError(ErrorData(code=RESOURCE_NOT_FOUND, message=message)) from None
        return types.ServerResult.model_construct(result.to_mcp_result(uri))

    async def get_prompt(name: str, arguments: dict[str, Any] | None) -> types.GetPromptResult:
        found: types.GetPromptResult = (await app.render_prompt(name, arguments)).to_mcp_prompt_result()
        return found

    low_level.list_tools()(list_tools)
    low_level.list_resources()(list_resources)
    low_level.list_prompts()(list_prompts)
    low_level.request_handlers[types.ListResourceTemplatesRequest] = list_templates
    low_level.call_tool(validate_input=strict)(call_tool)
    low_level.request_handlers[types.ReadResourceRequest] = read_resource
    low_level.get_prompt()(get_prompt)
    low_level.set_logging_level()(app._set_log_level)


def _page(items: Sequence[T], request: Any, size: int | None) -> tuple[list[T], str | None]:
    """Return a page of a list, and the cursor of the next one."""
    if size is None:
        return list(items), None
    cursor = None if request is None or request.params is None else request.params.cursor
    start = 0
    if cursor is not None:
        try:
            start = int(base64.urlsafe_b64decode(cursor))
        except (ValueError, binascii.Error):
            raise McpError(ErrorData(code=INVALID_PARAMS, message=f"Invalid cursor: {cursor}")) from None
    end = start + size
    following = base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(items) else None
    return list(items[start:end]), following
