"""Session of a client, in the terms of ``mcp`` 2, over a connection of Carrel's client."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NoReturn

import msgspec
from pydantic import TypeAdapter
from typing_extensions import deprecated

from carrel.client.connection import ClientConnection
from carrel.client.handlers import ClientCall
from carrel.client.negotiation import ServerFacts, discover, negotiate, shake_hands
from carrel.client.pending_request import Waiter
from carrel.compat.exchange import REQUEST_CANCELLED
from carrel.compat.loggers import get_logger
from carrel.compat.mcp.client.auth.exceptions import flow_error
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.client.callbacks import Callbacks
from carrel.compat.mcp2.client.claims import BoundNotifications, ClaimedResults, Claims
from carrel.compat.mcp2.client.context import (
    ClientRequestContext,
    ElicitationFnT,
    IncomingMessage,
    ListRootsFnT,
    LoggingFnT,
    MessageHandlerFnT,
    SamplingFnT,
)
from carrel.compat.mcp2.client.extension import NotificationBinding, UnexpectedClaimedResult
from carrel.compat.mcp2.client.requests import custom_request, struct_for
from carrel.compat.mcp2.shared.deprecation import LOGGING, PING, PROGRESS, ROOTS, SUBSCRIBE, UNSUBSCRIBE
from carrel.compat.mcp2.shared.exceptions import MCPDeprecationWarning, MCPError
from carrel.compat.mcp2.shared.message import SessionMessage
from carrel.compat.mcp2.types.base import EmptyResult, PaginatedRequestParams, RequestParams, RequestParamsMeta
from carrel.compat.mcp2.types.jsonrpc import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    jsonrpc_message_adapter,
)
from carrel.compat.outgoing import send_notification
from carrel.compat.streams import ClientStream, StreamTransport, flush
from carrel.compat.validation import Validators
from carrel.compat.wire import json_of, model_of, struct_of
from carrel.errors import (
    AuthorizationError,
    InvalidMessage,
    MethodNotFound,
    PeerError,
    ProtocolError,
    RequestTimeout,
    TransportError,
)
from carrel.protocol.client import ClientProtocol, IncomingRequest, ServerNotification
from carrel.protocol.methods import LISTEN
from carrel.protocol.revisions import LATEST, LATEST_HANDSHAKE, REQUESTS, REVISIONS
from carrel.transports import held_output
from carrel.wire.base import Implementation
from carrel.wire.client_features import InputRequiredResult
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.utilities import LoggingMessageParams

__all__ = [
    "DEFAULT_CLIENT_INFO",
    "DISCOVER_TIMEOUT_SECONDS",
    "ClientRequestContext",
    "ClientResponse",
    "ClientSession",
    "ElicitationFnT",
    "IncomingMessage",
    "ListRootsFnT",
    "LoggingFnT",
    "MessageHandlerFnT",
    "SamplingFnT",
]

logger = get_logger("client")

DEFAULT_CLIENT_INFO = types.Implementation(name="mcp", version="0.1.0")
DISCOVER_TIMEOUT_SECONDS = 10.0
ClientResponse: TypeAdapter[Any] = TypeAdapter(types.ClientResult | types.ErrorData)


class ClientSession:
    """Session with a server. Enter it, call ``initialize`` or ``discover``, then send requests."""

    def __init__(
        self,
        read_stream: Any = None,
        write_stream: Any = None,
        read_timeout_seconds: float | None = None,
        sampling_callback: SamplingFnT | None = None,
        elicitation_callback: ElicitationFnT | None = None,
        list_roots_callback: ListRootsFnT | None = None,
        logging_callback: LoggingFnT | None = None,
        message_handler: MessageHandlerFnT | None = None,
        client_info: types.Implementation | None = None,
        *,
        log_level: str | None = None,
        sampling_capabilities: types.SamplingCapability | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        result_claims: Claims | None = None,
        notification_bindings: Sequence[NotificationBinding[Any]] | None = None,
        dispatcher: Any = None,
    ) -> None:
        if dispatcher is not None:
            raise ValueError("dispatchers are not mirrored by carrel.compat: give ClientSession a pair of streams")
        self._streams = read_stream, write_stream
        self._timeout = read_timeout_seconds
        self._log_level = log_level
        self._callbacks = Callbacks(
            self,
            sampling=sampling_callback,
            elicitation=elicitation_callback,
            roots=list_roots_callback,
            logging=logging_callback,
            message=message_handler,
            sampling_capabilities=sampling_capabilities,
            extensions=extensions,
        )
        self._claimed = ClaimedResults(result_claims, extensions)
        self._bound = BoundNotifications(notification_bindings)
        self._info = client_info or DEFAULT_CLIENT_INFO
        self._connection: ClientConnection | None = None
        self._facts: ServerFacts | None = None
        self._initialized: types.InitializeResult | None = None
        self._discovered: types.DiscoverResult | None = None
        self._schemas: dict[str, dict[str, Any] | None] = {}
        self._validators = Validators()

    async def __aenter__(self) -> ClientSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, self._connection = self._connection, None
        try:
            await self._bound.stop()
            await self._callbacks.stop()
        finally:
            if connection is not None:
                await connection.close()

    # Opening

    async def _open(self) -> ClientConnection:
        held_output.release()
        if self._connection is not None:
            return self._connection
        read, write = self._streams
        transport = read.open() if isinstance(read, ClientStream) else StreamTransport(read, write, _session_message)
        protocol: ClientProtocol[Waiter] = ClientProtocol(
            struct_of(self._info, Implementation), self._callbacks.capabilities()
        )
        connection = self._connection = ClientConnection(transport, protocol, self)
        self._claimed.declare(protocol)
        self._bound.start(protocol)
        self._callbacks.start()
        try:
            await connection.open()
        except (AuthorizationError, TransportError) as error:
            _fail(error, "open", self._timeout)
        return connection

    async def initialize(self) -> types.InitializeResult:
        """Open the connection, with the handshake of the newest revision that has one.

        Raises:
            MCPError: the server refuses, or is gone.
            RuntimeError: there is no revision that both sides support.
        """
        if self._initialized is not None:
            return self._initialized
        connection = await self._open()
        facts = await self._negotiate(shake_hands(connection, LATEST_HANDSHAKE, timeout=self._timeout or math.inf))
        return self._adopted(facts)

    async def discover(self) -> types.DiscoverResult:
        """Open the connection, with the newest revision that has no handshake.

        Raises:
            MCPError: the server refuses, or is gone.
        """
        if self._discovered is None:
            connection = await self._open()
            timeout = self._timeout or DISCOVER_TIMEOUT_SECONDS
            self._facts = await self._negotiate(discover(connection, LATEST, timeout=timeout))
            self._settle()
        assert self._discovered is not None
        return self._discovered

    async def negotiate(self) -> None:
        """Open the connection, with the newest revision that both sides support."""
        connection = await self._open()
        timeout = self._timeout or math.inf
        facts = await self._negotiate(
            negotiate(connection, None, timeout=timeout, patience=min(timeout, DISCOVER_TIMEOUT_SECONDS))
        )
        if facts.revision.stateless:
            self._facts = facts
            self._settle()
        else:
            self._adopted(facts)

    async def speak(self, version: str, known: types.DiscoverResult | None = None) -> None:
        """Open the connection with a revision that has no handshake, and without a request."""
        connection = await self._open()
        connection.connection.speak(REVISIONS[version])
        capabilities = ServerCapabilities() if known is None else struct_of(known.capabilities, ServerCapabilities)
        self._facts = ServerFacts(REVISIONS[version], None, capabilities, None if known is None else known.instructions)
        self._settle()

    async def _negotiate(self, opening: Any) -> ServerFacts:
        try:
            facts: ServerFacts = await opening
            assert self._connection is not None
            await flush(self._connection.transport)
        except (AuthorizationError, PeerError, TransportError) as error:
            _fail(error, "initialize", self._timeout)
        except ProtocolError as error:
            raise RuntimeError(f"Unsupported protocol version from the server: {error}") from None
        return facts

    def _adopted(self, facts: ServerFacts) -> types.InitializeResult:
        self._facts = facts
        self._bound.warn(facts.revision)
        self._initialized = types.InitializeResult(
            protocol_version=facts.revision.name,
            capabilities=model_of(facts.capabilities, types.ServerCapabilities),
            server_info=model_of(facts.info or Implementation("unknown", "0"), types.Implementation),
            instructions=facts.instructions,
        )
        return self._initialized

    def _settle(self) -> None:
        """Take the declaration of a server without a handshake."""
        facts, connection = self._facts, self._connection
        assert facts is not None
        assert connection is not None
        connection.transport.settle(facts.revision)
        self._bound.warn(facts.revision)
        if self._log_level is not None:
            connection.connection.set_log_level(self._log_level)
        self._discovered = types.DiscoverResult(
            supported_versions=[facts.revision.name],
            capabilities=model_of(facts.capabilities, types.ServerCapabilities),
            instructions=facts.instructions,
        )

    @property
    def initialize_result(self) -> types.InitializeResult | None:
        """Result of the handshake; None without one."""
        return self._initialized

    @property
    def discover_result(self) -> types.DiscoverResult | None:
        """Declaration of a server without a handshake; None with one."""
        return self._discovered

    @property
    def protocol_version(self) -> str | None:
        """Revision of the connection; None before it is open."""
        return None if self._facts is None else self._facts.revision.name

    @property
    def server_info(self) -> types.Implementation | None:
        """Name and version of the server, if it has told them."""
        info = None if self._facts is None else self._facts.info
        return None if info is None else model_of(info, types.Implementation)

    @property
    def server_capabilities(self) -> types.ServerCapabilities | None:
        """Capabilities of the server; None before the connection is open."""
        return None if self._facts is None else model_of(self._facts.capabilities, types.ServerCapabilities)

    @property
    def instructions(self) -> str | None:
        """Instructions of the server for models."""
        return None if self._facts is None else self._facts.instructions

    # Requests

    async def send_request(
        self,
        request: Any,
        result_type: Any,
        request_read_timeout_seconds: float | None = None,
        metadata: Any = None,
        progress_callback: Callable[..., Any] | None = None,
    ) -> Any:
        """Send a request, and return its result.

        Raises:
            MCPError: the server sent an error response, did not respond in time, or is gone.
        """
        timeout = self._timeout if request_read_timeout_seconds is None else request_read_timeout_seconds
        connection = self._connection
        if connection is None or self._facts is None:
            raise MCPError(CONNECTION_CLOSED, "Connection closed")
        method: str = request.method
        given = (
            {} if request.params is None else request.params.model_dump(mode="json", by_alias=True, exclude_none=True)
        )
        meta = given.pop("_meta", None)
        row = REQUESTS.get(method)
        result: Any = None
        if row is None:
            row, struct, result = custom_request(connection.connection, method, given, result_type)
        else:
            struct = struct_for(row, given)
            result = self._claimed.result if method == "tools/call" else None
        try:
            found = await connection.call(
                row, struct, timeout=timeout, meta=meta, progress=progress_callback, result=result
            )
        except (AuthorizationError, PeerError, TransportError, MethodNotFound, InvalidMessage) as error:
            _fail(error, method, timeout)
        if isinstance(found, InputRequiredResult):
            return model_of(found, types.InputRequiredResult)
        result_type = self._claimed.model(found) or result_type
        return TypeAdapter(result_type).validate_json(msgspec.json.encode(found), by_name=False)

    async def _send(self, kind: Any, params: Any, result: Any) -> Any:
        return await self.send_request(kind(params=params), result)

    @deprecated(PING, category=MCPDeprecationWarning)
    async def send_ping(self, *, meta: RequestParamsMeta | None = None) -> EmptyResult:
        """Send a ping."""
        found: EmptyResult = await self._send(types.PingRequest, RequestParams(_meta=meta), EmptyResult)
        return found

    @deprecated(LOGGING, category=MCPDeprecationWarning)
    async def set_logging_level(self, level: str, *, meta: RequestParamsMeta | None = None) -> EmptyResult:
        """Set the log level of the server."""
        params = types.SetLevelRequestParams(level=level, _meta=meta)
        found: EmptyResult = await self._send(types.SetLevelRequest, params, EmptyResult)
        return found

    async def list_resources(self, *, params: PaginatedRequestParams | None = None) -> types.ListResourcesResult:
        """Return a page of the resources."""
        return await self._send(types.ListResourcesRequest, params, types.ListResourcesResult)

    async def list_resource_templates(
        self, *, params: PaginatedRequestParams | None = None
    ) -> types.ListResourceTemplatesResult:
        """Return a page of the resource templates."""
        return await self._send(types.ListResourceTemplatesRequest, params, types.ListResourceTemplatesResult)

    async def list_prompts(self, *, params: PaginatedRequestParams | None = None) -> types.ListPromptsResult:
        """Return a page of the prompts."""
        return await self._send(types.ListPromptsRequest, params, types.ListPromptsResult)

    async def list_tools(self, *, params: PaginatedRequestParams | None = None) -> types.ListToolsResult:
        """Return a page of the tools."""
        result = await self._send(types.ListToolsRequest, params, types.ListToolsResult)
        self._schemas.update((tool.name, tool.output_schema) for tool in result.tools)
        return result

    async def read_resource(
        self,
        uri: str,
        *,
        input_responses: Any = None,
        request_state: str | None = None,
        meta: RequestParamsMeta | None = None,
        allow_input_required: bool = False,
    ) -> Any:
        """Read a resource."""
        params = types.ReadResourceRequestParams(
            uri=str(uri), input_responses=input_responses, request_state=request_state, _meta=meta
        )
        result = await self._send(types.ReadResourceRequest, params, types.ReadResourceResult)
        return _expected(result, "read_resource", allow_input_required)

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, str] | None = None,
        *,
        input_responses: Any = None,
        request_state: str | None = None,
        meta: RequestParamsMeta | None = None,
        allow_input_required: bool = False,
    ) -> Any:
        """Return the messages of a prompt."""
        params = types.GetPromptRequestParams(
            name=name, arguments=arguments, input_responses=input_responses, request_state=request_state, _meta=meta
        )
        result = await self._send(types.GetPromptRequest, params, types.GetPromptResult)
        return _expected(result, "get_prompt", allow_input_required)

    @deprecated(SUBSCRIBE, category=MCPDeprecationWarning)
    async def subscribe_resource(self, uri: str, *, meta: RequestParamsMeta | None = None) -> EmptyResult:
        """Subscribe to a resource."""
        params = types.SubscribeRequestParams(uri=str(uri), _meta=meta)
        found: EmptyResult = await self._send(types.SubscribeRequest, params, EmptyResult)
        return found

    @deprecated(UNSUBSCRIBE, category=MCPDeprecationWarning)
    async def unsubscribe_resource(self, uri: str, *, meta: RequestParamsMeta | None = None) -> EmptyResult:
        """End the subscription to a resource."""
        params = types.UnsubscribeRequestParams(uri=str(uri), _meta=meta)
        found: EmptyResult = await self._send(types.UnsubscribeRequest, params, EmptyResult)
        return found

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
        allow_input_required: bool = False,
        allow_claimed: bool = False,
    ) -> Any:
        """Call a tool.

        Raises:
            MCPError: the server sent an error response, did not respond in time, or is gone.
            RuntimeError: the structured result does not fit the schema of the tool, or the result has questions and
                ``allow_input_required`` is false.
            UnexpectedClaimedResult: the result has a type of an extension, and ``allow_claimed`` is false.
        """
        params = types.CallToolRequestParams(
            name=name, arguments=arguments, input_responses=input_responses, request_state=request_state, _meta=meta
        )
        result = await self.send_request(
            types.CallToolRequest(params=params),
            types.CallToolResult,
            read_timeout_seconds,
            progress_callback=progress_callback,
        )
        _expected(result, "call_tool", allow_input_required)
        if isinstance(result, types.CallToolResult) and not result.is_error:
            await self.validate_tool_result(name, result)
        if not allow_claimed and not isinstance(result, types.CallToolResult | types.InputRequiredResult):
            raise UnexpectedClaimedResult(result)
        return result

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Check the structured result of a tool.

        Raises:
            RuntimeError: it does not fit the schema of the tool.
        """
        if name not in self._schemas:
            await self.list_tools()
        schema = self._schemas.get(name)
        if schema is None:
            return
        if result.structured_content is None and "structured_content" not in result.model_fields_set:
            raise RuntimeError(f"Tool {name} has an output schema but did not return structured content")
        problem = self._validators.error_of(result.structured_content, schema)
        if problem is not None:
            raise RuntimeError(f"Invalid structured content returned by tool {name}: {problem}")

    async def complete(
        self,
        ref: Any,
        argument: dict[str, str],
        context_arguments: dict[str, str] | None = None,
        *,
        meta: RequestParamsMeta | None = None,
    ) -> types.CompleteResult:
        """Return suggestions for an argument of a prompt or a variable of a template."""
        context = None if context_arguments is None else types.CompletionContext(arguments=context_arguments)
        params = types.CompleteRequestParams(
            ref=ref, argument=types.CompletionArgument(**argument), context=context, _meta=meta
        )
        return await self._send(types.CompleteRequest, params, types.CompleteResult)

    async def follow(self, params: bytes, subscriber: Any) -> None:
        """Send a request for a stream of events, which ``subscriber`` gets, and wait for the end of the stream.

        Raises:
            MCPError: the server refuses, or is gone.
        """
        connection = self._connection
        if connection is None:
            raise MCPError(CONNECTION_CLOSED, "Connection closed")
        try:
            await connection.call(LISTEN, struct_of(params, LISTEN.params), timeout=None, subscriber=subscriber)
        except (PeerError, TransportError, InvalidMessage) as error:
            _fail(error, LISTEN.method, None)

    async def dispatch_input_request(self, key: str, request: Any) -> Any:
        """Return the answer of a callback to a question of a result: a result, or ``ErrorData``."""
        return await self._callbacks.ask(request.method, request.params, key)

    # Notifications

    async def send_notification(self, notification: Any) -> None:
        """Send a notification."""
        connection, params = self._connection, notification.params
        data = None if params is None else json_of(params)
        over_http = connection is not None and connection.transport.streams
        await send_notification(connection, notification.method, data, REQUEST_CANCELLED if over_http else None)

    @deprecated(PROGRESS, category=MCPDeprecationWarning)
    async def send_progress_notification(
        self, progress_token: str | int, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a progress notification."""
        params = types.ProgressNotificationParams(
            progress_token=progress_token, progress=progress, total=total, message=message
        )
        await self.send_notification(types.ProgressNotification(params=params))

    @deprecated(ROOTS, category=MCPDeprecationWarning)
    async def send_roots_list_changed(self) -> None:
        """Notify the server that the roots have changed."""
        await self.send_notification(types.RootsListChangedNotification())

    # Callbacks of the connection

    def take_notice(self, notice: ServerNotification) -> None:
        """Pass a notification on to the callbacks, in the order of arrival."""
        if not self._bound.take(notice.event, notice.params):
            self._callbacks.take(notice.event, notice.params)

    def take_log(
        self, params: LoggingMessageParams, call: ClientCall[Any] | None, calls: tuple[ClientCall[Any], ...]
    ) -> None:
        """Pass a log message on to the callbacks, in the order of arrival."""
        self._callbacks.take("message", params)

    async def answer(
        self, request: IncomingRequest, call: ClientCall[Any] | None, calls: tuple[ClientCall[Any], ...]
    ) -> Any:
        """Return the answer of a callback to a request of the server."""
        return await self._callbacks.answer(request)

    def broken(self) -> None:
        """Do nothing: a request notices whether the server is gone."""

    def interrupted(self) -> None:
        """Do nothing: nothing is kept that notifications keep fresh."""

    def lost(self, link: ClientConnection) -> None:
        """Do nothing: requests fail by themselves."""


def _session_message(message: bytes) -> SessionMessage:
    return SessionMessage(jsonrpc_message_adapter.validate_json(message))


def _expected(result: Any, method: str, allowed: bool) -> Any:
    if isinstance(result, types.InputRequiredResult) and not allowed:
        raise RuntimeError(
            "Server returned InputRequiredResult; pass allow_input_required=True to receive it "
            f"and retry {method}(..., input_responses=..., request_state=result.request_state)."
        )
    return result


def _fail(error: Exception, method: str, timeout: float | None) -> NoReturn:
    """Raise the exception of the face for one of Carrel."""
    if isinstance(error, AuthorizationError):
        raise flow_error(error) or error from None
    if isinstance(error, PeerError):
        raise MCPError(error.code, error.message, error.data) from None
    if isinstance(error, RequestTimeout):
        raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out after {timeout} seconds") from None
    if isinstance(error, MethodNotFound):
        raise MCPError(METHOD_NOT_FOUND, str(error)) from None
    if isinstance(error, InvalidMessage):
        raise MCPError(INVALID_REQUEST, str(error)) from None
    raise MCPError(CONNECTION_CLOSED, "Connection closed") from error
