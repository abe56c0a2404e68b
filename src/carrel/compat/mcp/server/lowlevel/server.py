"""Low-level server: a handler for each request, registered with decorators.

Its requests are received, dispatched and answered by a server of Carrel, see ``carrel.compat.application``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar

from pydantic import AnyUrl, BaseModel
from typing_extensions import TypeVar as DefaultTypeVar

from carrel.compat.application import Application, Handler, request_ctx
from carrel.compat.loggers import get_logger
from carrel.compat.mcp import types
from carrel.compat.mcp.server.lowlevel.func_inspection import create_call_wrapper
from carrel.compat.mcp.server.lowlevel.helper_types import ReadResourceContents
from carrel.compat.mcp.server.models import InitializationOptions
from carrel.compat.mcp.server.session import ServerSession
from carrel.compat.mcp.shared.context import RequestContext
from carrel.compat.mcp.shared.exceptions import McpError, UrlElicitationRequiredError
from carrel.compat.mcp.shared.session import RequestResponder
from carrel.compat.mcp.types import base
from carrel.compat.serving import ServedServer
from carrel.compat.validation import Validators
from carrel.protocol import VERSION

__all__ = ["NotificationOptions", "Server", "request_ctx"]

LifespanResultT = DefaultTypeVar("LifespanResultT", default=Any)
RequestT = DefaultTypeVar("RequestT", default=Any)
F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

logger = get_logger(__name__)


class NotificationOptions:
    """Lists whose changes are notified."""

    def __init__(
        self, prompts_changed: bool = False, resources_changed: bool = False, tools_changed: bool = False
    ) -> None:
        self.prompts_changed = prompts_changed
        self.resources_changed = resources_changed
        self.tools_changed = tools_changed


class WrappingHandler:
    """Handler whose result is wrapped in a ``ServerResult``.

    Carrel calls ``bare``: to create ``ServerResult``, all types of results are created.
    """

    def __init__(self, bare: Handler) -> None:
        self.bare = bare

    async def __call__(self, request: Any) -> Any:
        return types.ServerResult.model_construct(await self.bare(request))


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[dict[str, Any]]:
    """Lifespan of a server without one."""
    yield {}


class Server(ServedServer, Generic[LifespanResultT, RequestT]):
    """Server with a handler for each request. Each ``run`` serves one client, with a new lifespan."""

    def __init__(
        self,
        name: str,
        version: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: list[base.Icon] | None = None,
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] = lifespan,
    ) -> None:
        self.name = name
        self.version = version
        self.instructions = instructions
        self.website_url = website_url
        self.icons = icons
        self.lifespan = lifespan
        self.request_handlers: dict[type, Handler] = {}
        self.notification_handlers: dict[type, Handler] = {}
        self._tools: dict[str, types.Tool] = {}
        self._validators = Validators()
        self.served = False
        self.extensions: dict[str, Any] = {}
        """Protocol extensions, by identifier."""
        self.added: dict[str, tuple[type[BaseModel], Handler]] = {}
        """Methods that the protocol does not have: the type of their parameters, and their handlers."""

    # Capabilities

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the server's declaration. The default version is Carrel's."""
        return InitializationOptions(
            server_name=self.name,
            server_version=self.version or VERSION,
            capabilities=self.get_capabilities(
                notification_options or NotificationOptions(), experimental_capabilities or {}
            ),
            instructions=self.instructions,
            website_url=self.website_url,
            icons=self.icons,
        )

    def get_capabilities(
        self, notification_options: NotificationOptions, experimental_capabilities: dict[str, dict[str, Any]]
    ) -> types.ServerCapabilities:
        """Return the capabilities that follow from the handlers."""
        has = {kind.__name__ for kind in self.request_handlers}.__contains__  # without creating the other types
        changes = notification_options
        found = types.ServerCapabilities(experimental=experimental_capabilities)
        if has("ListPromptsRequest"):
            found.prompts = types.PromptsCapability(listChanged=changes.prompts_changed)
        if has("ListResourcesRequest"):
            found.resources = types.ResourcesCapability(subscribe=False, listChanged=changes.resources_changed)
        if has("ListToolsRequest"):
            found.tools = types.ToolsCapability(listChanged=changes.tools_changed)
        if has("SetLevelRequest"):
            found.logging = types.LoggingCapability()
        if has("CompleteRequest"):
            found.completions = types.CompletionsCapability()
        return found

    @property
    def request_context(self) -> RequestContext[ServerSession, LifespanResultT, RequestT]:
        """Context of the request that is being answered.

        Raises:
            LookupError: none is.
        """
        return request_ctx.get()

    # Handlers

    def _register(self, kind: type[BaseModel], make: Callable[[Callable[..., Any]], Handler]) -> Decorator[Any]:
        def decorator(function: Any) -> Any:
            self.request_handlers[kind] = make(function)
            return function

        return decorator

    def _list(self, kind: type[BaseModel], result: type[BaseModel], field: str) -> Decorator[Any]:
        """Register a handler of a list, which returns the list or its result."""

        def make(function: Callable[..., Any]) -> Handler:
            call = create_call_wrapper(function, kind)

            async def handler(request: Any) -> Any:
                found = await call(request)
                return found if isinstance(found, result) else result(**{field: found})

            return WrappingHandler(handler)

        return self._register(kind, make)

    def list_prompts(self) -> Decorator[Any]:
        """Register the handler of prompts/list."""
        return self._list(types.ListPromptsRequest, types.ListPromptsResult, "prompts")

    def list_resources(self) -> Decorator[Any]:
        """Register the handler of resources/list."""
        return self._list(types.ListResourcesRequest, types.ListResourcesResult, "resources")

    def list_resource_templates(self) -> Decorator[Any]:
        """Register the handler of resources/templates/list."""
        return self._list(
            types.ListResourceTemplatesRequest,
            types.ListResourceTemplatesResult,
            "resourceTemplates",
        )

    def list_tools(self) -> Decorator[Any]:
        """Register the handler of tools/list. Calls are validated against its schemas."""
        kind = types.ListToolsRequest

        def make(function: Callable[..., Any]) -> Handler:
            call = create_call_wrapper(function, kind)

            async def handler(request: Any) -> Any:
                found = await call(request)
                if not isinstance(found, types.ListToolsResult):
                    self._tools.clear()
                    found = types.ListToolsResult(tools=found)
                self._tools.update((tool.name, tool) for tool in found.tools)
                return found

            return WrappingHandler(handler)

        return self._register(kind, make)

    def get_prompt(self) -> Decorator[Any]:
        """Register the handler of prompts/get: name and arguments to a ``GetPromptResult``."""
        return self._plain(types.GetPromptRequest, lambda params: (params.name, params.arguments))

    def set_logging_level(self) -> Decorator[Any]:
        """Register the handler of logging/setLevel."""
        return self._plain(types.SetLevelRequest, lambda params: (params.level,))

    def subscribe_resource(self) -> Decorator[Any]:
        """Register the handler of resources/subscribe."""
        return self._plain(types.SubscribeRequest, lambda params: (params.uri,))

    def unsubscribe_resource(self) -> Decorator[Any]:
        """Register the handler of resources/unsubscribe."""
        return self._plain(types.UnsubscribeRequest, lambda params: (params.uri,))

    def _plain(self, kind: type[BaseModel], arguments: Callable[[Any], tuple[Any, ...]]) -> Decorator[Any]:
        """Register a handler that gets parts of the parameters, and returns a result, or None for an empty one."""

        def make(function: Callable[..., Any]) -> Handler:
            async def handler(request: Any) -> Any:
                found = await function(*arguments(request.params))
                return types.ServerResult(base.EmptyResult() if found is None else found)

            return handler

        return self._register(kind, make)

    def completion(self) -> Decorator[Any]:
        """Register the handler of completion/complete: reference, argument and context to a ``Completion`` or None."""

        def make(function: Callable[..., Any]) -> Handler:
            async def handler(request: types.CompleteRequest) -> Any:
                params = request.params
                found = await function(params.ref, params.argument, params.context)
                completion = types.Completion(values=[]) if found is None else found
                return types.CompleteResult(completion=completion)

            return WrappingHandler(handler)

        return self._register(types.CompleteRequest, make)

    def read_resource(self) -> Decorator[Any]:
        """Register the handler of resources/read: a URI to text, bytes or several ``ReadResourceContents``."""

        def make(function: Callable[[AnyUrl], Awaitable[Any]]) -> Handler:
            async def handler(request: types.ReadResourceRequest) -> Any:
                uri = request.params.uri
                found = await function(uri)
                if isinstance(found, str | bytes):
                    found = [ReadResourceContents(found)]
                if not isinstance(found, Iterable):
                    raise ValueError(f"Unexpected return type from read_resource: {type(found)}")
                contents = [_contents_of(uri, each) for each in found]
                return types.ReadResourceResult(contents=contents)

            return WrappingHandler(handler)

        return self._register(types.ReadResourceRequest, make)

    def call_tool(self, *, validate_input: bool = True) -> Decorator[Any]:
        """Register the handler of tools/call: name and arguments to content, a dict, both, or a ``CallToolResult``.

        Arguments are validated against the schema of the tool unless ``validate_input`` is false; structured results
        always are.
        """

        def make(function: Callable[..., Any]) -> Handler:
            async def handler(request: types.CallToolRequest) -> Any:
                try:
                    return await self._call_tool(function, request, validate_input)
                except UrlElicitationRequiredError:
                    raise
                except Exception as error:
                    return _failed(str(error))

            return WrappingHandler(handler)

        return self._register(types.CallToolRequest, make)

    async def _call_tool(
        self, function: Callable[..., Any], request: types.CallToolRequest, validate_input: bool
    ) -> Any:
        """Return the result of a tool: a ``CallToolResult`` or a ``CreateTaskResult``."""
        name, arguments = request.params.name, request.params.arguments or {}
        tool = await self._find_tool(name)
        if validate_input and tool is not None:
            problem = self._validators.error_of(arguments, tool.inputSchema)
            if problem is not None:
                return _failed(f"Input validation error: {problem}")
        found = await function(name, arguments)
        if isinstance(found, BaseModel):  # a whole result
            return found
        structured: dict[str, Any] | None = None
        if isinstance(found, tuple) and len(found) == 2:
            content, structured = found
        elif isinstance(found, dict):
            structured = found
            content = [types.TextContent(type="text", text=json.dumps(found, indent=2))]
        elif hasattr(found, "__iter__"):
            content = found
        else:
            return _failed(f"Unexpected return type from tool: {type(found).__name__}")
        if tool is not None and tool.outputSchema is not None:
            if structured is None:
                return _failed("Output validation error: outputSchema defined but no structured output returned")
            problem = self._validators.error_of(structured, tool.outputSchema)
            if problem is not None:
                return _failed(f"Output validation error: {problem}")
        return types.CallToolResult(content=list(content), structuredContent=structured, isError=False)

    async def _find_tool(self, name: str) -> types.Tool | None:
        """Return a tool as it was listed last; tools are listed if it was not."""
        lister = self.request_handlers.get(types.ListToolsRequest)
        if name not in self._tools and lister is not None:
            await lister(None)
        return self._tools.get(name)

    def progress_notification(self) -> Decorator[Any]:
        """Register the handler of notifications/progress: progress token, progress, total and message."""

        def decorator(function: Any) -> Any:
            async def handler(notification: types.ProgressNotification) -> None:
                params = notification.params
                await function(params.progressToken, params.progress, params.total, params.message)

            self.notification_handlers[types.ProgressNotification] = handler
            return function

        return decorator

    # Running

    async def _handle_message(
        self, message: Any, session: ServerSession, lifespan_context: Any, raise_exceptions: bool = False
    ) -> None:
        """Answer a message of a session that a program has made itself."""
        if isinstance(message, RequestResponder):
            with message:
                await message.respond(await self._response(message, session, lifespan_context, raise_exceptions))
        elif isinstance(message, types.ClientNotification):
            handler = self.notification_handlers.get(type(message.root))
            if handler is not None:
                await handler(message.root)
        elif isinstance(message, Exception):
            logger.error("the stream has an exception: %s", message)
            await session.send_log_message(
                level="error", data="Internal Server Error", logger="mcp.server.exception_handler"
            )
            if raise_exceptions:
                raise message

    async def _response(
        self, message: RequestResponder[Any, Any], session: ServerSession, state: Any, raise_exceptions: bool
    ) -> Any:
        """Return the result of the handler of a request, or the error response."""
        handler = self.request_handlers.get(type(message.request.root))
        if handler is None:
            return base.ErrorData(code=base.METHOD_NOT_FOUND, message="Method not found")
        context: Any = RequestContext(message.request_id, message.request_meta, session, state)
        token = request_ctx.set(context)
        try:
            return await handler(message.request.root)
        except McpError as error:
            return error.error
        except Exception as error:
            if raise_exceptions:
                raise
            return base.ErrorData(code=0, message=str(error))
        finally:
            request_ctx.reset(token)

    def application(
        self, options: InitializationOptions | None = None, *, raise_exceptions: bool = False
    ) -> Application:
        """Return a server of Carrel that answers with the handlers of this one."""
        self.mark_served()
        options = options or self.create_initialization_options()
        app = Application(
            self.request_handlers,
            self.notification_handlers,
            options,
            lambda: self.lifespan(self),
            raise_exceptions=raise_exceptions,
            discovery=self.discovery(),
            added=self.added,
        )
        app.endpoint.runtime.has_own_authorization = self.has_own_authorization
        return app

    def discovery(self) -> types.ServerCapabilities | None:
        """Return the capabilities in responses to ``server/discover``, or None for the same as for ``initialize``."""
        return None

    async def run(
        self,
        read_stream: Any,
        write_stream: Any,
        initialization_options: InitializationOptions,
        raise_exceptions: bool = False,
        stateless: bool = False,
    ) -> None:
        """Serve the client at the other end of the streams, until it is gone."""
        await self.serve(initialization_options, read_stream, write_stream, raise_exceptions=raise_exceptions)


def _failed(message: str) -> types.CallToolResult:
    content = types.TextContent(type="text", text=message)
    return types.CallToolResult(content=[content], isError=True)


def _contents_of(uri: AnyUrl, given: Any) -> Any:
    meta = getattr(given, "meta", None)
    details: dict[str, Any] = {} if meta is None else {"_meta": meta}
    if isinstance(given.content, str):
        return types.TextResourceContents(
            uri=uri, text=given.content, mimeType=given.mime_type or "text/plain", **details
        )
    blob = base64.b64encode(given.content).decode()
    return types.BlobResourceContents(
        uri=uri, blob=blob, mimeType=given.mime_type or "application/octet-stream", **details
    )
