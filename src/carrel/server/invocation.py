"""Invocation of user functions: on the event loop if they are async, in a thread if they are not.

An async function that never awaits anything is run to its end at once and costs no task.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AsyncExitStack
from operator import itemgetter
from time import monotonic
from types import AsyncGeneratorType, CoroutineType, coroutine
from typing import TYPE_CHECKING, Any

from carrel.awaitables import resolved
from carrel.log import Log
from carrel.server.context import Context
from carrel.server.elicitation.input_required import use_state
from carrel.server.options import ToolOptions, ignores_unknown
from carrel.server.schema.signature import Signature

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.dependencies import Plan
    from carrel.server.runtime import Runtime

__all__ = ["Function", "run_now"]

#: Seconds between warnings about one function that blocks the event loop.
SILENCE = 60.0
log = Log("carrel")


def run_now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError(f"{coroutine} waited, although its code has nothing to wait for")


class Function:
    """A user's function, ready to be called for a request.

    ``immediate`` says that ``invoke`` returns the result itself; otherwise it returns an awaitable of it. ``name`` is
    its name in the log, such as "tool forecast"; ``repeatable`` says that calling it twice does no harm. ``strict`` and
    ``unknown_arguments`` default to the server's options.
    """

    __slots__ = (
        "_call",
        "_context",
        "_in_order",
        "_is_async",
        "_plan",
        "_runtime",
        "_silent_until",
        "_yields",
        "immediate",
        "name",
        "repeatable",
        "signature",
    )

    def __init__(
        self,
        runtime: Runtime,
        function: Callable[..., Any],
        name: str = "",
        *,
        repeatable: bool = True,
        options: ToolOptions | None = None,
    ) -> None:
        options = options or {}
        strict, unknown_arguments = options.get("strict"), options.get("unknown_arguments")
        self.signature = Signature(
            function,
            context_type=Context,
            structured=options.get("structured"),
            strict=runtime.settings.strict if strict is None else strict,
            ignore_unknown=ignores_unknown(unknown_arguments or runtime.settings.unknown_arguments),
        )
        self.name = name or self.signature.name
        self._context = self.signature.context_name
        self._plan: Plan | None = None
        if self.signature.dependencies:
            from carrel.server.dependencies import Plan  # most functions have none

            self._plan = Plan(runtime, self.name, self.signature.dependencies, self._context)
            self._context = self._context or "context"
        self.immediate = self.signature.is_async and not self.signature.suspends and self._plan is None
        self.repeatable = repeatable
        self._runtime = runtime
        self._call = function
        self._is_async = self.signature.is_async
        self._yields = self.signature.yields
        names = [parameter.name for parameter in self.signature.parameters]
        # Passing arguments by position takes half the time of passing them by name.
        self._in_order = itemgetter(*names) if len(names) > 1 and self.signature.positional else None
        self._silent_until = 0.0

    def invoke(self, arguments: Mapping[str, Any], call: Call, channel: Channel) -> Any:
        """Call the function with ``arguments`` and, if it wants one, a ``Context``."""
        if self._context is not None:
            context = Context(self._runtime, call, channel, repeatable=self.repeatable)
            if self._plan is not None:
                return self._end_later(context, arguments)
            return self._invoke_with(context, {**arguments, self._context: context})
        if self.immediate:
            in_order, started = self._in_order, monotonic()
            try:
                return run_now(self._call(**arguments) if in_order is None else self._call(*in_order(arguments)))
            finally:
                if monotonic() - started > self._runtime.slow_handler_seconds:
                    self._warn(monotonic() - started)
        return self._begin(arguments, call)

    def _begin(self, arguments: Mapping[str, Any], call: Call) -> Any:
        """Return an awaitable of the result."""
        if not self._is_async:
            return self._run_in_thread(arguments, call)
        value = self._call(**arguments)
        return self._measured(value) if type(value) is CoroutineType else value

    def _invoke_with(self, context: Context, arguments: dict[str, Any]) -> Any:
        if not self.immediate:
            return self._end_later(context, arguments)
        started = monotonic()
        try:
            return run_now(self._call(**arguments))
        finally:
            context._over = True
            if monotonic() - started > self._runtime.slow_handler_seconds:
                self._warn(monotonic() - started)

    async def _end_later(self, context: Context, arguments: Mapping[str, Any]) -> Any:
        if getattr(context._call.params, "request_state", None) is not None:
            await use_state(context)  # a state that is not valid is refused before anything is done
        try:
            if self._plan is None:
                value = await self._begin(arguments, context._call)
            else:
                value = await self._begin_with(self._plan, context, arguments)
        finally:
            context._over = True
        context._insist()
        return value

    async def _begin_with(self, plan: Plan, context: Context, arguments: Mapping[str, Any]) -> Any:
        """Create the dependencies, run the function, and always close the dependencies in reverse order."""
        failure: BaseException | None = None
        async with AsyncExitStack() as stack:
            try:
                value = await self._begin({**arguments, **await plan.make(context, stack)}, context._call)
            except BaseException as error:
                failure = error
                raise
        if failure is not None:
            raise failure  # a dependency has swallowed it
        return value

    async def _run_in_thread(self, arguments: Mapping[str, Any], call: Call) -> Any:
        value = await self._runtime.run_in_thread(call, self._collect if self._yields else self._call, **arguments)
        if type(value) is AsyncGeneratorType:
            return [item async for item in value]
        return await resolved(value)  # a plain function may make a coroutine

    def _collect(self, **arguments: Any) -> list[Any]:
        """Run a generator function to its end, and return the yielded values."""
        return list(self._call(**arguments))

    @coroutine
    def _measured(self, running: CoroutineType[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run a coroutine, and measure for how long each of its steps blocks the event loop."""
        step: Callable[[Any], Any] = running.send
        argument: Any = None
        while True:
            started = monotonic()
            try:
                wanted = step(argument)
            except StopIteration as end:
                return end.value
            finally:
                if monotonic() - started > self._runtime.slow_handler_seconds:
                    self._warn(monotonic() - started)
            try:
                argument = yield wanted
                step = running.send
            except GeneratorExit:
                running.close()
                raise
            except BaseException as error:
                argument = error
                step = running.throw

    def _warn(self, seconds: float) -> None:
        """Log a warning that a function has blocked the event loop, at most once in ``SILENCE`` seconds."""
        now = monotonic()
        if now < self._silent_until:
            return
        self._silent_until = now + SILENCE
        log.warning(
            "%s held up the event loop for %.1f s, and nothing else was answered meanwhile: "
            "wait with await, or define it with def, so that it runs in a thread",
            self.name,
            seconds,
        )
