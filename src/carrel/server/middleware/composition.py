"""Composition of middleware: one function for each method, made at start-up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.errors import ConfigError, ToolError
from carrel.protocol.encoding import encode
from carrel.protocol.methods import CALL_TOOL
from carrel.protocol.server import Call, ErrorResponse
from carrel.server.failures import tool_error
from carrel.server.middleware.middleware import Middleware, MiddlewareFunction, Next
from carrel.wire.base import Result, prepared
from carrel.wire.resources import read_contents

if TYPE_CHECKING:
    from carrel.catalog.provider import Change, ListChanges, Recipients
    from carrel.protocol.channel import Channel
    from carrel.server.runtime import Listener, Operation

__all__ = ["bind", "compose", "functions_of", "listener_of"]


def functions_of(middleware: Middleware | MiddlewareFunction, operation: str) -> list[MiddlewareFunction]:
    """Return the functions that a middleware has for an operation, the outermost first."""
    if not isinstance(middleware, Middleware):
        return [middleware]
    kind: type[Any] = type(middleware)
    names = [name for name in ("on_request", f"on_{operation}") if hasattr(kind, name)]
    return [getattr(middleware, name) for name in names if getattr(kind, name) is not getattr(Middleware, name, None)]


def compose(functions: Sequence[MiddlewareFunction], handler: Operation) -> Operation:
    """Return a handler inside middleware functions, of which the first one is the outermost."""

    async def last(call: Call) -> Result:
        return await _result_of(handler, call)

    step: Next = last
    for function in reversed(functions):
        step = bind(function, step)

    def composed(call: Call, channel: Channel) -> Awaitable[Result | bytes]:
        call.channel = channel
        return _run(step, call)

    return composed


async def _run(step: Next, call: Call) -> Result | bytes:
    """Run middleware. Return an encoded result as it came, if middleware has not changed it.

    A result of another server may have members that its type does not know.
    """
    encoded, outer = list[Encoded](), ENCODED.get()
    ENCODED.set(encoded)
    try:
        result = await step(call)
    finally:
        ENCODED.set(outer)  # the call of the outer server continues, if this server is mounted
    for each in encoded:
        if result is each.value and encode(result) == each.before:
            return each.data
    return result


class Encoded(msgspec.Struct):
    """Encoded result of a handler, decoded for middleware; ``before`` is the encoding before that."""

    value: Result
    data: bytes
    before: bytes


ENCODED: ContextVar[list[Encoded] | None] = ContextVar("encoded", default=None)
"""Encoded results of the handlers that middleware of the current call has called."""


class _Response(msgspec.Struct):
    """Response whose result is decoded later."""

    result: msgspec.Raw


def bind(function: MiddlewareFunction, next: Next) -> Next:
    """Return a middleware function with the function that it calls next."""
    return lambda call: function(call, next)


async def _result_of(handler: Operation, call: Call) -> Result:
    """Run a handler, and return its result as an object, even if the handler returns encoded bytes."""
    assert call.channel is not None
    try:
        result = handler(call, call.channel)
        listens = isinstance(result, asyncio.Future)
        if not isinstance(result, (Result, bytes, ErrorResponse)):
            result = await result
    except ToolError as error:
        if call.request is not CALL_TOOL:
            raise
        return tool_error(call.params.name, error)
    if listens and isinstance(result, bytes):
        result = bytes(msgspec.json.decode(result, type=_Response).result)
    if isinstance(result, bytes):
        decoded, encoded = _decoded(result, call), ENCODED.get()
        if encoded is not None and not listens:
            encoded.append(Encoded(decoded, result, encode(decoded)))
        return decoded
    return result  # type: ignore[return-value]  # an error response, if a listen request was rejected after all


def _decoded(data: bytes, call: Call) -> Result:
    """Return an encoded result as an object. Content blocks of unknown types are replaced by empty text."""
    kind = prepared(call.request.result)
    try:
        result: Result = msgspec.json.decode(data, type=kind, dec_hook=read_contents)
    except msgspec.ValidationError:
        from carrel.protocol.unknown import without_foreign_blocks  # only results of other servers have any

        known = without_foreign_blocks(msgspec.Raw(data))
        if known is None:
            raise
        result = msgspec.json.decode(known[0], type=kind, dec_hook=read_contents)
    return result


def listener_of(middleware: Middleware | MiddlewareFunction) -> list[Listener]:
    """Return the listener for changes of a middleware that has one.

    Raises:
        ConfigError: the middleware is a class, not an object of it, or no function of a call and ``next``.
    """
    if isinstance(middleware, type) and issubclass(middleware, Middleware):
        raise ConfigError(f"middleware is an object: write {middleware.__name__}(…)")
    if not isinstance(middleware, Middleware):
        _check_parameters(middleware)
        return []
    if type(middleware).on_change is Middleware.on_change:
        return []
    return [partial(_notify, middleware)]


def _notify(
    middleware: Middleware, changes: Sequence[Change], lists: ListChanges, recipients: Recipients | None
) -> None:
    """Tell a middleware of changes. A provider that begins to watch reports an empty batch."""
    if changes or lists:
        middleware.on_change([change.uri for change in changes], tuple(lists))


def _check_parameters(function: Callable[..., object]) -> None:
    from inspect import signature

    name = getattr(function, "__name__", type(function).__name__)
    if not callable(function):
        raise ConfigError(f"middleware is a function of a call and next, or a Middleware object, not a {name}")
    try:
        parameters = signature(function)
    except ValueError:
        return  # a function in C may have no signature
    try:
        parameters.bind(None, None)
    except TypeError:
        raise ConfigError(
            f"The middleware {name} is called with a call and next: write {name}(call, next), not {name}{parameters}"
        ) from None
