"""Handlers of requests: from the low-level server to the methods of ``FastMCP``, with results of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import AnyUrl, BaseModel

from carrel.compat.application import Application, notifications, request_ctx
from carrel.compat.fastmcp.apps.config import UI_EXTENSION_ID
from carrel.compat.fastmcp.apps.prefab import renderers
from carrel.compat.fastmcp.exceptions import FastMCPError, NotFoundError, ValidationError
from carrel.compat.fastmcp.server.background import TASKS_CAPABILITY, declares_tasks, serve_tasks
from carrel.compat.fastmcp.utilities.json_schema import dereference_refs
from carrel.compat.fastmcp.utilities.pagination import paginate_sequence
from carrel.compat.fastmcp.utilities.versions import VersionSpec, dedupe_with_versions
from carrel.compat.generation import fastmcp_generation, fastmcp_version, keeps_references
from carrel.compat.mcp import types
from carrel.compat.mcp.server.lowlevel.server import NotificationOptions, Server
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types.base import INTERNAL_ERROR, INVALID_PARAMS, ErrorData
from carrel.compat.mcp2.server.caching import CacheHint

__all__ = ["LowLevelServer", "newest", "register", "wanted"]

T = TypeVar("T", bound=Any)
RESOURCE_NOT_FOUND = -32002


class LowLevelServer(Server[Any, Any]):
    """Low-level server, which declares that all lists may change, unless the options name some of them."""

    experimental: dict[str, dict[str, Any]] | None = None
    """Experimental capabilities that the program declares."""
    begun: Callable[[], None] | None = None
    """Called before the server is served."""
    cache_hints: dict[str, CacheHint] | None = None
    """Freshness hint of each method with cacheable results."""

    app: Any = None
    """The ``FastMCP`` that answers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.bundled: set[str] = set()

    @property
    def _request_handlers(self) -> dict[str, Any]:
        """Handlers by method."""
        kinds: dict[Any, Any] = self.request_handlers
        return {kind.model_fields["method"].default: each for kind, each in kinds.items()}

    def add_notification_handler(self, method: str, params_type: type[BaseModel], handler: Any) -> None:
        """Register a handler of a notification, which gets the context of the session and the parameters.

        Raises:
            ValueError: clients send no such notification.
        """
        kind = notifications().get(method)
        if kind is None:
            raise ValueError(f"no client sends {method!r}")

        async def handle(notification: Any) -> None:
            given = {} if notification.params is None else notification.params.model_dump(by_alias=True)
            await handler(request_ctx.get(None), params_type.model_validate(given))

        self.notification_handlers[kind] = handle

    def application(self, options: Any = None, *, raise_exceptions: bool = False) -> Application:
        """Return a server of Carrel that answers with the handlers of this one."""
        if self.begun is not None:
            self.begun()
        found = super().application(options, raise_exceptions=raise_exceptions)
        for hint in (self.cache_hints or {}).values():  # all are equal
            description = found.endpoint.description
            description.ttl_ms, description.scope = hint.ttl_ms, hint.scope
        if declares_tasks(self.app):
            serve_tasks(self.app, found)
        return found

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
    ) -> Any:
        """Return the server's name, version, capabilities and instructions."""
        options = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(options, experimental_capabilities)

    def stdio_options(self) -> Any:
        """Return how the server declares itself on stdio: before 4.1, the list of tools alone may change there."""
        before = fastmcp_generation() < 4 or fastmcp_version().startswith("4.0.")
        return self.create_initialization_options(NotificationOptions(tools_changed=True) if before else None)

    def get_capabilities(
        self, notification_options: NotificationOptions, experimental_capabilities: dict[str, dict[str, Any]]
    ) -> types.ServerCapabilities:
        """Return the capabilities that follow from the handlers. Version 3 declares apps, and tasks, in 2025-11-25."""
        found = super().get_capabilities(
            notification_options, {**(self.experimental or {}), **experimental_capabilities}
        )
        if fastmcp_generation() > 3:
            found.experimental = found.experimental or None
            return found
        if fastmcp_generation() == 3:
            if declares_tasks(self.app):
                found.tasks = types.ServerTasksCapability.model_validate(TASKS_CAPABILITY)
            return found.model_copy(update={"extensions": {UI_EXTENSION_ID: {}}})
        return found

    def discovery(self) -> types.ServerCapabilities | None:
        """Return the capabilities for clients of 2026-07-28, which version 4 declares without changes of lists."""
        if fastmcp_generation() < 4:
            return None
        found = self.get_capabilities(NotificationOptions(), {})
        declared = {identifier: extension.settings() for identifier, extension in self.extensions.items()}
        return found.model_copy(update={"extensions": {UI_EXTENSION_ID: {}, **declared}})


