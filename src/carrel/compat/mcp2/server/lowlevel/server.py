"""Low-level server: a handler for each method, given to its constructor.

Its requests are received, dispatched and answered by a server of Carrel, see ``carrel.compat.mcp2.server.answering``.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from pydantic import BaseModel
from typing_extensions import TypeVar

from carrel.compat.loggers import get_logger
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server._otel import OpenTelemetryMiddleware
from carrel.compat.mcp2.server.answering import Application
from carrel.compat.mcp2.server.caching import CacheableMethod, CacheHint, validate_cache_hints
from carrel.compat.mcp2.server.context import HandlerResult, ServerMiddleware, ServerRequestContext
from carrel.compat.mcp2.server.models import InitializationOptions
from carrel.compat.mcp2.shared.deprecation import LOGGING, ROOTS
from carrel.compat.mcp2.shared.exceptions import MCPDeprecationWarning
from carrel.compat.mcp2.shared.message import SessionMessage
from carrel.compat.mcp2.types.base import RequestParams
from carrel.compat.mcp2.types.jsonrpc import jsonrpc_message_adapter
from carrel.compat.mcp2.types.version import MODERN_PROTOCOL_VERSIONS
from carrel.compat.serving import ServedServer

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from carrel.compat.mcp.server.streamable_http_manager import StreamableHTTPSessionManager

__all__ = ["HandlerEntry", "LifespanResultT", "NotificationHandler", "NotificationOptions", "RequestHandler", "Server"]

logger = get_logger(__name__)

LifespanResultT = TypeVar("LifespanResultT", default=Any)
RequestHandler: TypeAlias = Callable[..., Awaitable[HandlerResult]]
NotificationHandler: TypeAlias = Callable[..., Awaitable[None]]

#: Method of each handler that the constructor takes, and the name of the type of its parameters.
REQUESTS: dict[str, tuple[str, str]] = {
    "on_ping": ("ping", "RequestParams"),
    "on_list_prompts": ("prompts/list", "PaginatedRequestParams"),
    "on_get_prompt": ("prompts/get", "GetPromptRequestParams"),
    "on_list_resources": ("resources/list", "PaginatedRequestParams"),
    "on_list_resource_templates": ("resources/templates/list", "PaginatedRequestParams"),
    "on_read_resource": ("resources/read", "ReadResourceRequestParams"),
    "on_subscribe_resource": ("resources/subscribe", "SubscribeRequestParams"),
    "on_unsubscribe_resource": ("resources/unsubscribe", "UnsubscribeRequestParams"),
    "on_subscriptions_listen": ("subscriptions/listen", "SubscriptionsListenRequestParams"),
    "on_list_tools": ("tools/list", "PaginatedRequestParams"),
    "on_call_tool": ("tools/call", "CallToolRequestParams"),
    "on_set_logging_level": ("logging/setLevel", "SetLevelRequestParams"),
    "on_completion": ("completion/complete", "CompleteRequestParams"),
}
NOTIFICATIONS: dict[str, tuple[str, str]] = {
    "on_roots_list_changed": ("notifications/roots/list_changed", "NotificationParams"),
    "on_progress": ("notifications/progress", "ProgressNotificationParams"),
}
DEPRECATED = {
    "on_set_logging_level": LOGGING,
    "on_roots_list_changed": ROOTS,
    "on_progress": "Client-to-server progress is deprecated as of 2026-07-28.",
}


class HandlerEntry(Generic[LifespanResultT]):
    """Handler of a method, and the model of its parameters, which is created on first use."""

    def __init__(self, params_type: type[BaseModel] | str, handler: RequestHandler) -> None:
        self._params_type = params_type
        self.handler = handler

    @property
    def params_type(self) -> type[BaseModel]:
        """The model of the parameters."""
        found: type[BaseModel] | str = self._params_type
        return getattr(types, found) if isinstance(found, str) else found


class NotificationOptions:
    """Lists whose changes are notified."""

    def __init__(
        self, prompts_changed: bool = False, resources_changed: bool = False, tools_changed: bool = False
    ) -> None:
        self.prompts_changed = prompts_changed
        self.resources_changed = resources_changed
        self.tools_changed = tools_changed


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[dict[str, Any]]:
    """Lifespan of a server without one."""
    yield {}


async def _ping(ctx: ServerRequestContext, params: RequestParams | None) -> types.EmptyResult:
    return types.EmptyResult()


class Server(ServedServer, Generic[LifespanResultT]):
    """Server with a handler for each method: ``handlers`` are ``on_list_tools`` and so on, each of them optional.

    A handler is called with the context and the parameters of a request, and returns the result.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "",
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: list[types.Icon] | None = None,
        cache_hints: Mapping[CacheableMethod, CacheHint] | None = None,
        lifespan: Callable[[Any], AbstractAsyncContextManager[LifespanResultT]] = lifespan,  # type: ignore[assignment]
        get_tool_input_schema: Callable[[str], Mapping[str, Any] | None] | None = None,
        **handlers: Any,
    ) -> None:
        self.served = False
        self.name = name
        self.version = version
        self.title = title
        self.description = description
        self.instructions = instructions
        self.website_url = website_url
        self.icons = icons
        self.cache_hints = validate_cache_hints(cache_hints)
        self.lifespan = lifespan
        self.get_tool_input_schema = get_tool_input_schema
        self.middleware: list[ServerMiddleware[Any]] = [OpenTelemetryMiddleware()]
        """Middleware around every message of a client, the outermost first."""
        self.extensions: dict[str, dict[str, Any]] = {}
        """Settings of the protocol extensions that the server declares, by identifier."""
        self._request_handlers: dict[str, HandlerEntry[Any]] = {
            "ping": HandlerEntry(RequestParams, _ping),
            "server/discover": HandlerEntry(RequestParams, self._discover),
        }
        self._notification_handlers: dict[str, HandlerEntry[Any]] = {}
        self._session_manager: StreamableHTTPSessionManager | None = None
        for given, handler in handlers.items():
            if given not in REQUESTS and given not in NOTIFICATIONS:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument {given!r}")
            if handler is None:
                continue
            if given in DEPRECATED:
                warnings.warn(DEPRECATED[given], MCPDeprecationWarning, stacklevel=2)
            method, params = REQUESTS.get(given) or NOTIFICATIONS[given]
            entries = self._request_handlers if given in REQUESTS else self._notification_handlers
            entries[method] = HandlerEntry(params, handler)

    # Handlers

    def add_request_handler(self, method: str, params_type: type[BaseModel], handler: RequestHandler) -> None:
        """Register the handler of a method, also of one that the protocol does not have.

        Raises:
            ValueError: the method is ``initialize``.
        """
        if method == "initialize":
            raise ValueError(
                "'initialize' is handled by the server runner and cannot be overridden; "
                "use Server.middleware to observe or wrap initialization"
            )
        self._request_handlers[method] = HandlerEntry(params_type, handler)

    def add_notification_handler(self, method: str, params_type: type[BaseModel], handler: NotificationHandler) -> None:
        """Register the handler of a notification."""
        self._notification_handlers[method] = HandlerEntry(params_type, handler)

    def get_request_handler(self, method: str) -> HandlerEntry[Any] | None:
        """Return the handler of a method; None without one."""
        return self._request_handlers.get(method)

    def get_notification_handler(self, method: str) -> HandlerEntry[Any] | None:
        """Return the handler of a notification; None without one."""
        return self._notification_handlers.get(method)

    @property
    def request_methods(self) -> list[str]:
        """The methods that have a handler."""
        return list(self._request_handlers)

    async def _discover(self, ctx: ServerRequestContext, params: RequestParams | None) -> types.DiscoverResult:
        return types.DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=self.get_capabilities(protocol_version=ctx.protocol_version),
            instructions=self.instructions,
        )

    # Capabilities

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the server's declaration."""
        extensions = self.extensions if extensions is None else extensions
        return InitializationOptions(
            server_name=self.name,
            server_version=self.version,
            title=self.title,
            description=self.description,
            capabilities=self.get_capabilities(notification_options, experimental_capabilities, extensions),
            instructions=self.instructions,
            website_url=self.website_url,
            icons=self.icons,
        )

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """Return the capabilities that follow from the handlers. From 2026-07-28 on, clients listen to changes."""
        has = self._request_handlers.__contains__
        changes = notification_options or NotificationOptions()
        subscribe = has("resources/subscribe")
        if protocol_version in MODERN_PROTOCOL_VERSIONS:
            subscribe = has("subscriptions/listen")
            changes = NotificationOptions(subscribe, subscribe, subscribe)
        found = types.ServerCapabilities(
            experimental=experimental_capabilities,
            extensions=extensions if extensions is not None else (self.extensions or None),
        )
        if has("prompts/list"):
            found.prompts = types.PromptsCapability(list_changed=changes.prompts_changed)
        if has("resources/list"):
            found.resources = types.ResourcesCapability(subscribe=subscribe, list_changed=changes.resources_changed)
        if has("tools/list"):
            found.tools = types.ToolsCapability(list_changed=changes.tools_changed)
        if has("logging/setLevel"):
            found.logging = types.LoggingCapability()
        if has("completion/complete"):
            found.completions = types.CompletionsCapability()
        return found

    @property
    def server_info(self) -> types.Implementation:
        """Name and version of the server."""
        return types.Implementation(
            name=self.name,
            version=self.version,
            title=self.title,
            description=self.description,
            website_url=self.website_url,
            icons=self.icons,
        )

    @property
    def server_info_stamp(self) -> dict[str, Any]:
        """Name and version of the server, as in the ``_meta`` of its results."""
        return copy.deepcopy(self.server_info.model_dump(by_alias=True, mode="json", exclude_none=True))

    # Running

    def wrap(self, message: bytes) -> SessionMessage:
        """Return a message for streams of messages from its encoding."""
        return SessionMessage(jsonrpc_message_adapter.validate_json(message))

    def application(
        self, options: InitializationOptions | None = None, *, raise_exceptions: bool = False
    ) -> Application:
        """Return a server of Carrel that answers with the handlers of this one."""
        self.mark_served()
        app = Application(self, options or self.create_initialization_options(), raise_exceptions=raise_exceptions)
        app.endpoint.runtime.has_own_authorization = self.has_own_authorization
        return app

    @property
    def session_manager(self) -> StreamableHTTPSessionManager:
        """Endpoint of Streamable HTTP, to be run by an application that mounts the server.

        Raises:
            RuntimeError: ``streamable_http_app`` was not called.
        """
        if self._session_manager is None:
            raise RuntimeError("Session manager can only be accessed after calling streamable_http_app().")
        return self._session_manager

    def streamable_http_app(
        self,
        *,
        custom_starlette_routes: list[Any] | None = None,
        token_verifier: Any = None,
        auth_server_provider: Any = None,
        **options: Any,
    ) -> Starlette:
        """Return the server as an application: Streamable HTTP at ``streamable_http_path``."""
        from carrel.compat.mcp2.server.http_apps import Apps

        routes = custom_starlette_routes or []
        apps = Apps(self, routes, options, token_verifier=token_verifier, auth_server_provider=auth_server_provider)
        if options.get("auth") is not None:
            self.guard = lambda _: apps.protection().guarded()
        app = apps.streamable_http_app()
        self._session_manager = apps.session_manager
        return app

    async def run(
        self,
        read_stream: Any,
        write_stream: Any,
        initialization_options: InitializationOptions | None = None,
        raise_exceptions: bool = False,
    ) -> None:
        """Serve the client at the other end of the streams, until it is gone."""
        options = initialization_options or self.create_initialization_options()
        await self.serve(options, read_stream, write_stream, raise_exceptions=raise_exceptions)
