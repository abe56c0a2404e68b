"""Handlers of requests: from the low-level server to the methods of ``FastMCP``, with results of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import AnyUrl

from carrel.compat.application import request_ctx
from carrel.compat.fastmcp.apps.config import UI_EXTENSION_ID
from carrel.compat.fastmcp.exceptions import NotFoundError
from carrel.compat.fastmcp.generation import generation
from carrel.compat.fastmcp.utilities.json_schema import dereference_refs
from carrel.compat.fastmcp.utilities.pagination import paginate_sequence
from carrel.compat.fastmcp.utilities.versions import VersionSpec, dedupe_with_versions
from carrel.compat.mcp import types
from carrel.compat.mcp.server.lowlevel.server import NotificationOptions, Server
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types.base import INVALID_PARAMS, ErrorData

__all__ = ["LowLevelServer", "newest", "register", "wanted"]

T = TypeVar("T", bound=Any)
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

    def get_capabilities(
        self, notification_options: NotificationOptions, experimental_capabilities: dict[str, dict[str, Any]]
    ) -> types.ServerCapabilities:
        """Return the capabilities that follow from the handlers, and apps; 4.x names no empty ``experimental``."""
        found = super().get_capabilities(notification_options, experimental_capabilities)
        found.extensions = {UI_EXTENSION_ID: {}}
        if generation() == 4 and not experimental_capabilities:
            found.experimental = None
        return found


def register(app: Any, low_level: LowLevelServer, *, strict: bool, page: int | None, inline: bool) -> None:
    """Register handlers that answer with the methods of a ``FastMCP``."""

    async def list_tools(request: types.ListToolsRequest) -> types.ListToolsResult:
        tools = await app._list_tools_mcp()
        if inline:
            for tool in tools:
                tool.inputSchema = dereference_refs(tool.inputSchema)
                tool.outputSchema = tool.outputSchema and dereference_refs(tool.outputSchema)
        found, cursor = _page(tools, request, page)
        return types.ListToolsResult(tools=found, nextCursor=cursor)

    async def list_resources(request: types.ListResourcesRequest) -> types.ListResourcesResult:
        found, cursor = _page([each.to_mcp_resource() for each in newest(await app.list_resources())], request, page)
        return types.ListResourcesResult(resources=found, nextCursor=cursor)

    async def list_prompts(request: types.ListPromptsRequest) -> types.ListPromptsResult:
        found, cursor = _page([each.to_mcp_prompt() for each in newest(await app.list_prompts())], request, page)
        return types.ListPromptsResult(prompts=found, nextCursor=cursor)

    async def list_templates(request: types.ListResourceTemplatesRequest) -> types.ServerResult:
        templates = [each.to_mcp_template() for each in newest(await app.list_resource_templates())]
        found, cursor = _page(templates, request, page)
        result = types.ListResourceTemplatesResult(resourceTemplates=found, nextCursor=cursor)
        return types.ServerResult.model_construct(result)

    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        return await app._call_tool_mcp(name, arguments)

    async def read_resource(request: types.ReadResourceRequest) -> types.ServerResult:
        uri: AnyUrl = request.params.uri
        try:
            result = await app.read_resource(str(uri), version=wanted())
        except NotFoundError as error:
            message = f"Resource not found: {error}"
            raise McpError(ErrorData(code=RESOURCE_NOT_FOUND, message=message)) from None
        return types.ServerResult.model_construct(result.to_mcp_result(uri))

    async def get_prompt(name: str, arguments: dict[str, Any] | None) -> types.GetPromptResult:
        result = await app.render_prompt(name, arguments, version=wanted())
        return result.to_mcp_prompt_result()

    low_level.list_tools()(list_tools)
    low_level.list_resources()(list_resources)
    low_level.list_prompts()(list_prompts)
    low_level.request_handlers[types.ListResourceTemplatesRequest] = list_templates
    low_level.call_tool(validate_input=strict)(call_tool)
    low_level.request_handlers[types.ReadResourceRequest] = read_resource
    low_level.get_prompt()(get_prompt)
    low_level.set_logging_level()(app._set_log_level)


def newest(components: Sequence[T]) -> list[T]:
    """Return the newest version of each component."""
    return dedupe_with_versions(components, lambda each: each.identifier)


def wanted() -> VersionSpec | None:
    """Return the version that the request asks for in its ``_meta``."""
    context = request_ctx.get(None)
    meta = None if context is None else context.meta
    own = getattr(meta, "fastmcp", None)
    version = own.get("version") if isinstance(own, dict) else None
    if isinstance(version, dict):
        return VersionSpec(**{key: version.get(key) for key in ("gte", "lt", "eq")})
    return VersionSpec(eq=str(version)) if version else None


def _page(items: Sequence[T], request: Any, size: int | None) -> tuple[list[T], str | None]:
    """Return a page of a list, and the cursor of the next one."""
    if size is None:
        return list(items), None
    cursor = None if request is None or request.params is None else request.params.cursor
    try:
        return paginate_sequence(items, cursor, size)
    except ValueError as error:
        raise McpError(ErrorData(code=INVALID_PARAMS, message=str(error))) from None
