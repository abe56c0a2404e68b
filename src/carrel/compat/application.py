"""Application: a server of Carrel with request handlers that use the models of ``mcp`` 1.x.

Carrel provides protocol, dispatch and transports. Each handler takes a request model and returns a result model.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, TypeAlias, cast, get_args
from weakref import WeakKeyDictionary

import msgspec
from pydantic import BaseModel, ValidationError

from carrel.catalog.provider import Request
from carrel.compat.exchange import Exchange, current_exchange, http_scope
from carrel.compat.handlers_provider import HandlersProvider
from carrel.compat.mcp import types
from carrel.compat.mcp.server.call_session import CallSession
from carrel.compat.mcp.server.models import InitializationOptions
from carrel.compat.mcp.server.session import ServerSession
from carrel.compat.mcp.shared.context import RequestContext
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.notified import NotifiedConnection, answering_cancelled
from carrel.compat.requests import HandlerError, http_request, scope_of
from carrel.compat.wire import json_of, struct_of
from carrel.errors import InvalidParams, MethodNotFound, ProtocolError
from carrel.log import Log
from carrel.protocol.channel import Channel
from carrel.protocol.encoding import encode
from carrel.protocol.extension import Extension
from carrel.protocol.methods import RequestType
from carrel.protocol.revisions import LATEST
from carrel.protocol.server import Call
from carrel.server.app import Server
from carrel.server.runtime import Operation
from carrel.server.session_state import SessionState
from carrel.wire.base import Icon, Implementation, Params, Result
from carrel.wire.lifecycle import DiscoverResult, ServerCapabilities

__all__ = ["Application", "Handler", "HandlerError", "request_ctx"]

Handler: TypeAlias = Callable[..., Awaitable[Any]]
Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]

log = Log("carrel.compat")

request_ctx: ContextVar[RequestContext[ServerSession, Any, Any]] = ContextVar("request_ctx")
"""Context of the request that the running handler answers."""

#: Extension whose methods are the methods that a program adds to the protocol.
ADDED = "carrel/handlers"
#: Types of the requests that handlers answer, by the names of their operations.
REQUESTS = {
    "call_tool": "CallToolRequest",
    "complete": "CompleteRequest",
    "get_prompt": "GetPromptRequest",
    "list_prompts": "ListPromptsRequest",
    "list_resource_templates": "ListResourceTemplatesRequest",
    "list_resources": "ListResourcesRequest",
    "list_tools": "ListToolsRequest",
    "read_resource": "ReadResourceRequest",
    "set_level": "SetLevelRequest",
    "subscribe": "SubscribeRequest",
    "unsubscribe": "UnsubscribeRequest",
}


@functools.cache
def notifications() -> dict[str, type[BaseModel]]:
    """Return the types of the notifications that handlers take, by their methods."""
    kinds = get_args(types.ClientNotification.model_fields["root"].annotation)
    return {kind.model_fields["method"].default: kind for kind in kinds}


class Application(Server[Any]):
    """Server of Carrel whose requests are answered by the handlers of a server in the terms of ``mcp`` 1.x.

    ``handlers`` are by request type, ``notified`` by notification type; both may change. Whatever ``options`` declare
    is declared to clients.
    ``discovery`` replaces it in the responses to ``server/discover``, which then name the newest revision alone.
    ``added`` are methods that the protocol does not have: the type of their parameters, and their handlers.
    """

    def __init__(
        self,
        handlers: Mapping[type, Handler],
        notified: Mapping[type, Handler],
        options: InitializationOptions,
        lifespan: Lifespan,
        *,
        raise_exceptions: bool = False,
        discovery: types.ServerCapabilities | None = None,
        added: Mapping[str, tuple[type[BaseModel], Handler]] | None = None,
    ) -> None:
        self._declared = struct_of(options.capabilities, ServerCapabilities)
        super().__init__(
            options.server_name or "server",
            options.server_version,
            instructions=options.instructions,
            website_url=options.website_url,
            lifespan=lambda _: lifespan(),
        )
        if options.icons:
            icons = [struct_of(icon, Icon) for icon in options.icons]
            description = self.endpoint.description
            info = description.info
            description.info = Implementation(info.name, info.version, website_url=info.website_url, icons=icons)
        self.endpoint.connect = lambda: NotifiedConnection(  # type: ignore[method-assign]
            self.endpoint.description, self._notify
        )
        self._handlers = handlers
        self._notified = notified
        self._raises = raise_exceptions
        self._sessions: WeakKeyDictionary[SessionState, CallSession] = WeakKeyDictionary()
        self.add_provider(HandlersProvider(self))
        for operation in REQUESTS:
            self.endpoint.runtime.operations[operation] = functools.partial(self._answer, operation)
        if added:
            rows = {method: RequestType(method, f"added:{method}", Params, Result) for method in added}
            answers = {
                rows[method].operation: functools.partial(self._answer_added, *added[method]) for method in added
            }
            self.endpoint.runtime.extend(Extension(name=ADDED, requests=rows, handshake=True), answers)
        if self._declared.extensions:
            operations = self.endpoint.runtime.operations
            operations["initialize"] = functools.partial(self._initialize, operations["initialize"])
        self._is_mcp_2 = discovery is not None  # a program for FastMCP 4
        if discovery is not None:
            result = DiscoverResult(
                supported_versions=[LATEST.name],
                capabilities=struct_of(discovery, ServerCapabilities),
                instructions=options.instructions,
            )
            self.endpoint.runtime.operations["discover"] = lambda call, channel: result

    def _initialize(self, original: Operation, call: Call, channel: Channel) -> bytes:
        """Answer ``initialize`` with the extensions that the author declares. Carrel itself omits them there."""
        result = msgspec.to_builtins(call.peer.revision.project(cast("Result", original(call, channel))))
        result["capabilities"]["extensions"] = self._declared.extensions
        return encode(result)

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities that the author declares."""
        return self._declared

    def _answer(self, operation: str, call: Call, channel: Channel) -> Awaitable[Any]:
        kind, handler = self._handler(operation)
        if kind is None or handler is None:
            raise MethodNotFound("Method not found", call.method if self._is_mcp_2 else None)
        return self._answered(handler, request_of(kind, call), call, channel)

    def _answered(self, handler: Handler, request: Any, call: Call, channel: Channel) -> Coroutine[Any, Any, Any]:
        work = self._run(handler, request, Exchange(self.endpoint.runtime, call, channel))
        return answering_cancelled(work, call, channel, generation=2 if self._is_mcp_2 else 1)

    def _answer_added(
        self, kind: type[BaseModel], handler: Handler, call: Call, channel: Channel
    ) -> Coroutine[Any, Any, Any]:
        """Answer a request of a method that the protocol does not have. Its handler takes context and parameters."""
        try:
            params = kind.model_validate_json(bytes(call.raw))
        except ValidationError as error:
            raise InvalidParams("Invalid request parameters", str(error)) from None

        async def handle(request: Any) -> Any:
            context = request_ctx.get()
            context.method, context.params = call.method, msgspec.json.decode(call.raw)
            context.meta = getattr(params, "meta", None)
            return await handler(context, params)

        return self._answered(handle, None, call, channel)

    def handles(self, operation: str) -> bool:
        """Return whether there is a handler for an operation."""
        return any(kind.__name__ == REQUESTS.get(operation) for kind in self._handlers)

    def _handler(self, operation: str) -> tuple[type[BaseModel], Handler] | tuple[None, None]:
        """Return the type of the requests of an operation and its handler, or None without a handler."""
        name = REQUESTS[operation]
        found = ((kind, handler) for kind, handler in self._handlers.items() if kind.__name__ == name)
        return next(found, (None, None))

    async def ask(self, operation: str, params: Mapping[str, Any], request: Request) -> bytes:
        """Call the handler of an operation, and return its result as JSON.

        Raises:
            MethodNotFound: the operation has no handler.
        """
        kind, handler = self._handler(operation)
        if kind is None or handler is None or request.call is None or request.channel is None:
            raise MethodNotFound("Method not found")
        given = kind.model_validate({"method": kind.model_fields["method"].default, "params": params})
        result = await self._run(handler, given, Exchange(self.endpoint.runtime, request.call, request.channel))
        return result if isinstance(result, bytes) else encode(result)

    def _notify(self, call: Call, params: Mapping[str, Any] | None) -> Coroutine[Any, Any, None] | None:
        """Return the work for a notification; None without a handler."""
        kind = notifications().get(call.method) if self._notified else None
        handler = None if kind is None else self._notified.get(kind)
        return None if kind is None or handler is None else _take_notification(handler, kind, params)

    async def _run(self, handler: Handler, request: Any, exchange: Exchange) -> Any:
        call = exchange.call
        await exchange.begin()
        session = self._session(exchange)
        scope = http_scope.get() or scope_of(call)
        context: RequestContext[ServerSession, Any, Any] = RequestContext(
            call.id,
            None if request is None or request.params is None else request.params.meta,
            session,
            self.state,
            request=None if scope is None else http_request(scope),
            protocol_version=call.peer.revision.name,
        )
        entered = current_exchange.set(exchange), request_ctx.set(context), http_scope.set(scope)
        try:
            result = await getattr(handler, "bare", handler)(request)
        except McpError as error:
            raise HandlerError(error.error.code, error.error.message, error.error.data) from None
        except ProtocolError:
            raise
        except Exception as error:
            if self._raises:
                raise
            log.warning("%s failed: %s", call.method, error)
            raise HandlerError(0, str(error)) from None
        finally:
            current_exchange.reset(entered[0])
            request_ctx.reset(entered[1])
            http_scope.reset(entered[2])
        exchange.end()
        model = cast("BaseModel", getattr(result, "root", result))
        encoded = b"{}" if model is None else json_of(model)
        if not call.peer.revision.stateless:
            return encoded
        if request is not None and getattr(model, "result_type", None) in (None, "complete"):
            return struct_of(encoded, call.request.result)
        whole = msgspec.json.decode(encoded)  # a result of an extension, for which Carrel has no type
        meta = {**self.endpoint.description.identity, **(whole.get("_meta") or {})}
        return encode({"resultType": "complete", **whole, "_meta": meta})

    def _session(self, exchange: Exchange) -> CallSession:
        """Return the session of a request, the same object for all requests of a session."""
        call = exchange.call
        if call.peer.revision.stateless:
            session = CallSession(call)
        else:
            key = self.endpoint.runtime.session_of(call)
            session = self._sessions.get(key) or CallSession(call)
            self._sessions[key] = session
        session.last = exchange
        return session


