"""Dispatch of requests: middleware, handler, and the one place where exceptions become errors. For every transport."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from carrel.awaitables import MaybeAwaitable
from carrel.catalog.access import NAME_VERBS, find_view
from carrel.catalog.request import InputRequired
from carrel.errors import ConfigError, InvalidParams, MethodNotFound, ResourceNotFound, ToolError
from carrel.protocol.methods import CALL_TOOL
from carrel.protocol.revisions import REQUESTS
from carrel.protocol.server import ErrorResponse, Reply
from carrel.server.elicitation.input_required import required_by, withdraw
from carrel.server.failures import is_interrupt, public_error, tool_error
from carrel.wire.base import Result

if TYPE_CHECKING:
    from carrel.catalog.access import Gate
    from carrel.protocol.channel import Channel
    from carrel.protocol.description import Description
    from carrel.protocol.methods import RequestType
    from carrel.protocol.principal import View
    from carrel.protocol.server import Call
    from carrel.server.middleware.middleware import Middleware, MiddlewareFunction
    from carrel.server.runtime import Operation

__all__ = ["Dispatch", "Requirement"]


class Requirement:
    """Condition of an operation: the server has an item of a kind, such as a tool. Once met, it stays met."""

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

    ``description`` has the extensions of the server. ``handlers`` are the handlers by operation name, which may change;
    ``requirements`` are conditions of some of them. With a ``gate``, calls get the view of their caller, and the
    catalog leaves out everything that the view hides.
    """

    def __init__(
        self,
        description: Description,
        handlers: Mapping[str, Operation],
        requirements: Mapping[str, Requirement],
    ) -> None:
        self._description = description
        self._handlers = handlers
        self.gate: Gate | None = None
        """Access gate."""
        self._requirements = requirements
        self._middleware: list[tuple[Middleware | MiddlewareFunction, frozenset[str]]] = []
        self._composed: dict[str, Operation] = {}

    def add_middleware(
        self, middleware: Middleware | MiddlewareFunction, methods: frozenset[str] = frozenset()
    ) -> None:
        """Add middleware around the calls of some methods, or of all. The first one added is the outermost."""
        self._middleware.append((middleware, methods))
        self.compose()

    @property
    def has_middleware(self) -> bool:
        """Whether any middleware was added."""
        return bool(self._middleware)

    def around(self, method: str) -> list[Middleware | MiddlewareFunction]:
        """Return the middleware of a method, the outermost first."""
        return [each for each, methods in self._middleware if not methods or method in methods]

    def check_methods(self) -> None:
        """Check the methods that middleware is registered for, once all extensions are known.

        Raises:
            ConfigError: there is no such method; the message has the nearest name.
        """
        named = {method for _, methods in self._middleware for method in methods}
        known = {*REQUESTS, *self._description.extended}
        if named <= known:
            return
        from carrel.near_names import did_you_mean  # here and below: few servers need it
        from carrel.protocol.extensions.skills import SKILLS
        from carrel.protocol.extensions.tasks import TASKS

        known |= {*SKILLS.requests, *TASKS.requests}  # this server may not have them
        for method in sorted(named - known):
            raise ConfigError(
                f"Middleware for {method!r}: there is no such method{did_you_mean(method, sorted(known))}"
            )

    def compose(self) -> None:
        """Put the handlers inside their middleware: when middleware or handlers are added, and at start-up."""
        if not self._middleware:
            return
        from carrel.server.middleware.composition import compose, functions_of  # few servers have middleware

        extended = (extension.requests for extension in self._description.extended.values())
        for row in (row for rows in (REQUESTS, *extended) for row in rows.values()):
            handler = self._handlers.get(row.operation)
            functions = [function for each in self.around(row.method) for function in functions_of(each, row.operation)]
            if handler is not None and functions:
                self._composed[row.method] = compose(functions, handler)

    def handle(self, row: RequestType, call: Call, channel: Channel) -> MaybeAwaitable[Result | bytes | ErrorResponse]:
        """Call the handler of a request, inside its middleware."""
        handler = self._composed.get(row.method) or self._handlers[row.operation]
        return handler(call, channel)

    def answer(self, call: Call, channel: Channel) -> MaybeAwaitable[Reply]:
        """Handle a request: return the response at once, or an awaitable of it.

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
            if self.gate is not None or call.principal is not None:
                call.client.principal = call.principal
                call.view = find_view(self.gate, call.principal)
                if call.view is not None and call.request.method not in REQUESTS:
                    _check_target(call, call.view)
            if self._composed:
                handler = self._composed.get(call.request.method, handler)
            result = handler(call, channel)
            if isinstance(result, (Result, bytes)):
                return call.connection.reply(call, result)
            if isinstance(result, ErrorResponse):
                return result
            if call.request.endless and isinstance(result, asyncio.Future):  # its response, at the end
                return result
            return self._answer_later(call, result)
        except BaseException as error:  # not a cancellation: nothing has been awaited yet
            return self._answer_error(call, error)

    async def _answer_later(self, call: Call, pending: Awaitable[Result | Reply]) -> Reply:
        try:
            try:
                result = await pending
            except (InputRequired, BaseExceptionGroup) as more:
                result = await required_by(more)
            return result if isinstance(result, ErrorResponse) else call.connection.reply(call, result)
        except (asyncio.CancelledError, GeneratorExit):
            raise  # from the function, or from the task that awaits this
        except BaseException as error:
            return self._answer_error(call, error)
        finally:
            if call.connection.waiting:
                withdraw(call)

    def _answer_error(self, call: Call, error: BaseException) -> Reply:
        """Return the response to a call that has raised an error. A ``ToolError`` is a result for the model."""
        if isinstance(error, ToolError) and call.request is CALL_TOOL:
            return call.connection.reply(call, tool_error(call.params.name, error))
        return self.reject(call, error)

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
        except Exception as worse:  # the data of the error cannot be encoded as JSON
            return call.connection.reject(call, public_error(call.request.method, worse))


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
    elif row.names_resources and row.verb is not None:
        for uri in target if isinstance(target, list) else (target,):
            if isinstance(uri, str) and not view.allows(row.verb, uri):
                raise ResourceNotFound(uri)
