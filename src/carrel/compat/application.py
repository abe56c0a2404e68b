"""Application: a server of Carrel with request handlers that use the models of ``mcp`` 1.x.

Carrel provides protocol, dispatch and transports. Each handler takes a request model and returns a result model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import msgspec
from pydantic import BaseModel, ValidationError

from carrel.catalog.provider import Page, Provider, Request
from carrel.compat.exchange import Exchange, current_exchange, http_scope
from carrel.compat.mcp import types
from carrel.compat.mcp.server.models import InitializationOptions
from carrel.compat.mcp.server.session import ServerSession
from carrel.compat.mcp.shared.context import RequestContext
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.wire import json_of, struct_of
from carrel.errors import InvalidParams, MethodNotFound, ProtocolError
from carrel.log import Log
from carrel.protocol.channel import Channel
from carrel.protocol.encoding import encode
from carrel.protocol.server import Call
from carrel.server.app import Server
from carrel.server.session_state import SessionState
from carrel.wire.base import Icon, Implementation, PageResult
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.prompts import GetPromptResult, ListPromptsResult, Prompt
from carrel.wire.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from carrel.wire.tools import CallToolResult, ListToolsResult, Tool

__all__ = ["Application", "Handler", "HandlerError", "request_ctx"]

Handler: TypeAlias = Callable[..., Awaitable[Any]]
Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]

log = Log("carrel.compat")

request_ctx: ContextVar[RequestContext[ServerSession, Any, Any]] = ContextVar("request_ctx")
"""Context of the request that the running handler answers."""

#: Requests that handlers answer, by the names of their operations.
REQUESTS: dict[str, type[BaseModel]] = {
    "call_tool": types.CallToolRequest,
    "complete": types.CompleteRequest,
    "get_prompt": types.GetPromptRequest,
    "list_prompts": types.ListPromptsRequest,
    "list_resource_templates": types.ListResourceTemplatesRequest,
    "list_resources": types.ListResourcesRequest,
    "list_tools": types.ListToolsRequest,
    "read_resource": types.ReadResourceRequest,
    "set_level": types.SetLevelRequest,
    "subscribe": types.SubscribeRequest,
    "unsubscribe": types.UnsubscribeRequest,
}
CALLS = (types.CallToolRequest, types.GetPromptRequest, types.ReadResourceRequest)
S = TypeVar("S", bound=PageResult)
T = TypeVar("T")


class HandlerError(ProtocolError):
    """Error response with the code, message and data that a handler gave."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message, data)
        self.code = code


