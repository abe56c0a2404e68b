"""Completions of the arguments of prompts and of the variables of resource templates."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from carrel.compat.fastmcp.server.handlers import LowLevelServer
from carrel.compat.fastmcp.server.middleware.middleware import MiddlewareContext, run_middleware
from carrel.compat.mcp import types
from carrel.compat.mcp2.types import Completion

__all__ = ["Completing", "normalize_completion"]

MAX_VALUES = 100


def normalize_completion(value: Any) -> Completion:
    """Return the completion that a handler returned: a ``Completion``, a list of strings, or None.

    At most 100 values are sent, as the specification requires (server/utilities/completion).

    Raises:
        TypeError: it is something else.
    """
    if value is None:
        return Completion(values=[])
    found = value
    if not isinstance(value, Completion):
        if isinstance(value, str) or not isinstance(value, list | tuple):
            raise TypeError(
                f"A completion handler must return a list of strings, a Completion or None, not {type(value).__name__}"
            )
        found = Completion(values=list(value))
    if len(found.values) <= MAX_VALUES:
        return found
    total = len(found.values) if found.total is None else found.total
    return Completion(values=found.values[:MAX_VALUES], total=total, has_more=True)


class Completing:
    """Server with a handler of completions."""

    middleware: list[Any]
    _mcp_server: LowLevelServer
    _completion_handler: Callable[..., Any] | None = None

    def completion(self, function: Callable[..., Any] | None = None) -> Any:
        """Register the decorated function, which gets the reference, the argument and the context of a request."""
        if function is None:
            return self.completion
        self._completion_handler = function
        self._mcp_server.completion()(self._complete)
        return function

    async def _complete(self, reference: Any, argument: Any, context: Any) -> types.Completion:
        """Return the completion of an argument."""
        from carrel.compat.fastmcp.server.context import Context

        async def call(_: Any) -> types.Completion:
            handler = self._completion_handler
            assert handler is not None
            if inspect.iscoroutinefunction(handler):
                found = await handler(reference, argument, context)
            else:
                found = await asyncio.to_thread(handler, reference, argument, context)
            if inspect.isawaitable(found):
                found = await found
            return types.Completion.model_validate(normalize_completion(found).model_dump(by_alias=True))

        message = types.CompleteRequestParams(ref=reference, argument=argument, context=context)
        async with Context(fastmcp=self) as own:
            request = MiddlewareContext(message=message, method="completion/complete", fastmcp_context=own)
            return await run_middleware(self.middleware, request, call)
