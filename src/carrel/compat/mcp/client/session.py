"""Session of a client, in the terms of ``mcp`` 1.x, over a connection of Carrel's client."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import msgspec
from pydantic import AnyUrl, BaseModel

from carrel.client.connection import ClientConnection
from carrel.client.handlers import ClientCall
from carrel.client.negotiation import ServerFacts, shake_hands
from carrel.client.pending_request import Waiter
from carrel.compat.mcp import types
from carrel.compat.mcp.client.auth.exceptions import flow_error
from carrel.compat.mcp.client.callbacks import Callbacks
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.shared.session import ProgressFnT
from carrel.compat.mcp.types import base
from carrel.compat.outgoing import send_notification
from carrel.compat.streams import ClientStream, StreamTransport, flush
from carrel.compat.validation import Validators
from carrel.compat.wire import json_of, model_of, struct_of
from carrel.errors import AuthorizationError, MethodNotFound, PeerError, ProtocolError, RequestTimeout, TransportError
from carrel.log import Log
from carrel.protocol.client import ClientProtocol, IncomingRequest, ServerNotification
from carrel.protocol.methods import RequestType
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import LATEST_HANDSHAKE, REQUESTS
from carrel.transports import held_output
from carrel.wire.base import Implementation, PageParams, Result
from carrel.wire.client_features import InputRequiredResult
from carrel.wire.utilities import LoggingMessageParams

__all__ = [
    "DEFAULT_CLIENT_INFO",
    "ClientSession",
    "ElicitationFnT",
    "ListRootsFnT",
    "LoggingFnT",
    "MessageHandlerFnT",
    "SamplingFnT",
    "converted",
]

logger = Log("client")

M = TypeVar("M", bound=BaseModel)
Callback: TypeAlias = Callable[..., Awaitable[Any]]
Opening: TypeAlias = Callable[..., Awaitable[ServerFacts]]
SamplingFnT = ElicitationFnT = ListRootsFnT = LoggingFnT = MessageHandlerFnT = Callback
DEFAULT_CLIENT_INFO = base.Implementation(name="mcp", version="0.1.0")
TIMED_OUT = 408
MAX_ROUNDS = 20


class ClientSession:
    """Session with a server. Enter it, call ``initialize``, then send requests."""

    def __init__(
        self,
        read_stream: Any,
        write_stream: Any,
        read_timeout_seconds: timedelta | None = None,
        sampling_callback: Callback | None = None,
        elicitation_callback: Callback | None = None,
        list_roots_callback: Callback | None = None,
        logging_callback: Callback | None = None,
        message_handler: Callback | None = None,
        client_info: base.Implementation | None = None,
        *,
        sampling_capabilities: types.SamplingCapability | None = None,
        experimental_task_handlers: Any = None,
    ) -> None:
        self._streams = read_stream, write_stream
        self._session_read_timeout_seconds = (
            None if read_timeout_seconds is None else read_timeout_seconds.total_seconds()
        )
        self._callbacks = Callbacks(
            self,
            sampling=sampling_callback,
            elicitation=elicitation_callback,
            roots=list_roots_callback,
            logging=logging_callback,
            message=message_handler,
            sampling_capabilities=sampling_capabilities,
        )
        self._info = client_info or base.Implementation(name="mcp", version="0.1.0")
        self._connection: ClientConnection | None = None
        self._server_capabilities: types.ServerCapabilities | None = None
        self._schemas: dict[str, dict[str, Any] | None] = {}
        self._validators = Validators()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, self._connection = self._connection, None
        try:
            await self._callbacks.stop()
        finally:
            if connection is not None:
                await connection.close()

    # Opening

    async def initialize(self) -> types.InitializeResult:
        """Open the connection, with the handshake of the newest revision that has one.

        Raises:
            McpError: the server refuses, or is gone.
            RuntimeError: there is no revision that both sides support.
        """
        return await self.open_with(shake_hands)

    async def open_with(self, open_revision: Opening, revision: Revision = LATEST_HANDSHAKE) -> types.InitializeResult:
        """Open the connection: negotiate a revision in the manner of a function.

        Raises:
            McpError: the server refuses, or is gone.
            RuntimeError: there is no revision that both sides support.
        """
        connection = await self._open()
        try:
            facts = await open_revision(connection, revision, timeout=self._session_read_timeout_seconds or math.inf)
        except (AuthorizationError, PeerError, TransportError) as error:
            raise self._error(error, types.InitializeRequest, self._session_read_timeout_seconds) from None
        except ProtocolError as error:
            raise RuntimeError(f"Unsupported protocol version from the server: {error}") from None
        await flush(connection.transport)
        declared = model_of(facts.capabilities, types.ServerCapabilities)
        self._server_capabilities = declared
        return types.InitializeResult(
            protocolVersion=facts.revision.name,
            capabilities=declared,
            serverInfo=model_of(facts.info or Implementation("unknown", "0"), base.Implementation),
            instructions=facts.instructions,
        )

    async def _open(self) -> ClientConnection:
        held_output.release()
        read, write = self._streams
        transport = read.open() if isinstance(read, ClientStream) else StreamTransport(read, write)
        protocol: ClientProtocol[Waiter] = ClientProtocol(
            struct_of(self._info, Implementation), self._callbacks.capabilities()
        )
        connection = self._connection = ClientConnection(transport, protocol, self)
        self._callbacks.start()
        await connection.open()
        return connection

    def get_server_capabilities(self) -> types.ServerCapabilities | None:
        """Return the capabilities of the server; None before ``initialize``."""
        return self._server_capabilities

    # Requests

    async def send_request(
        self,
        request: Any,
        result_type: type[M],
        request_read_timeout_seconds: timedelta | None = None,
        metadata: Any = None,
        progress_callback: ProgressFnT | None = None,
    ) -> M:
        """Send a request, and return its result.

        Raises:
            McpError: the server sent an error response, did not respond in time, or is gone.
        """
        message: Any = getattr(request, "root", request)
        seconds = request_read_timeout_seconds
        timeout = self._session_read_timeout_seconds if seconds is None else seconds.total_seconds()
        row = REQUESTS.get(message.method)
        connection = self._connection
        if connection is None:
            raise McpError(base.ErrorData(code=base.CONNECTION_CLOSED, message="Connection closed"))
        params = message.params
        if row is None:
            return await self._send_added(connection, message, result_type, timeout)
        meta = None if params is None or params.meta is None else params.meta.model_dump(exclude_none=True)
        struct = row.params() if issubclass(row.params, PageParams) else None
        if params is not None:
            struct = struct_of(json_of(params), row.params)
        elif struct is None:
            struct = row.params()
        progress = None if progress_callback is None else self._callbacks.progress(progress_callback)
        try:
            kind = self._kind_of(row)
            result = await connection.call(row, struct, timeout=timeout, meta=meta, progress=progress, result=kind)
            for _ in range(MAX_ROUNDS):
                if not isinstance(result, InputRequiredResult):
                    break
                from carrel.compat.mcp.client.input_rounds import next_params

                struct = await next_params(struct, result, self._callbacks)
                result = await connection.call(row, struct, timeout=timeout, meta=meta, progress=progress, result=kind)
        except (AuthorizationError, PeerError, TransportError, MethodNotFound) as error:
            raise self._error(error, type(message), timeout) from None
        return self._read(result, result_type)

    def _kind_of(self, row: RequestType) -> type[Result] | None:
        """Return the type of the result of a request; None for the type that the protocol has."""
        return None

    def _read(self, result: Any, result_type: type[M]) -> M:
        """Return the model of a result."""
        return model_of(result, result_type)

    def _error(self, error: Exception, request: type[BaseModel], timeout: float | None) -> Exception:
        """Convert an exception that a request raised in Carrel to this package's exception."""
        return converted(error, request, timeout)

    async def _send_added(
        self, connection: ClientConnection, message: Any, result_type: type[M], timeout: float | None
    ) -> M:
        """Send a request that the protocol does not have."""
        from carrel.compat.mcp2.client.requests import custom_request

        params = message.params
        given = {} if params is None else params.model_dump(mode="json", by_alias=True, exclude_none=True)
        meta = given.pop("_meta", None)
        row, struct, result = custom_request(connection.connection, message.method, given, result_type)
        try:
            found = await connection.call(row, struct, timeout=timeout, meta=meta, result=result)
        except (AuthorizationError, PeerError, TransportError, MethodNotFound) as error:
            raise self._error(error, type(message), timeout) from None
        return model_of(found, result_type)

    async def _page(self, kind: Any, result: type[M], cursor: str | None, params: Any) -> M:
        if cursor is not None and params is not None:
            raise ValueError("Cannot specify both cursor and params")
        given = base.PaginatedRequestParams(cursor=cursor) if cursor is not None else params
        return await self.send_request(kind(params=given), result)

    async def send_ping(self) -> base.EmptyResult:
        """Send a ping."""
        return await self.send_request(types.PingRequest(), base.EmptyResult)

    async def set_logging_level(self, level: types.LoggingLevel) -> base.EmptyResult:
        """Set the log level of the server."""
        params = types.SetLevelRequestParams(level=level)
        return await self.send_request(types.SetLevelRequest(params=params), base.EmptyResult)

    async def list_resources(
        self, cursor: str | None = None, *, params: base.PaginatedRequestParams | None = None
    ) -> types.ListResourcesResult:
        """Return a page of the resources."""
        return await self._page(types.ListResourcesRequest, types.ListResourcesResult, cursor, params)

    async def list_resource_templates(
        self, cursor: str | None = None, *, params: base.PaginatedRequestParams | None = None
    ) -> types.ListResourceTemplatesResult:
        """Return a page of the resource templates."""
        return await self._page(types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult, cursor, params)

    async def read_resource(self, uri: AnyUrl | str) -> types.ReadResourceResult:
        """Read a resource."""
        params = types.ReadResourceRequestParams.model_validate({"uri": uri})
        request = types.ReadResourceRequest(params=params)
        return await self.send_request(request, types.ReadResourceResult)

    async def subscribe_resource(self, uri: AnyUrl | str) -> base.EmptyResult:
        """Subscribe to a resource."""
        params = types.SubscribeRequestParams.model_validate({"uri": uri})
        return await self.send_request(types.SubscribeRequest(params=params), base.EmptyResult)

    async def unsubscribe_resource(self, uri: AnyUrl | str) -> base.EmptyResult:
        """End the subscription to a resource."""
        params = types.UnsubscribeRequestParams.model_validate({"uri": uri})
        return await self.send_request(types.UnsubscribeRequest(params=params), base.EmptyResult)

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: timedelta | None = None,
        progress_callback: ProgressFnT | None = None,
        *,
        meta: dict[str, Any] | None = None,
    ) -> types.CallToolResult:
        """Call a tool.

        Raises:
            McpError: the server sent an error response, did not respond in time, or is gone.
            RuntimeError: the structured result does not fit the schema of the tool.
        """
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        if meta is not None:
            params.meta = base.RequestParams.Meta(**meta)
        result = await self.send_request(
            types.CallToolRequest(params=params),
            types.CallToolResult,
            read_timeout_seconds,
            progress_callback=progress_callback,
        )
        if not result.isError:
            await self._check(name, result)
        return result

    async def _check(self, name: str, result: types.CallToolResult) -> None:
        if name not in self._schemas:
            await self.list_tools()
        if name not in self._schemas:
            logger.warning("Tool %s not listed by server, cannot validate any structured content", name)
        schema = self._schemas.get(name)
        if schema is None:
            return
        if result.structuredContent is None:
            raise RuntimeError(f"Tool {name} has an output schema but did not return structured content")
        problem = self._validators.error_of(result.structuredContent, schema)
        if problem is not None:
            raise RuntimeError(f"Invalid structured content returned by tool {name}: {problem}")

    async def list_tools(
        self, cursor: str | None = None, *, params: base.PaginatedRequestParams | None = None
    ) -> types.ListToolsResult:
        """Return a page of the tools."""
        result = await self._page(types.ListToolsRequest, types.ListToolsResult, cursor, params)
        self._schemas.update((tool.name, tool.outputSchema) for tool in result.tools)
        return result

    async def list_prompts(
        self, cursor: str | None = None, *, params: base.PaginatedRequestParams | None = None
    ) -> types.ListPromptsResult:
        """Return a page of the prompts."""
        return await self._page(types.ListPromptsRequest, types.ListPromptsResult, cursor, params)

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> types.GetPromptResult:
        """Return the messages of a prompt."""
        params = types.GetPromptRequestParams(name=name, arguments=arguments)
        request = types.GetPromptRequest(params=params)
        return await self.send_request(request, types.GetPromptResult)

    async def complete(
        self,
        ref: types.ResourceTemplateReference | types.PromptReference,
        argument: dict[str, str],
        context_arguments: dict[str, str] | None = None,
    ) -> types.CompleteResult:
        """Return suggestions for an argument of a prompt or a variable of a template."""
        context = None
        if context_arguments is not None:
            context = types.CompletionContext(arguments=context_arguments)
        params = types.CompleteRequestParams(ref=ref, argument=types.CompletionArgument(**argument), context=context)
        request = types.CompleteRequest(params=params)
        return await self.send_request(request, types.CompleteResult)

    # Notifications

    async def send_notification(self, notification: Any, related_request_id: base.RequestId | None = None) -> None:
        """Send a notification."""
        message = getattr(notification, "root", notification)
        params = message.params
        encoded = json_of(params) if isinstance(params, BaseModel) else msgspec.json.encode(params or {})
        await send_notification(self._connection, message.method, encoded)

    async def send_progress_notification(
        self, progress_token: str | int, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a progress notification."""
        params = types.ProgressNotificationParams(
            progressToken=progress_token, progress=progress, total=total, message=message
        )
        await self.send_notification(types.ClientNotification(types.ProgressNotification(params=params)))

    async def send_roots_list_changed(self) -> None:
        """Notify the server that the roots have changed."""
        await self.send_notification(base.Notification(method="notifications/roots/list_changed", params=None))

    # Callbacks of the connection

    def take_notice(self, notice: ServerNotification) -> None:
        """Pass a notification on to the callbacks, in the order of arrival."""
        self._callbacks.take_notice(notice)

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


def converted(error: Exception, request: type[BaseModel], timeout: float | None) -> Exception:
    """Return the exception of the face for one of Carrel."""
    if isinstance(error, AuthorizationError):
        return flow_error(error) or error
    if isinstance(error, PeerError):
        return McpError(base.ErrorData(code=error.code, message=error.message, data=error.data))
    if isinstance(error, RequestTimeout):
        waited = f"Timed out while waiting for response to {request.__name__}. Waited {timeout} seconds."
        return McpError(base.ErrorData(code=TIMED_OUT, message=waited))
    if isinstance(error, MethodNotFound):
        return McpError(base.ErrorData(code=base.METHOD_NOT_FOUND, message=str(error)))
    return McpError(base.ErrorData(code=base.CONNECTION_CLOSED, message="Connection closed", data=str(error)))
