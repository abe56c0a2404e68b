"""Session of a client over a pair of streams of messages, for programs that answer its messages themselves."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Any, Self

import anyio
from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar

from carrel.compat.loggers import get_logger
from carrel.compat.mcp import types
from carrel.compat.mcp.server.client_messages import ClientMessages
from carrel.compat.mcp.server.models import InitializationOptions
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.shared.message import SessionMessage
from carrel.compat.mcp.shared.session import RequestResponder
from carrel.compat.mcp.types import base
from carrel.compat.streams import close_streams
from carrel.compat.wire import json_of
from carrel.protocol.revisions import REVISIONS

__all__ = ["ServerSession", "ServerSessionT"]

ServerSessionT = TypeVar("ServerSessionT", bound="ServerSession", default="ServerSession")
logger = get_logger(__name__)


class ServerSession(ClientMessages):
    """Session of one client. It answers the handshake; ``incoming_messages`` are the other messages.

    ``Server.run`` needs none: Carrel's server keeps the sessions of its clients.
    """

    def __init__(
        self, read_stream: Any, write_stream: Any, init_options: InitializationOptions, stateless: bool = False
    ) -> None:
        self._read, self._write = read_stream, write_stream
        self._options = init_options
        self._client_params: types.InitializeRequestParams | None = None
        self._is_initialized = stateless
        self._waiting: dict[base.RequestId, asyncio.Future[Any]] = {}
        self._in_flight: dict[base.RequestId, RequestResponder[Any, Any]] = {}
        self._incoming, self._messages = anyio.create_memory_object_stream[Any](math.inf)
        self._receiving: asyncio.Task[None] | None = None
        self._last = 0

    async def __aenter__(self) -> Self:
        self._receiving = asyncio.create_task(self._receive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._receiving is not None:
                self._receiving.cancel()
                await asyncio.wait((self._receiving,))
        finally:
            await close_streams(self._incoming, self._messages, self._read, self._write)

    @property
    def client_params(self) -> types.InitializeRequestParams | None:
        """Capabilities and version that the client declared; None before the handshake."""
        return self._client_params

    @property
    def incoming_messages(self) -> Any:
        """Requests as ``RequestResponder``, notifications, and exceptions of the stream."""
        return self._messages

    # Receiving

    async def _receive(self) -> None:
        async with self._read, self._write, self._incoming:
            async for item in self._read:
                if isinstance(item, Exception):
                    self._incoming.send_nowait(item)
                else:
                    await self._take(item.message.root, item.metadata)
        for future in self._waiting.values():
            future.set_exception(McpError(code=base.CONNECTION_CLOSED, message="Connection closed"))

    async def _take(self, message: Any, metadata: Any) -> None:
        if isinstance(message, base.JSONRPCRequest):
            await self._take_request(message, metadata)
        elif isinstance(message, base.JSONRPCNotification):
            await self._take_notification(message)
        else:
            future = self._waiting.pop(message.id, None)
            if future is not None and not future.done():
                future.set_result(message)

    async def _take_request(self, message: base.JSONRPCRequest, metadata: Any) -> None:
        try:
            request = types.ClientRequest.model_validate_json(json_of(message))
        except ValidationError as error:
            logger.warning("refused a request that is not valid: %s", error)
            refused = base.ErrorData(code=base.INVALID_PARAMS, message="Invalid request parameters", data="")
            await self._send_response(message.id, refused)
            return
        given: Any = request.root
        meta = None if given.params is None else given.params.meta
        responder: RequestResponder[Any, Any] = RequestResponder(
            message.id, meta, request, self, self._complete, metadata
        )
        if isinstance(given, types.InitializeRequest):
            await self._initialize(message.id, given.params)
        elif self._is_initialized or isinstance(given, types.PingRequest):
            self._in_flight[message.id] = responder
            self._incoming.send_nowait(responder)
        else:
            early = base.ErrorData(code=base.INVALID_PARAMS, message="Invalid request parameters", data="")
            await self._send_response(message.id, early)

    async def _initialize(self, id: base.RequestId, params: types.InitializeRequestParams) -> None:
        options, version = self._options, str(params.protocolVersion)
        known = version in REVISIONS and not REVISIONS[version].stateless
        self._client_params = params
        info = base.Implementation(
            name=options.server_name,
            version=options.server_version,
            websiteUrl=options.website_url,
            icons=options.icons,
        )
        result = types.InitializeResult(
            protocolVersion=version if known else base.LATEST_PROTOCOL_VERSION,
            capabilities=options.capabilities,
            serverInfo=info,
            instructions=options.instructions,
        )
        await self._send_response(id, types.ServerResult(result))
        self._is_initialized = True

    async def _take_notification(self, message: base.JSONRPCNotification) -> None:
        try:
            notification = types.ClientNotification.model_validate_json(json_of(message))
        except ValidationError as error:
            logger.warning("dropped a notification that is not valid: %s", error)
            return
        if isinstance(notification.root, types.CancelledNotification):
            responder = self._in_flight.get(notification.root.params.requestId)
            if responder is not None:
                await responder.cancel()
            return
        self._is_initialized = self._is_initialized or isinstance(notification.root, types.InitializedNotification)
        self._incoming.send_nowait(notification)

    def _complete(self, responder: RequestResponder[Any, Any]) -> None:
        self._in_flight.pop(responder.request_id, None)

    # Sending

    async def _write_message(self, message: Any, metadata: Any = None) -> None:
        await self._write.send(SessionMessage(base.JSONRPCMessage(message), metadata))

    async def _send_response(self, request_id: base.RequestId, response: Any) -> None:
        """Send the response to a request: a result, or ``ErrorData``."""
        if isinstance(response, base.ErrorData):
            await self._write_message(base.JSONRPCError(jsonrpc="2.0", id=request_id, error=response))
            return
        result = getattr(response, "root", response).model_dump(by_alias=True, mode="json", exclude_none=True)
        await self._write_message(base.JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result))

    async def _send(self, method: str, params: BaseModel | None, *, related: bool = False) -> None:
        given = None if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        await self._write_message(base.JSONRPCNotification(jsonrpc="2.0", method=method, params=given))

    async def _ask(self, method: str, params: BaseModel | None, result: Any) -> Any:
        id, self._last = self._last, self._last + 1
        given = None if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        future = self._waiting[id] = asyncio.get_running_loop().create_future()
        try:
            await self._write_message(base.JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params=given))
            answer = await future
        finally:
            self._waiting.pop(id, None)
        if isinstance(answer, base.JSONRPCError):
            raise McpError(answer.error)
        return result.model_validate(answer.result)
