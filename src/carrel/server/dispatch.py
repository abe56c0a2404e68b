"""Dispatch of requests: middleware, handler, and the one place where exceptions become errors. For every transport.

@app.middleware
async def timing(call, next):
    started = time.monotonic()
    try:
        return await next(call)
    finally:
        print(call.method, time.monotonic() - started)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from carrel.catalog.access import NAME_VERBS, find_view
from carrel.catalog.request import InputRequired
from carrel.errors import InvalidParams, MethodNotFound, ResourceNotFound, ToolError
from carrel.log import Log
from carrel.protocol.methods import CALL_TOOL
from carrel.protocol.revisions import REQUESTS
from carrel.protocol.server import ErrorResponse
from carrel.server.elicitation.input_required import required_by, withdraw
from carrel.server.failures import is_interrupt, message_of, public_error
from carrel.wire.base import Result, prepared
from carrel.wire.content import TextContent
from carrel.wire.jsonrpc import Message
from carrel.wire.resources import read_contents
from carrel.wire.tools import CallToolResult

if TYPE_CHECKING:
    from carrel.catalog.access import Gate
    from carrel.protocol.channel import Channel
    from carrel.protocol.principal import View
    from carrel.protocol.server import Call
    from carrel.server.runtime import Operation

__all__ = ["Dispatch", "Middleware", "Next"]

log = Log("carrel")

Next: TypeAlias = "Callable[[Call], Awaitable[Result]]"
"""Passes a call on, to the next middleware or to its handler, and returns the result."""
Middleware: TypeAlias = "Callable[[Call, Next], Awaitable[Result]]"


class Requirement:
    """Condition of an operation: that there is anything of a kind, such as tools. Once it is met, it stays met."""

    __slots__ = ("_check", "kind", "met")

    def __init__(self, kind: str, check: Callable[[], bool]) -> None:
        self.kind = kind
        self.met = False
        self._check = check

    def check(self, method: str) -> None:
        """Check the condition.

        Raises:
            MethodNotFound: it is not met.
        """
        self.met = self._check()
        if not self.met:
            raise MethodNotFound(f"Method not found: this server has no {self.kind}")


class Dispatch:
    """Dispatcher of the requests of one server to their handlers.

    ``handlers`` are the handlers by operation name, which may change; ``requirements`` are conditions of some of them.
    With ``gate``, calls get the view of their caller, and the catalog leaves out everything that the view hides.
    """

    def __init__(
        self, handlers: Mapping[str, Operation], requirements: Mapping[str, Requirement], gate: Gate | None = None
    ) -> None:
        self._handlers = handlers
        self._gate = gate
        self._requirements = requirements
        self._middleware: list[tuple[Middleware, frozenset[str]]] = []
        self._wrapped: dict[str, tuple[Operation, Operation]] = {}

    def add_middleware(self, middleware: Middleware, methods: frozenset[str] = frozenset()) -> None:
        """Add middleware around the calls of some methods, or of all. The first one added is the outermost."""
        self._middleware.append((middleware, methods))
        self._wrapped.clear()

    def around(self, method: str) -> list[Middleware]:
        """Return the middleware of a method, the outermost first."""
        return [each for each, methods in self._middleware if not methods or method in methods]

    def answer(self, call: Call, channel: Channel) -> Any:
        """Handle a request: return bytes or a ``ErrorResponse`` at once, or an awaitable of one of them.

        Messages of the call other than its response are sent to ``channel``.
        """
        try:
            operation = call.request.operation
            requirement = self._requirements.get(operation)
            if requirement is not None and not requirement.met:
                requirement.check(call.request.method)
            handler = self._handlers.get(operation)
            if handler is None:
                raise MethodNotFound(f"Method not found: {call.request.method}")
            if self._gate is not None or call.principal is not None:
                call.connection.principal = call.principal
                call.view = find_view(self._gate, call.principal)
                if call.view is not None and call.request.method not in REQUESTS:
                    _check_target(call, call.view)
            if self._middleware:
                handler = self._wrap(call.request.method, handler)
            result = handler(call, channel)
            if hasattr(result, "__await__"):
                if call.request.endless and isinstance(result, asyncio.Future):  # its response, at the end
                    return result
                return self._answer_later(call, result)
            return call.connection.reply(call, result)
        except BaseException as error:  # not a cancellation: nothing has been awaited yet
            return self.reject(call, error)

    async def _answer_later(
        self, call: Call, pending: Awaitable[Result | bytes | ErrorResponse]
    ) -> bytes | ErrorResponse:
        try:
            try:
                result = await pending
            except (InputRequired, BaseExceptionGroup) as more:
                result = await required_by(more)
            return result if isinstance(result, ErrorResponse) else call.connection.reply(call, result)
        except (asyncio.CancelledError, GeneratorExit):
            raise  # from the function, or from the task that awaits this
        except BaseException as error:
            return self.reject(call, error)
        finally:
            if call.connection.waiting:
                withdraw(call)

    @staticmethod
    def reject(call: Call, error: BaseException) -> ErrorResponse:
        """Return the error response of a call, and log the error if the response hides it.

        Raises:
            KeyboardInterrupt: the user has pressed Ctrl-C, and nothing else ends the process then.
        """
        if is_interrupt(error):
            raise error
        try:
            return call.connection.reject(call, public_error(call.request.method, error))
        except Exception as worse:  # the data of the error cannot be turned into JSON
            return call.connection.reject(call, public_error(call.request.method, worse))

    def _wrap(self, method: str, handler: Operation) -> Operation:
        """Return a handler in the middleware of its method."""
        known = self._wrapped.get(method)
        if known is not None and known[0] == handler:
            return known[1]
        around = self.around(method)
        wrapped: Operation = partial(_run, around, handler) if around else handler
        self._wrapped[method] = handler, wrapped
        return wrapped


def _check_target(call: Call, view: View) -> None:
    """Check that a caller may use the target of an extension's request; the catalog checks all other requests.

    Raises:
        ResourceNotFound: the resource is hidden from the caller.
        InvalidParams: the tool or prompt is hidden from the caller.
    """
    from carrel.protocol.extensions.skills import SKILLS  # loaded on first use

    row = call.request
    if row.method in SKILLS.requests:
        return
    target = row.find_target(call.params)
    if row.verb in NAME_VERBS:
        if isinstance(target, str) and not view.allows(row.verb, target):
            kind = "tool" if row.verb == "call" else "prompt"
            raise InvalidParams(f"Invalid params: unknown {kind}: {target[:200]}", parameter=row.target)
    elif row.names_resources:
        for uri in target if isinstance(target, list) else (target,):
            if isinstance(uri, str) and not view.allows(row.verb or "read", uri):
                raise ResourceNotFound(uri)


async def _run(around: list[Middleware], handler: Operation, call: Call, channel: Channel) -> Any:
    """Run a handler in middleware. A ``ToolError`` of middleware around a tool call is a result, as from the tool."""

    async def last(call: Call) -> Any:
        return await _result_of(handler, call, channel)

    step: Next = last
    for middleware in reversed(around):
        step = _bind(middleware, step)
    try:
        return await step(call)
    except ToolError as error:
        if call.request is not CALL_TOOL:
            raise
        log.info("tool %s was rejected by middleware: %s", call.params.name, words := message_of(error))
        return CallToolResult(content=[TextContent(words)], is_error=True)


def _bind(middleware: Middleware, next: Next) -> Next:
    return lambda call: middleware(call, next)


async def _result_of(handler: Operation, call: Call, channel: Channel) -> Any:
    """Run a handler, and return its result as an object, also where it is encoded already."""
    result = handler(call, channel)
    listens = isinstance(result, asyncio.Future)
    if hasattr(result, "__await__"):
        result = await result
    if listens and isinstance(result, bytes):
        result = msgspec.json.decode(result, type=Message).result
    if isinstance(result, bytes | msgspec.Raw):
        return msgspec.json.decode(result, type=prepared(call.request.result), dec_hook=read_contents)
    return result
