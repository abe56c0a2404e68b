"""Application: a server of Carrel whose requests are answered by the handlers of a low-level server of ``mcp`` 2.

Carrel provides protocol, dispatch and transports. Each handler takes a context and the model of the parameters, and
returns the model of the result, inside the middleware of its server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError

from carrel.awaitables import resolved
from carrel.catalog.provider import Request
from carrel.compat.exchange import Exchange, current_exchange, http_scope
from carrel.compat.handlers_provider import HandlersProvider
from carrel.compat.loggers import get_logger
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp2.server._otel import OpenTelemetryMiddleware
from carrel.compat.mcp2.server.caching import CacheHint, apply_cache_hint
from carrel.compat.mcp2.server.connection import Connection
from carrel.compat.mcp2.server.context import CallNext, HandlerResult, ServerRequestContext
from carrel.compat.mcp2.server.models import InitializationOptions
from carrel.compat.mcp2.server.request_state import RequestStateBoundary
from carrel.compat.mcp2.server.session import ServerSession
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.types.base import CORE_RESULT_TYPES, SERVER_INFO_META_KEY, CacheableResult, RequestParams
from carrel.compat.mcp2.types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, ErrorData
from carrel.compat.mcp2.types.kinds import INPUT_REQUIRED_METHODS, is_input_required
from carrel.compat.notified import NotifiedConnection, answering_cancelled
from carrel.compat.requests import HandlerError, http_request, scope_of
from carrel.compat.wire import struct_of
from carrel.errors import MethodNotFound, ProtocolError
from carrel.protocol.channel import Channel
from carrel.protocol.encoding import encode
from carrel.protocol.extension import Extension
from carrel.protocol.methods import RequestType
from carrel.protocol.revisions import REQUESTS
from carrel.protocol.server import Call
from carrel.server.app import Server
from carrel.server.runtime import Operation
from carrel.server.session_state import SessionState
from carrel.wire.base import Implementation, Params, Result
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.resources import read_contents

__all__ = ["Application"]

log = get_logger(__name__)

Answer: TypeAlias = Result | bytes

#: Requests that Carrel answers itself, inside the middleware.
OWN = ("initialize",)
#: Middleware that passes requests on, except requests that may ask the client.
PASSING = (OpenTelemetryMiddleware, RequestStateBoundary)
#: Extension whose methods are the methods that a program adds to the protocol.
ADDED = "carrel/handlers"


class Handling(Protocol):
    """Interface of a low-level server."""

    cache_hints: dict[str, CacheHint]
    middleware: list[Any]
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]]

    @property
    def request_methods(self) -> list[str]:
        """The methods that have a handler."""

    def get_request_handler(self, method: str) -> Any:
        """Return the handler of a method, with the model of its parameters; None without one."""

    def get_notification_handler(self, method: str) -> Any:
        """Return the handler of a notification, with the model of its parameters; None without one."""


class Application(Server[Any]):
    """Server of Carrel whose requests are answered by the handlers of a low-level server, which may change."""

    def __init__(self, server: Handling, options: InitializationOptions, *, raise_exceptions: bool = False) -> None:
        self._declared = struct_of(options.capabilities, ServerCapabilities)
        super().__init__(
            options.server_name or "server",
            options.server_version,
            instructions=options.instructions,
            lifespan=lambda _: server.lifespan(server),
        )
        description = self.endpoint.description
        description.info = msgspec.convert(_implementation(options), Implementation)
        description.identity = {SERVER_INFO_META_KEY: description.info}
        self._server = server
        self._raises = raise_exceptions
        self._connections: WeakKeyDictionary[SessionState, Connection] = WeakKeyDictionary()
        self.add_provider(HandlersProvider(self))
        self.endpoint.connect = lambda: NotifiedConnection(description, self._notify)  # type: ignore[method-assign]
        operations = self.endpoint.runtime.operations
        for row in REQUESTS.values():
            operations[row.operation] = partial(self._answer, operations.get(row.operation))
        added = [method for method in server.request_methods if method not in REQUESTS]
        rows = {method: RequestType(method, f"added:{method}", Params, Result) for method in added}
        if rows:
            extension = Extension(name=ADDED, requests=rows, handshake=True)
            answer = partial(self._answer, None)
            self.endpoint.runtime.extend(extension, {row.operation: answer for row in rows.values()})

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities that the author declares."""
        return self._declared

    def handles(self, operation: str) -> bool:
        """Return whether there is a handler for an operation."""
        method = next((row.method for row in REQUESTS.values() if row.operation == operation), "")
        return self._server.get_request_handler(method) is not None

    def _answer(self, original: Operation | None, call: Call, channel: Channel) -> Any:
        own = call.method in OWN
        if own and original is not None and not self._middleware(call.method):
            return original(call, channel)
        exchange = self._exchange(call, channel)
        raw = bytes(call.raw)
        params = None if raw == b"{}" else msgspec.json.decode(raw)
        inner = partial(self._initialize, original, exchange) if own and original is not None else None
        return answering_cancelled(self._run(exchange, call.request, params, inner), call, channel, generation=2)

    def _exchange(self, call: Call, channel: Channel) -> Exchange:
        return Exchange(self.endpoint.runtime, call, channel, fail=MCPError, checks=False)

    async def ask(self, operation: str, params: Mapping[str, Any], request: Request) -> bytes:
        """Call the handler of an operation, and return its result as JSON.

        Raises:
            MethodNotFound: the operation has no handler.
        """
        row = next(row for row in REQUESTS.values() if row.operation == operation)
        if request.call is None or request.channel is None or not self.handles(operation):
            raise MethodNotFound("Method not found")
        result = await self._run(self._exchange(request.call, request.channel), row, params, None)
        return result if isinstance(result, bytes) else encode(result)

    def _middleware(self, method: str) -> list[Any]:
        """Return the middleware of a method, without middleware that would only pass its requests on."""
        idle = (OpenTelemetryMiddleware,) if method in INPUT_REQUIRED_METHODS else PASSING
        return [each for each in self._server.middleware if not isinstance(each, idle)]

    async def _initialize(
        self, original: Operation, exchange: Exchange, context: ServerRequestContext[Any, Any]
    ) -> HandlerResult:
        result = await resolved(original(exchange.call, exchange.channel))
        found: dict[str, Any] = msgspec.to_builtins(result, str_keys=True)
        return found

    async def _run(
        self, exchange: Exchange, row: RequestType, params: Mapping[str, Any] | None, inner: CallNext | None
    ) -> Answer:
        """Handle a request inside the middleware, and return its result.

        Raises:
            HandlerError: a handler has raised an exception.
        """
        context = self._context(exchange, row.method, params)
        scope = http_scope.get() or scope_of(exchange.call)
        context.request = None if scope is None else http_request(scope)
        entered = current_exchange.set(exchange), http_scope.set(scope)
        chain = self._wrapped(row.method, inner or partial(self._handle, row))
        try:
            return self._shape(exchange.call, row, _dumped(await chain(context)))
        except McpError as error:  # also one of ``mcp`` 1, of a program that uses both
            raise HandlerError(error.error.code, error.error.message, error.error.data) from None
        except ValidationError as error:
            log.debug("%s: %s", row.method, error)
            raise HandlerError(INVALID_PARAMS, "Invalid request parameters", "") from None
        except ProtocolError:
            raise
        except Exception as error:
            if self._raises:
                raise
            log.exception("%s failed: %s", row.method, error)
            stateless = exchange.call.peer.revision.stateless
            code, message = (INTERNAL_ERROR, "Internal server error") if stateless else (0, str(error))
            raise HandlerError(code, message) from None
        finally:
            current_exchange.reset(entered[0])
            http_scope.reset(entered[1])

    def _notify(self, call: Call, params: Mapping[str, Any] | None) -> Coroutine[Any, Any, None] | None:
        """Return the work for a notification; None if there is neither a handler nor middleware for it."""
        channel = call.client.channel
        if channel is None or not (self._middleware(call.method) or self._server.get_notification_handler(call.method)):
            return None
        return self._take_notification(self._exchange(call, channel), params)

    async def _take_notification(self, exchange: Exchange, params: Mapping[str, Any] | None) -> None:
        """Call the handler of a notification inside the middleware."""
        method = exchange.call.method
        context = self._context(exchange, method, params)
        context.request_id = context.close_sse_stream = None
        try:
            await self._wrapped(method, self._handle_notification)(context)
        except Exception as error:
            log.exception("the handler of %s failed: %s", method, error)

    async def _handle_notification(self, context: ServerRequestContext[Any, Any]) -> None:
        entry = self._server.get_notification_handler(context.method)
        if entry is not None:
            try:
                params = entry.params_type.model_validate(context.params or {}, by_name=False)
            except ValidationError:
                log.warning("dropped %s: invalid parameters", context.method)
                return
            await entry.handler(context, params)

    def _wrapped(self, method: str, inner: CallNext) -> CallNext:
        """Return a function inside the middleware of a method."""
        for middleware in reversed(self._middleware(method)):
            inner = partial(_call_middleware, middleware, inner)
        return inner

    async def _handle(self, row: RequestType, context: ServerRequestContext[Any, Any]) -> HandlerResult:
        """Call the handler of a request with the model of its parameters."""
        method = context.method
        entry = self._server.get_request_handler(method)
        if entry is None:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", method)
        given = {} if context.params is None else context.params
        result = await entry.handler(context, entry.params_type.model_validate(given, by_name=False))
        if isinstance(result, ErrorData):
            raise MCPError.from_error_data(result)
        hint = self._server.cache_hints.get(method)
        if hint is not None and isinstance(result, CacheableResult):
            result = apply_cache_hint(result, hint)
        elif hint is not None and isinstance(result, Mapping) and not is_input_required(result):
            result = {"ttlMs": hint.ttl_ms, "cacheScope": hint.scope, **result}
        return self._completed(context, row, _dumped(result))

    def _completed(
        self, context: ServerRequestContext[Any, Any], row: RequestType, result: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a result as middleware sees it: checked, and with the fields of its revision."""
        if row.method in REQUESTS and _is_core(result, stateless=not context.session.can_send_request):
            self._struct(row, result)
        if not context.session.can_send_request:
            result.setdefault("resultType", "complete")
        return result

    def _struct(self, row: RequestType, result: dict[str, Any]) -> Answer:
        try:
            found: Result = msgspec.convert(result, row.result, dec_hook=read_contents)
            return found
        except (msgspec.ValidationError, TypeError) as error:
            if not is_input_required(result) and _is_valid(row.method, result):
                return encode(result)  # such as data that is no base64, which the model allows
            log.error("the handler of %s returned an invalid result: %s", row.method, error)
            raise MCPError(INTERNAL_ERROR, "Handler returned an invalid result") from None

    def _shape(self, call: Call, row: RequestType, result: dict[str, Any]) -> Answer:
        """Return a result for Carrel to encode; results that Carrel has no type for are encoded here."""
        stateless = call.peer.revision.stateless
        if row.method in REQUESTS and _is_core(result, stateless=stateless):
            return self._struct(row, result)
        if stateless:
            meta = result.get("_meta")
            if meta is None or isinstance(meta, dict):
                given = {name: value for name, value in (meta or {}).items() if value is not None}
                result = {**result, "_meta": {SERVER_INFO_META_KEY: self.endpoint.description.info, **given}}
        return encode(result)

    def _context(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | None
    ) -> ServerRequestContext[Any, Any]:
        call = exchange.call
        meta: Any = None
        if params is not None and "_meta" in params:
            meta = RequestParams.model_validate({"_meta": params["_meta"]}, by_name=False).meta
        connection = self._connection(call)
        return ServerRequestContext(
            session=ServerSession(exchange, connection, meta),
            lifespan_context=self.state,
            protocol_version=connection.protocol_version,
            method=method,
            params=params,
            request_id=call.id,
            meta=meta,
            close_sse_stream=partial(_pause, exchange.channel),
        )

    def _connection(self, call: Call) -> Connection:
        """Return the connection of a request, the same object for all requests of a session."""
        if call.peer.revision.stateless or call.method == "initialize":
            return Connection(call)
        key = self.endpoint.runtime.session_of(call)
        found = self._connections.get(key)
        if found is None:
            found = self._connections[key] = Connection(call)
        return found


def _call_middleware(middleware: Any, call_next: CallNext, context: Any) -> Awaitable[HandlerResult]:
    called: Awaitable[HandlerResult] = middleware(context, call_next)
    return called


def _is_core(result: Mapping[str, Any], *, stateless: bool) -> bool:
    """Return whether a result has the type of its method: no questions, and no type of an extension."""
    kind = result.get("resultType")
    if not stateless:
        return True
    return not isinstance(kind, str) or (kind in CORE_RESULT_TYPES and kind != "input_required")


def _is_valid(method: str, result: dict[str, Any]) -> bool:
    """Return whether the model of a result takes it."""
    from carrel.compat.mcp2.types.methods import MONOLITH_RESULTS  # which loads the models of all methods

    try:
        TypeAdapter(MONOLITH_RESULTS[method]).validate_python(result, by_name=False)
    except ValidationError:
        return False
    return True


def _dumped(result: Any) -> dict[str, Any]:
    """Return a result as JSON values."""
    if result is None:
        return {}
    if isinstance(result, ErrorData):
        raise MCPError.from_error_data(result)
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    if isinstance(result, dict):
        return dict(result)
    raise TypeError(f"handler returned {type(result).__name__}; expected BaseModel, dict, or None")


def _implementation(options: InitializationOptions) -> dict[str, Any]:
    """Return the name and version of a server as JSON."""
    details: dict[str, Any] = {
        "title": options.title,
        "description": options.description,
        "websiteUrl": options.website_url,
    }
    if options.icons is not None:
        details["icons"] = [icon.model_dump(by_alias=True, exclude_none=True) for icon in options.icons]
    return {"name": options.server_name, "version": options.server_version, **details}


async def _pause(channel: Channel) -> None:
    """Close the stream of a request, for the client to come back."""
    channel.pause()
