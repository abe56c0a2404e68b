"""Client: connects to a server, and answers its questions with callbacks."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import KW_ONLY, dataclass, field
from types import TracebackType
from typing import Any

from typing_extensions import deprecated

from carrel.compat.mcp.client.stdio import StdioServerParameters, stdio_client
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.client._input_required import DEFAULT_INPUT_REQUIRED_MAX_ROUNDS, run_input_required_driver
from carrel.compat.mcp2.client._memory import InMemoryTransport
from carrel.compat.mcp2.client.caching import CacheConfig, CacheMode, ResponseCache
from carrel.compat.mcp2.client.claims import contributions
from carrel.compat.mcp2.client.context import (
    ElicitationFnT,
    ListRootsFnT,
    LoggingFnT,
    MessageHandlerFnT,
    SamplingFnT,
)
from carrel.compat.mcp2.client.extension import ClaimContext, ClientExtension
from carrel.compat.mcp2.client.session import ClientSession
from carrel.compat.mcp2.client.streamable_http import streamable_http_client
from carrel.compat.mcp2.client.subscriptions import ResourceUpdated, ServerEvent, Subscription, listen
from carrel.compat.mcp2.shared.deprecation import LOGGING, PING, PROGRESS, ROOTS, SUBSCRIBE, UNSUBSCRIBE
from carrel.compat.mcp2.shared.exceptions import MCPDeprecationWarning, MCPError
from carrel.compat.mcp2.shared.subscriptions import LISTS
from carrel.compat.mcp2.types.base import EmptyResult, PaginatedRequestParams, RequestParamsMeta
from carrel.compat.mcp2.types.jsonrpc import INVALID_PARAMS
from carrel.compat.mcp2.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from carrel.compat.serving import ServedServer

__all__ = ["Client"]

LIST_EVENTS = {
    f"notifications/{kind}/list_changed": f"{kind}_list_changed" for kind in ("tools", "prompts", "resources")
}


@dataclass
class Client:
    """Client of a server: a URL, a command, a transport, or a server in this process.

    ``mode`` is "auto", "legacy" (with a handshake) or a revision that has no handshake.

    Raises:
        ValueError: there is no such mode, or an extension is given twice.
    """

    server: Any
    _: KW_ONLY
    raise_exceptions: bool = False
    read_timeout_seconds: float | None = None
    sampling_callback: SamplingFnT | None = None
    sampling_capabilities: types.SamplingCapability | None = None
    list_roots_callback: ListRootsFnT | None = None
    logging_callback: LoggingFnT | None = None
    log_level: str | None = None
    message_handler: MessageHandlerFnT | None = None
    client_info: types.Implementation | None = None
    mode: str = "auto"
    prior_discover: types.DiscoverResult | None = None
    elicitation_callback: ElicitationFnT | None = None
    input_required_max_rounds: int = DEFAULT_INPUT_REQUIRED_MAX_ROUNDS
    extensions: Sequence[ClientExtension] | None = None
    cache: CacheConfig | None = field(default_factory=CacheConfig)
    _entered: bool = field(init=False, default=False)
    _session: ClientSession | None = field(init=False, default=None)
    _exit_stack: AsyncExitStack | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.mode not in ("legacy", "auto") and self.mode not in MODERN_PROTOCOL_VERSIONS:
            old = self.mode in HANDSHAKE_PROTOCOL_VERSIONS
            hint = f" ({self.mode!r} is a handshake-era version; use mode='legacy')" if old else ""
            raise ValueError(
                f"mode must be 'legacy', 'auto', or one of {list(MODERN_PROTOCOL_VERSIONS)}; got {self.mode!r}{hint}"
            )
        self._settings, self._claims, self._bindings = contributions(self.extensions)
        self._response_cache: ResponseCache | None = None
        if self.cache is not None:
            target = self.cache.target_id or (self.server if isinstance(self.server, str) else None)
            if target is None and self.cache.store is not None:
                raise ValueError("a custom cache store requires CacheConfig.target_id when the server is not a URL")
            self._response_cache = ResponseCache(self.cache, target or uuid.uuid4().hex)

    def _transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        server = self.server
        if isinstance(server, str):
            return streamable_http_client(server)
        if isinstance(server, StdioServerParameters):
            return stdio_client(server)
        if isinstance(getattr(server, "_lowlevel_server", server), ServedServer):
            return InMemoryTransport(server, raise_exceptions=self.raise_exceptions)
        given: AbstractAsyncContextManager[tuple[Any, Any]] = server
        return given

    async def __aenter__(self) -> Client:
        if self._entered:
            raise RuntimeError("Client is already entered; cannot reenter")
        self._entered = True
        async with AsyncExitStack() as stack:
            read, write = await stack.enter_async_context(self._transport())
            session = ClientSession(
                read,
                write,
                self.read_timeout_seconds,
                self.sampling_callback,
                self.elicitation_callback,
                self.list_roots_callback,
                self.logging_callback,
                self._handle,
                self.client_info,
                log_level=self.log_level,
                sampling_capabilities=self.sampling_capabilities,
                extensions=self._settings,
                result_claims=self._claims,
                notification_bindings=self._bindings,
            )
            await stack.enter_async_context(session)
            if self.mode == "legacy":
                await session.initialize()
            elif self.mode == "auto":
                await session.negotiate()
            else:
                await session.speak(self.mode, self.prior_discover)
            self._session, self._exit_stack = session, stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._exit_stack is not None:
            await self._exit_stack.__aexit__(kind, error, trace)
        self._session = None

    async def _handle(self, message: Any) -> None:
        """Remove stale results from the cache, and pass a notification on."""
        if self._response_cache is not None:
            method = getattr(message, "method", "")
            if method == "notifications/resources/updated":
                await self._response_cache.evict("resource_updated", message.params.uri)
            elif method in LIST_EVENTS:
                await self._response_cache.evict(LIST_EVENTS[method])
        if self.message_handler is not None:
            await self.message_handler(message)

    # Facts

    @property
    def session(self) -> ClientSession:
        """The session.

        Raises:
            RuntimeError: the client is not connected.
        """
        if self._session is None:
            raise RuntimeError("Client must be used within an async context manager")
        return self._session

    @property
    def protocol_version(self) -> str:
        """Revision of the connection."""
        return self.session.protocol_version or ""

    @property
    def server_info(self) -> types.Implementation | None:
        """Name and version of the server, if it has told them."""
        return self.session.server_info

    @property
    def server_capabilities(self) -> types.ServerCapabilities:
        """Capabilities of the server."""
        return self.session.server_capabilities

    @property
    def instructions(self) -> str | None:
        """Instructions of the server for models."""
        return self.session.instructions

    # Lists

    async def _cached(
        self,
        method: str,
        params: str,
        meta: RequestParamsMeta | None,
        mode: CacheMode,
        send: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Return a result from the cache, or send the request."""
        cache = self._response_cache
        if cache is None or mode == "bypass":
            return await send()
        session = self.session
        found = await cache.read(method, params) if mode == "use" and meta is None else None
        if found is None:
            found = await send()
            if (
                not isinstance(found, types.InputRequiredResult)
                and session.protocol_version in MODERN_PROTOCOL_VERSIONS
            ):
                await cache.write(method, params, found)
        return found

    async def _list(
        self, method: str, verb: str, cursor: str | None, meta: RequestParamsMeta | None, mode: CacheMode
    ) -> Any:
        send = getattr(self.session, verb)
        params = PaginatedRequestParams(cursor=cursor, _meta=meta)
        if cursor is None:
            return await self._cached(method, "", meta, mode, lambda: send(params=params))
        try:
            return await send(params=params)
        except MCPError as error:
            if error.code == INVALID_PARAMS and self._response_cache is not None:
                await self._response_cache.evict(f"{method.partition('/')[0]}_list_changed")
            raise

    async def list_resources(
        self, *, cursor: str | None = None, meta: RequestParamsMeta | None = None, cache_mode: CacheMode = "use"
    ) -> types.ListResourcesResult:
        """Return a page of the resources."""
        return await self._list("resources/list", "list_resources", cursor, meta, cache_mode)

    async def list_resource_templates(
        self, *, cursor: str | None = None, meta: RequestParamsMeta | None = None, cache_mode: CacheMode = "use"
    ) -> types.ListResourceTemplatesResult:
        """Return a page of the resource templates."""
        return await self._list("resources/templates/list", "list_resource_templates", cursor, meta, cache_mode)

    async def list_prompts(
        self, *, cursor: str | None = None, meta: RequestParamsMeta | None = None, cache_mode: CacheMode = "use"
    ) -> types.ListPromptsResult:
        """Return a page of the prompts."""
        return await self._list("prompts/list", "list_prompts", cursor, meta, cache_mode)

    async def list_tools(
        self, *, cursor: str | None = None, meta: RequestParamsMeta | None = None, cache_mode: CacheMode = "use"
    ) -> types.ListToolsResult:
        """Return a page of the tools."""
        return await self._list("tools/list", "list_tools", cursor, meta, cache_mode)

    # Requests that may have questions

    async def _driven(self, first: Any, retry: Callable[[Any, str | None], Awaitable[Any]]) -> Any:
        return await run_input_required_driver(
            first,
            dispatch=self.session.dispatch_input_request,
            retry=retry,
            max_rounds=self.input_required_max_rounds,
        )

    async def read_resource(
        self,
        uri: str,
        *,
        input_responses: Any = None,
        request_state: str | None = None,
        meta: RequestParamsMeta | None = None,
        cache_mode: CacheMode = "use",
    ) -> types.ReadResourceResult:
        """Read a resource, and answer the questions of the server."""

        async def send(answers: Any, state: str | None) -> Any:
            return await self.session.read_resource(
                uri, input_responses=answers, request_state=state, meta=meta, allow_input_required=True
            )

        mode: CacheMode = cache_mode if input_responses is None and request_state is None else "bypass"
        first = await self._cached("resources/read", str(uri), meta, mode, lambda: send(input_responses, request_state))
        return await self._driven(first, send)

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | None = None,
        progress_callback: Callable[..., Any] | None = None,
        *,
        input_responses: Any = None,
        request_state: str | None = None,
        meta: RequestParamsMeta | None = None,
    ) -> types.CallToolResult:
        """Call a tool, and answer the questions of the server. The extension that adds a type of results resolves them.

        Raises:
            InputRequiredRoundsExceededError: the server has questions in each of too many rounds.
            MCPError: the server sent an error response, or a question was answered with an error.
        """

        async def send(answers: Any, state: str | None) -> Any:
            return await self.session.call_tool(
                name,
                arguments,
                read_timeout_seconds,
                progress_callback,
                input_responses=answers,
                request_state=state,
                meta=meta,
                allow_input_required=True,
                allow_claimed=True,
            )

        result = await self._driven(await send(input_responses, request_state), send)
        if isinstance(result, types.CallToolResult):
            return result
        claim = next(each for claims in self._claims.values() for each in claims if each.model is type(result))
        context = ClaimContext(session=self.session, tool_name=name, read_timeout_seconds=read_timeout_seconds)
        found: types.CallToolResult = await claim.resolve(result, context)
        if not found.is_error:
            await self.session.validate_tool_result(name, found)
        return found

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, str] | None = None,
        *,
        input_responses: Any = None,
        request_state: str | None = None,
        meta: RequestParamsMeta | None = None,
    ) -> types.GetPromptResult:
        """Return the messages of a prompt, and answer the questions of the server."""

        async def send(answers: Any, state: str | None) -> Any:
            return await self.session.get_prompt(
                name,
                arguments,
                input_responses=answers,
                request_state=state,
                meta=meta,
                allow_input_required=True,
            )

        return await self._driven(await send(input_responses, request_state), send)

    async def complete(
        self,
        ref: Any,
        argument: dict[str, str],
        context_arguments: dict[str, str] | None = None,
        *,
        meta: RequestParamsMeta | None = None,
    ) -> types.CompleteResult:
        """Return suggestions for an argument of a prompt or a variable of a template."""
        return await self.session.complete(ref, argument, context_arguments, meta=meta)

    # Events and notifications

    def listen(
        self,
        *,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resource_subscriptions: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Subscription]:
        """Open a stream of events, which ends with the block."""
        return listen(
            self.session,
            tools_list_changed=tools_list_changed,
            prompts_list_changed=prompts_list_changed,
            resources_list_changed=resources_list_changed,
            resource_subscriptions=resource_subscriptions,
            on_event=self._evict,
        )

    async def _evict(self, event: ServerEvent) -> None:
        if self._response_cache is not None:
            if isinstance(event, ResourceUpdated):
                await self._response_cache.evict("resource_updated", event.uri)
            else:
                await self._response_cache.evict(LISTS[type(event)][0])

    @deprecated(PING, category=MCPDeprecationWarning)
    async def send_ping(self, *, meta: RequestParamsMeta | None = None) -> EmptyResult:
        """Send a ping."""
        return await self.session.send_ping(meta=meta)

    @deprecated(LOGGING, category=MCPDeprecationWarning)
    async def set_logging_level(self, level: str, *, meta: RequestParamsMeta | None = None) -> EmptyResult:
        """Set the log level of the server."""
        return await self.session.set_logging_level(level, meta=meta)

    @deprecated(SUBSCRIBE, category=MCPDeprecationWarning)
    async def subscribe_resource(self, uri: str, *, meta: RequestParamsMeta | None = None) -> EmptyResult:
        """Subscribe to a resource."""
        return await self.session.subscribe_resource(uri, meta=meta)

    @deprecated(UNSUBSCRIBE, category=MCPDeprecationWarning)
    async def unsubscribe_resource(self, uri: str, *, meta: RequestParamsMeta | None = None) -> EmptyResult:
        """End the subscription to a resource."""
        return await self.session.unsubscribe_resource(uri, meta=meta)

    @deprecated(PROGRESS, category=MCPDeprecationWarning)
    async def send_progress_notification(
        self, progress_token: str | int, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a progress notification."""
        await self.session.send_progress_notification(progress_token, progress, total, message)

    @deprecated(ROOTS, category=MCPDeprecationWarning)
    async def send_roots_list_changed(self) -> None:
        """Notify the server that the roots have changed."""
        await self.session.send_roots_list_changed()
