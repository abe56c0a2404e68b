"""MCPServer: server with decorators for tools, resources and prompts, over the low-level server."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pydantic_core
from pydantic import AnyUrl, BaseModel, ConfigDict, ValidationError

from carrel.compat.loggers import get_logger
from carrel.compat.mcp.server.lowlevel.helper_types import ReadResourceContents
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.caching import CacheableMethod, CacheHint
from carrel.compat.mcp2.server.context import ServerMiddleware, ServerRequestContext
from carrel.compat.mcp2.server.extension import (
    Extension,
    MethodBinding,
    ResourceBinding,
    ToolBinding,
    compose_tool_call_handler,
    only_in_revisions,
    require_client_extension,
    validate_extension_identifier,
)
from carrel.compat.mcp2.server.lowlevel.server import LifespanResultT, lifespan
from carrel.compat.mcp2.server.lowlevel.server import Server as LowLevelServer
from carrel.compat.mcp2.server.mcpserver.context import Context
from carrel.compat.mcp2.server.mcpserver.exceptions import (
    ResourceError,
    ResourceNotFoundError,
    ToolError,
    UnexpectedResourceError,
    UnexpectedToolError,
)
from carrel.compat.mcp2.server.mcpserver.prompts.manager import PromptManager
from carrel.compat.mcp2.server.mcpserver.resources.resource_manager import ResourceManager
from carrel.compat.mcp2.server.mcpserver.resources.security import DEFAULT_RESOURCE_SECURITY, ResourceSecurity
from carrel.compat.mcp2.server.mcpserver.running import Running
from carrel.compat.mcp2.server.mcpserver.tools import Tool, ToolManager
from carrel.compat.mcp2.server.mcpserver.utilities.logging import configure_logging
from carrel.compat.mcp2.server.request_state import (
    AESGCMRequestStateCodec,
    InvalidRequestState,
    RequestStateBoundary,
    RequestStateCodec,
    RequestStateSecurity,
    authenticated_principal,
)
from carrel.compat.mcp2.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.shared.uri_template import UriTemplate
from carrel.compat.mcp2.types.base import PaginatedRequestParams
from carrel.compat.mcp2.types.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
)

if TYPE_CHECKING:
    from carrel.compat.mcp2.server.mcpserver.prompts.base import Prompt
    from carrel.compat.mcp2.server.mcpserver.resources.base import Resource

__all__ = [
    "AESGCMRequestStateCodec",
    "Context",
    "Extension",
    "Icon",
    "InvalidRequestState",
    "MCPServer",
    "MethodBinding",
    "RequestStateBoundary",
    "RequestStateCodec",
    "RequestStateSecurity",
    "ResourceBinding",
    "Settings",
    "ToolBinding",
    "authenticated_principal",
    "require_client_extension",
]

logger = get_logger(__name__)

Icon: Any = types.Icon
Function: TypeAlias = Callable[..., Any]
Decorator: TypeAlias = Callable[[Any], Any]
LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


class Settings(BaseModel):
    """Settings of a server, as given to its constructor."""

    model_config = ConfigDict(defer_build=True)

    debug: bool = False
    log_level: LogLevel = "INFO"
    warn_on_duplicate_resources: bool = True
    warn_on_duplicate_tools: bool = True
    warn_on_duplicate_prompts: bool = True
    dependencies: list[str] = []
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None
    auth: Any = None


class MCPServer(Running[LifespanResultT]):
    """Server with decorators for tools, resources and prompts.

    Raises:
        ValueError: options of authorization or of request states do not fit together.
    """

    def __init__(
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: list[types.Icon] | None = None,
        version: str = "",
        auth_server_provider: Any = None,
        token_verifier: Any = None,
        *,
        tools: list[Tool] | None = None,
        resources: list[Resource] | None = None,
        extensions: Sequence[Extension] | None = None,
        resource_security: ResourceSecurity = DEFAULT_RESOURCE_SECURITY,
        request_state_security: RequestStateSecurity | None = None,
        cache_hints: Mapping[CacheableMethod, CacheHint] | None = None,
        subscriptions: SubscriptionBus | Literal[False] | None = None,
        middleware: Sequence[ServerMiddleware[Any]] | None = None,
        dependencies: list[str] | None = None,
        **settings: Any,
    ) -> None:
        unknown = settings.keys() - Settings.model_fields.keys()
        if unknown:
            raise TypeError(f"MCPServer.__init__() got an unexpected keyword argument {min(unknown)!r}")
        self.settings = Settings(dependencies=dependencies or [], **settings)
        self.dependencies = self.settings.dependencies
        self._resource_security = resource_security
        self._tool_manager = ToolManager(self.settings.warn_on_duplicate_tools, tools=tools)
        self._resource_manager = ResourceManager(self.settings.warn_on_duplicate_resources, resources=resources)
        self._prompt_manager = PromptManager(self.settings.warn_on_duplicate_prompts)
        self._subscriptions: SubscriptionBus = subscriptions or InMemorySubscriptionBus()
        self._lowlevel_server: LowLevelServer[LifespanResultT] = LowLevelServer(
            name or "mcp-server",
            title=title,
            description=description,
            instructions=instructions,
            website_url=website_url,
            icons=icons,
            version=version,
            cache_hints=cache_hints,
            get_tool_input_schema=self._tool_input_schema,
            lifespan=lifespan if self.settings.lifespan is None else self._live,  # type: ignore[arg-type]
            on_list_tools=self._handle_list_tools,
            on_call_tool=self._handle_call_tool,
            on_list_resources=self._handle_list_resources,
            on_read_resource=self._handle_read_resource,
            on_list_resource_templates=self._handle_list_resource_templates,
            on_list_prompts=self._handle_list_prompts,
            on_get_prompt=self._handle_get_prompt,
            on_subscriptions_listen=None if subscriptions is False else ListenHandler(self._subscriptions),
        )
        if request_state_security is not None and not name and request_state_security.audience is None:
            raise ValueError(
                "request_state_security is configured but this server has no name: give it one, "
                'MCPServer("my-service", ...), or set RequestStateSecurity(audience=...)'
            )
        security = request_state_security or RequestStateSecurity.ephemeral()
        self.middleware.append(RequestStateBoundary(security, default_audience=self.name))
        self.middleware.extend(middleware or ())
        self._check_authorization(auth_server_provider, token_verifier)
        self._auth_server_provider = auth_server_provider
        self._token_verifier = token_verifier
        self._lowlevel_server.guard = lambda _: self._apps({}).protection().guarded()
        self._custom_starlette_routes: list[Any] = []
        configure_logging(self.settings.log_level)
        self._extensions: list[Extension] = []
        for extension in extensions or ():
            self._apply_extension(extension)
        if any(type(each).intercept_tool_call is not Extension.intercept_tool_call for each in self._extensions):
            handler = compose_tool_call_handler(self._extensions, self._handle_call_tool)
            self._lowlevel_server.add_request_handler("tools/call", types.CallToolRequestParams, handler)

    @asynccontextmanager
    async def _live(self, _: Any) -> AsyncIterator[Any]:
        assert self.settings.lifespan is not None
        async with self.settings.lifespan(self) as state:
            yield state

    def _check_authorization(self, provider: Any, verifier: Any) -> None:
        if self.settings.auth is None:
            if provider or verifier:
                raise ValueError("Cannot specify auth_server_provider or token_verifier without auth settings")
        elif provider and verifier:
            raise ValueError("Cannot specify both auth_server_provider and token_verifier")
        elif not (provider or verifier):
            raise ValueError("Must specify either auth_server_provider or token_verifier when auth is enabled")

    def _apply_extension(self, extension: Extension) -> None:
        identifier = getattr(extension, "identifier", None)
        validate_extension_identifier(identifier, owner=type(extension).__name__)
        if any(each.identifier == identifier for each in self._extensions):
            raise ValueError(f"Extension {identifier!r} is already registered")
        self._extensions.append(extension)
        for tool in extension.tools():
            self.add_tool(tool.fn, meta=tool.meta, **tool.kwargs)
        for resource in extension.resources():
            self.add_resource(resource.resource)
        for method in extension.methods():
            if self._lowlevel_server.get_request_handler(method.method) is not None:
                raise ValueError(
                    f"Extension {identifier!r} binds method {method.method!r}, which is already "
                    "registered; extension methods are additive and cannot replace another handler"
                )
            handler = method.handler if method.protocol_versions is None else only_in_revisions(method)
            self._lowlevel_server.add_request_handler(method.method, method.params_type, handler)
        self._lowlevel_server.extensions[extension.identifier] = extension.settings()

    # Handlers

    def _context(self, ctx: ServerRequestContext[Any, Any], params: Any) -> Context[Any, Any]:
        return Context(request_context=ctx, mcp_server=self, input_params=params, subscriptions=self._subscriptions)

    def _tool_input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self._tool_manager.get_tool(name)
        return None if tool is None else tool.parameters

    async def _handle_list_tools(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await self.list_tools())

    async def _handle_call_tool(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            return await self.call_tool(params.name, params.arguments or {}, self._context(ctx, params))
        except MCPError:
            raise
        except Exception as error:
            if not isinstance(error, ToolError) or isinstance(error, UnexpectedToolError):
                logger.exception("Tool %r raised an unexpected exception", params.name)
            elif isinstance(error.__cause__, ValidationError):
                fields = sorted({".".join(map(str, each["loc"])) for each in error.__cause__.errors()})
                logger.info("Tool %r rejected arguments: %r", params.name, fields)
            else:
                logger.info("Tool %r failed: %r", params.name, str(error))
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)

    async def _handle_list_resources(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=await self.list_resources())

    async def _handle_read_resource(
        self, ctx: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        try:
            found: Any = await self.read_resource(params.uri, self._context(ctx, params))
        except ResourceError as error:
            if isinstance(error, UnexpectedResourceError):
                logger.exception("Resource %r raised an unexpected exception", str(params.uri))
            else:
                logger.info("Resource %r failed: %r", str(params.uri), str(error))
            code = INVALID_PARAMS if isinstance(error, ResourceNotFoundError) else INTERNAL_ERROR
            raise MCPError(code, str(error), {"uri": str(params.uri)}) from None
        if isinstance(found, types.InputRequiredResult):
            return found
        return types.ReadResourceResult(contents=[_contents_of(params.uri, each) for each in found])

    async def _handle_list_resource_templates(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=await self.list_resource_templates())

    async def _handle_list_prompts(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=await self.list_prompts())

    async def _handle_get_prompt(
        self, ctx: ServerRequestContext[Any, Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        return await self.get_prompt(params.name, params.arguments, self._context(ctx, params))

    # Tools

    async def list_tools(self) -> list[types.Tool]:
        """Return all tools."""
        return [
            types.Tool(
                name=tool.name,
                title=tool.title,
                description=tool.description,
                input_schema=tool.parameters,
                output_schema=tool.output_schema,
                annotations=tool.annotations,
                icons=tool.icons,
                _meta=tool.meta,
            )
            for tool in self._tool_manager.list_tools()
        ]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool.

        Raises:
            ToolError: there is no such tool, or it failed.
        """
        context = context or Context(mcp_server=self, subscriptions=self._subscriptions)
        return await self._tool_manager.call_tool(name, arguments, context, convert_result=True)

    def add_tool(self, fn: Function, name: str | None = None, title: str | None = None, **details: Any) -> None:
        """Register a function as a tool. ``details`` are the arguments of ``tool``."""
        self._tool_manager.add_tool(fn, name, title=title, **details)

    def remove_tool(self, name: str) -> None:
        """Remove a tool.

        Raises:
            ToolError: there is no such tool.
        """
        self._tool_manager.remove_tool(name)

    def tool(
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: list[types.Icon] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
    ) -> Decorator:
        """Register the decorated function as a tool.

        Raises:
            TypeError: there are no parentheses.
        """
        _check_called(name, "tool")

        def decorator(fn: Function) -> Function:
            self.add_tool(
                fn,
                name,
                title,
                description=description,
                annotations=annotations,
                icons=icons,
                meta=meta,
                structured_output=structured_output,
            )
            return fn

        return decorator

    # Resources

    async def list_resources(self) -> list[types.Resource]:
        """Return all resources."""
        return [
            types.Resource(uri=each.uri, name=each.name or "", **_details(each))
            for each in self._resource_manager.list_resources()
        ]

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        """Return all resource templates."""
        return [
            types.ResourceTemplate(uri_template=each.uri_template, name=each.name, **_details(each))
            for each in self._resource_manager.list_templates()
        ]

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[Any, Any] | None = None
    ) -> Iterable[ReadResourceContents] | types.InputRequiredResult:
        """Read a resource, or return its questions to the client.

        Raises:
            ResourceError: there is no such resource, or it cannot be read.
        """
        context = context or Context(mcp_server=self, subscriptions=self._subscriptions)
        try:
            resource = await self._resource_manager.get_resource(uri, context)
            if isinstance(resource, types.InputRequiredResult):
                return resource
            content = await resource.read()
            if not isinstance(content, str | bytes):
                raise TypeError(f"Resource.read() must return str or bytes, not {type(content).__name__}")
            return [ReadResourceContents(content, resource.mime_type, resource.meta)]
        except (MCPError, ResourceError):
            raise
        except Exception as error:
            raise UnexpectedResourceError(f"Error reading resource {uri}") from error

    def add_resource(self, resource: Resource) -> None:
        """Register a resource."""
        self._resource_manager.add_resource(resource)

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        icons: list[types.Icon] | None = None,
        annotations: types.Annotations | None = None,
        meta: dict[str, Any] | None = None,
        security: ResourceSecurity | None = None,
    ) -> Decorator:
        """Register the decorated function as a resource, or as a template if the URI has variables.

        Raises:
            TypeError: there is no URI.
            ValueError: the parameters of the function are not the variables of the URI.
        """
        if callable(uri):
            raise TypeError(
                "The @resource decorator was used incorrectly. "
                "Did you forget to call it? Use @resource('uri') instead of @resource"
            )
        template = UriTemplate.parse(uri)
        details: dict[str, Any] = {
            "name": name,
            "title": title,
            "description": description,
            "mime_type": mime_type,
            "icons": icons,
            "annotations": annotations,
            "meta": meta,
        }

        def decorator(fn: Function) -> Function:
            from carrel.compat.mcp2.server.mcpserver.resources.templates import check_parameters
            from carrel.compat.mcp2.server.mcpserver.resources.types import FunctionResource

            check_parameters(fn, template)
            if template.variable_names:
                allowed = self._resource_security if security is None else security
                self._resource_manager.add_template(fn, uri, security=allowed, **details)
            else:
                self.add_resource(FunctionResource.from_function(fn, uri, **details))
            return fn

        return decorator

    # Prompts and completion

    async def list_prompts(self) -> list[types.Prompt]:
        """Return all prompts."""
        return [
            types.Prompt(
                name=prompt.name,
                title=prompt.title,
                description=prompt.description,
                arguments=[types.PromptArgument(**each.model_dump()) for each in prompt.arguments or ()],
                icons=prompt.icons,
            )
            for prompt in self._prompt_manager.list_prompts()
        ]

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """Return the messages of a prompt, or its questions to the client.

        Raises:
            ValueError: there is no such prompt, an argument is missing or wrong, or the function failed.
        """
        context = context or Context(mcp_server=self, subscriptions=self._subscriptions)
        try:
            prompt = self._prompt_manager.get_prompt(name)
            if prompt is None:
                raise ValueError(f"Unknown prompt: {name}")
            found = await prompt.render(arguments, context)
            if isinstance(found, types.InputRequiredResult):
                return found
            return types.GetPromptResult(
                description=prompt.description, messages=pydantic_core.to_jsonable_python(found)
            )
        except MCPError:
            raise
        except Exception as error:
            raise ValueError(str(error)) from error

    def add_prompt(self, prompt: Prompt) -> None:
        """Register a prompt."""
        self._prompt_manager.add_prompt(prompt)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt.

        Raises:
            ValueError: there is no such prompt.
        """
        self._prompt_manager.remove_prompt(name)

    def prompt(
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[types.Icon] | None = None,
    ) -> Decorator:
        """Register the decorated function as a prompt.

        Raises:
            TypeError: there are no parentheses.
        """
        _check_called(name, "prompt")

        def decorator(fn: Function) -> Function:
            from carrel.compat.mcp2.server.mcpserver.prompts.base import Prompt

            self.add_prompt(Prompt.from_function(fn, name, title, description, icons))
            return fn

        return decorator

    def completion(self) -> Decorator:
        """Register the decorated function for completion: reference, argument and context to a ``Completion``."""

        def decorator(fn: Function) -> Function:
            async def handle(
                ctx: ServerRequestContext[Any, Any], params: types.CompleteRequestParams
            ) -> types.CompleteResult:
                try:
                    found = await fn(params.ref, params.argument, params.context)
                    return types.CompleteResult(completion=found or types.Completion(values=[]))
                except MCPError:
                    raise
                except Exception as error:
                    argument = params.argument.name
                    logger.exception("Completion for argument %r raised an unexpected exception", argument)
                    raise MCPError(INTERNAL_ERROR, f"Error completing argument {argument}") from error

            self._lowlevel_server.add_request_handler("completion/complete", types.CompleteRequestParams, handle)
            return fn

        return decorator


def _check_called(name: Any, decorator: str) -> None:
    if callable(name):
        raise TypeError(
            f"The @{decorator} decorator was used incorrectly. "
            f"Did you forget to call it? Use @{decorator}() instead of @{decorator}"
        )


def _details(item: Any) -> dict[str, Any]:
    names = ("title", "description", "mime_type", "icons", "annotations", "meta")
    return {"_meta" if name == "meta" else name: getattr(item, name) for name in names}


def _contents_of(uri: str, given: ReadResourceContents) -> Any:
    if isinstance(given.content, bytes):
        blob = base64.b64encode(given.content).decode()
        kind = given.mime_type or "application/octet-stream"
        return types.BlobResourceContents(uri=uri, blob=blob, mime_type=kind, _meta=given.meta)
    kind = given.mime_type or "text/plain"
    return types.TextResourceContents(uri=uri, text=given.content, mime_type=kind, _meta=given.meta)
