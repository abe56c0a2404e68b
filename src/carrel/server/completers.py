"""Completers with parameters that the server fills: a ``Context``, and dependencies that are made for each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from carrel.awaitables import resolved
from carrel.errors import ConfigError
from carrel.server.context import Context
from carrel.server.dependencies import Plan, parameters_of
from carrel.server.runtime import Runtime
from carrel.server.schema.callables import called_by, is_context
from carrel.server.schema.parameter import Dependency, dependency_of

__all__ = ["InjectedCompleter", "injected"]


class InjectedCompleter:
    """Completer whose dependencies are made for each call, and closed after it."""

    __slots__ = ("_context", "_dependencies", "_function", "_name", "_own", "_plan")

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        own: list[str],
        dependencies: Mapping[str, Dependency],
        context: str | None,
    ) -> None:
        self._function = function
        self._name = name
        self._own = own
        self._dependencies = dependencies
        self._context = context
        self._plan: tuple[Runtime, Plan] | None = None

    async def suggest(self, value: str, earlier: dict[str, str], run: Any) -> Any:
        """Return suggestions for the typed text. ``run`` runs a plain function in a thread."""
        if self._plan is None or self._plan[0] is not run.runtime:
            self._plan = run.runtime, Plan(run.runtime, self._name, self._dependencies, self._context)
        context: Context[Any] = Context(run.runtime, run.call, run.channel)
        given = dict(zip(self._own, (value, earlier), strict=False))
        suggestions: Any = None
        try:
            async with AsyncExitStack() as stack:
                bound = partial(self._function, **given, **await self._plan[1].make(context, stack))
                suggestions = bound() if iscoroutinefunction(self._function) else await run(partial(_collect, bound))
                suggestions = await resolved(suggestions)
        finally:
            context._over = True
        return suggestions


def injected(function: Callable[..., Any]) -> InjectedCompleter | None:
    """Return a completer that takes a ``Context`` or dependencies, or None if the function takes neither.

    Raises:
        ConfigError: the function does not have one or two parameters for the typed text, or a dependency cannot be
            created.
    """
    name = f"completer {getattr(function, '__name__', 'function')}"
    own: list[str] = []
    dependencies: dict[str, Dependency] = {}
    context = None
    for key, parameter in parameters_of(function, called_by(function), name).items():
        dependency = dependency_of(parameter.annotation, parameter.default)
        if dependency is not None:
            dependencies[key] = dependency
        elif is_context(parameter.annotation, Context):
            context = key
        else:
            own.append(key)
    if context is None and not dependencies:
        return None
    if not 1 <= len(own) <= 2:
        raise ConfigError(f"{name}: a completer takes the typed text and, optionally, the earlier values, not {own}")
    return InjectedCompleter(function, name, own, dependencies, context)


def _collect(bound: Callable[[], Any]) -> Any:
    suggestions = bound()
    return list(suggestions) if isinstance(suggestions, Iterator) else suggestions