def register(app: Any, low_level: LowLevelServer, *, strict: bool, page: int | None, inline: bool) -> None:
    """Register handlers that answer with the methods of a ``FastMCP``."""

    async def list_tools(request: types.ListToolsRequest) -> types.ListToolsResult:
        tools = await app._list_tools_mcp()
        if inline and not keeps_references():
            for tool in tools:
                tool.inputSchema = dereference_refs(tool.inputSchema)
                tool.outputSchema = tool.outputSchema and dereference_refs(tool.outputSchema)
        found, cursor = _page(tools, request, page)
        return types.ListToolsResult(tools=found, nextCursor=cursor)

    async def list_resources(request: types.ListResourcesRequest) -> types.ListResourcesResult:
        resources = [*newest(await app.list_resources()), *renderers(await app.list_tools(run_middleware=False))]
        found, cursor = _page([each.to_mcp_resource() for each in resources], request, page)
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
            for renderer in renderers(await app.list_tools(run_middleware=False)):
                if str(renderer.uri) == str(uri):
                    return types.ServerResult.model_construct((await renderer.read_result()).to_mcp_result(uri))
            result = await app.read_resource(str(uri), version=wanted())
        except NotFoundError as error:
            raise McpError(_not_found(str(uri), error)) from None
        except FastMCPError as error:
            raise _response(error) from None
        return types.ServerResult.model_construct(result.to_mcp_result(uri))

    async def get_prompt(name: str, arguments: dict[str, Any] | None) -> types.GetPromptResult:
        try:
            result = await app.render_prompt(name, arguments, version=wanted())
        except (FastMCPError, NotFoundError) as error:
            raise _response(error) from None
        return result.to_mcp_prompt_result()

    low_level.app = app
    low_level.list_tools()(list_tools)
    low_level.list_resources()(list_resources)
    low_level.list_prompts()(list_prompts)
    low_level.request_handlers[types.ListResourceTemplatesRequest] = list_templates
    low_level.call_tool(validate_input=strict)(call_tool)
    low_level.request_handlers[types.ReadResourceRequest] = read_resource
    low_level.get_prompt()(get_prompt)
    if fastmcp_generation() > 2:
        low_level.set_logging_level()(app._set_log_level)


def _not_found(uri: str, error: NotFoundError) -> ErrorData:
    """Return the error response of a read of an unknown resource."""
    if fastmcp_generation() > 3:
        return ErrorData(code=INVALID_PARAMS, message=f"Resource not found: {uri!r}", data={"uri": uri})
    if fastmcp_generation() == 2:
        return ErrorData(code=0, message=str(error))
    return ErrorData(code=RESOURCE_NOT_FOUND, message=f"Resource not found: {error}")


def _response(error: Exception) -> Exception:
    """Return the error response of version 4 for an exception. Version 3 answers with the exception itself."""
    if fastmcp_generation() < 4:
        return error
    code = INVALID_PARAMS if isinstance(error, NotFoundError | ValidationError) else INTERNAL_ERROR
    return McpError(ErrorData(code=code, message=str(error)))


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