async def _take_notification(handler: Handler, kind: type[BaseModel], params: Mapping[str, Any] | None) -> None:
    """Call the handler of a notification with its model."""
    try:
        await handler(kind.model_validate({"method": kind.model_fields["method"].default, "params": params}))
    except Exception as error:
        log.warning("the handler of %s failed: %s", kind.__name__, error)


def request_of(kind: type[BaseModel], call: Call) -> Any:
    """Return the request model of a call.

    Raises:
        InvalidParams: its parameters do not fit.
    """
    field = kind.model_fields["params"]
    raw = bytes(call.raw)
    try:
        if raw == b"{}" and not field.is_required():
            return kind.model_construct(method=call.method, params=None)
        params = _params_type(kind).model_validate_json(raw)
    except ValidationError as error:
        raise InvalidParams("Invalid request parameters", str(error)) from None
    return kind.model_construct(method=call.method, params=params)


_known: dict[type[BaseModel], type[BaseModel]] = {}


def _params_type(kind: type[BaseModel]) -> type[BaseModel]:
    """Return the model of the parameters of a request."""
    found = _known.get(kind)
    if found is None:
        annotation: Any = kind.model_fields["params"].annotation
        options = getattr(annotation, "__args__", (annotation,))
        found = _known[kind] = next(each for each in options if each is not type(None))
    return found