class Application(Server[Any]):
    """Server of Carrel whose requests are answered by the handlers of a server in the terms of ``mcp`` 1.x.

    ``handlers`` are by request type, and may change. Whatever ``options`` declare is declared to clients.
    """

    def __init__(
        self,
        handlers: Mapping[type, Handler],
        options: InitializationOptions,
        lifespan: Lifespan,
        *,
        raise_exceptions: bool = False,
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
        self._handlers = handlers
        self._raises = raise_exceptions
        self._sessions: WeakKeyDictionary[SessionState, ServerSession] = WeakKeyDictionary()
        self.add_provider(HandlersProvider(self, handlers))
        for operation, kind in REQUESTS.items():
            self.endpoint.runtime.operations[operation] = partial(self._answer, kind)

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities that the author declares."""
        return self._declared

    def _answer(self, kind: type[BaseModel], call: Call, channel: Channel) -> Awaitable[Any]:
        handler = self._handlers.get(kind)
        if handler is None:
            raise MethodNotFound("Method not found")
        return self._run(handler, request_of(kind, call), Exchange(self.endpoint.runtime, call, channel))

    async def ask(self, operation: str, params: Mapping[str, Any], request: Request) -> bytes:
        """Call the handler of an operation, and return its result as JSON.

        Raises:
            MethodNotFound: the operation has no handler.
        """
        kind = REQUESTS[operation]
        handler = self._handlers.get(kind)
        if handler is None or request.call is None or request.channel is None:
            raise MethodNotFound("Method not found")
        given = kind.model_validate({"method": kind.model_fields["method"].default, "params": params})
        result = await self._run(handler, given, Exchange(self.endpoint.runtime, request.call, request.channel))
        return result if isinstance(result, bytes) else encode(result)

    async def _run(self, handler: Handler, request: Any, exchange: Exchange) -> Any:
        call = exchange.call
        await exchange.begin()
        session = self._session(exchange)
        scope = http_scope.get() or _scope_of(call)
        context: RequestContext[ServerSession, Any, Any] = RequestContext(
            call.id,
            None if request.params is None else request.params.meta,
            session,
            self.state,
            request=None if scope is None else _http_request(scope),
        )
        entered = current_exchange.set(exchange), request_ctx.set(context), http_scope.set(scope)
        try:
            result = await handler(request)
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
        encoded = json_of(model)
        return struct_of(encoded, call.request.result) if call.peer.revision.stateless else encoded

    def _session(self, exchange: Exchange) -> ServerSession:
        """Return the session of a request, the same object for all requests of a session."""
        call = exchange.call
        if call.peer.revision.stateless:
            session = ServerSession(call)
        else:
            key = self.endpoint.runtime.session_of(call)
            session = self._sessions.get(key) or ServerSession(call)
            self._sessions[key] = session
        session.last = exchange
        return session


class Everything:
    """Names of tools or prompts, of which the handlers alone know which there are."""

    def __contains__(self, name: object) -> bool:
        return True


class HandlersProvider(Provider):
    """Provider of the items that handlers return, for the catalog of their server and of outer servers."""

    catch_all = True
    tool_names = prompt_names = Everything()

    def __init__(self, app: Application, handlers: Mapping[type, Handler]) -> None:
        self.name = "handlers"
        self._app = app
        self._handlers = handlers

    def offers(self, method: str) -> bool:
        """Return whether there is a handler for a method; a call without one is refused by the server itself."""
        kind = REQUESTS.get({"list_templates": "list_resource_templates"}.get(method, method))
        return kind in self._handlers or kind in CALLS

    async def _page(
        self, operation: str, request: Request, result: type[S], items: Callable[[S], Sequence[T]]
    ) -> Page[T]:
        if request.call is None:
            return Page(())  # the catalog wants to know before any client asks, and handlers answer clients
        params = {} if request.cursor is None else {"cursor": request.cursor}
        found = struct_of(await self._app.ask(operation, params, request), result)
        return Page(items(found), found.next_cursor)

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return the handler's list."""
        return await self._page("list_resources", request, ListResourcesResult, lambda found: found.resources)

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return the handler's list."""
        return await self._page(
            "list_resource_templates", request, ListResourceTemplatesResult, lambda found: found.resource_templates
        )

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return the handler's list."""
        return await self._page("list_tools", request, ListToolsResult, lambda found: found.tools)

    async def list_prompts(self, request: Request) -> Page[Prompt]:
        """Return the handler's list."""
        return await self._page("list_prompts", request, ListPromptsResult, lambda found: found.prompts)

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return the handler's contents."""
        return struct_of(await self._app.ask("read_resource", {"uri": uri}, request), ReadResourceResult)

    async def call_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> CallToolResult:
        """Return the result of the handler."""
        params = {"name": name, "arguments": msgspec.json.decode(arguments)}
        return struct_of(await self._app.ask("call_tool", params, request), CallToolResult)

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> GetPromptResult:
        """Return the messages of the handler."""
        params = {"name": name, "arguments": dict(arguments)}
        return struct_of(await self._app.ask("get_prompt", params, request), GetPromptResult)


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


def _scope_of(call: Call) -> dict[str, Any] | None:
    """Return an ASGI scope with the headers of a request that Carrel's own transport has received; None for others."""
    if not call.headers:
        return None
    headers = [(name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in call.headers.items()]
    return {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}


def _http_request(scope: Any) -> Any:
    from starlette.requests import Request  # only over HTTP, where it is installed

    return Request(scope)
