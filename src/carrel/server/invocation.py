"""Calling a user's function: on the event loop if it is async, in a thread if it is not.

An async function that never waits is run to its end at once and costs no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from carrel.server.context import Context
from carrel.server.signature import Signature

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.app import Server

__all__ = ["Function", "run_in_thread", "run_now"]


def run_now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError(f"{coroutine} waited, although its code has nothing to wait for")


async def run_in_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Run a plain function in a thread, and return its result."""

    def run() -> Any:
        try:
            return function(*arguments, **named)
        except StopIteration as error:  # a future cannot hold it, and its caller would wait for ever
            raise RuntimeError("the function raised StopIteration") from error

    return await asyncio.to_thread(run)


class Function:
    """A user's function, ready to be called for a request.

    ``immediate`` says that ``invoke`` returns the result itself; otherwise it returns an awaitable of it.
    """

    __slots__ = ("_app", "_call", "_context", "_is_async", "immediate", "signature")

    def __init__(self, app: Server, function: Callable[..., Any], *, structured: bool | None = None) -> None:
        self.signature = Signature(function, context_type=Context, structured=structured)
        self.immediate = self.signature.is_async and not self.signature.suspends
        self._app = app
        self._call = function
        self._context = self.signature.context_name
        self._is_async = self.signature.is_async

    def invoke(self, arguments: dict[str, Any], call: Call, channel: Channel) -> Any:
        """Call the function with ``arguments`` and, if it wants one, a ``Context``."""
        if self._context is not None:
            context = arguments[self._context] = Context(self._app, call, channel)
            return self._invoke_with(context, arguments)
        if self.immediate:
            return run_now(self._call(**arguments))
        if self._is_async:
            return self._call(**arguments)
        return self._run_in_thread(arguments)

    def _invoke_with(self, context: Context, arguments: dict[str, Any]) -> Any:
        if not self.immediate:
            return self._end_later(context, arguments)
        try:
            return run_now(self._call(**arguments))
        finally:
            context.over = True

    async def _end_later(self, context: Context, arguments: dict[str, Any]) -> Any:
        if getattr(context.call.params, "request_state", UNSET) is not UNSET:
            _ = context.round  # a state that is not valid is refused before anything is done
        try:
            value = await (self._call(**arguments) if self._is_async else self._run_in_thread(arguments))
        finally:
            context.over = True
        context.insist()
        return value

    async def _run_in_thread(self, arguments: dict[str, Any]) -> Any:
        value = await run_in_thread(self._call, **arguments)
        return await value if hasattr(value, "__await__") else value  # a plain function may make a coroutine
