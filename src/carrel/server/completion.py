"""Completion of template variables and prompt arguments.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from carrel.awaitables import resolved
from carrel.catalog.access import may_reach
from carrel.errors import ConfigError, InvalidParams
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.completion import Completion

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.principal import View
    from carrel.protocol.server import Call
    from carrel.server.runtime import Runtime
    from carrel.server.schema.signature import Signature

__all__ = [
    "CompletableFunction",
    "Completer",
    "Completers",
    "Run",
    "limited",
    "suggested",
]

#: Maximum number of values in a response.
MAX_VALUES = 100

P = ParamSpec("P")
R = TypeVar("R")


class Run:
    """Call for which a completer runs: calling it runs a plain function in a thread."""

    __slots__ = ("call", "channel", "runtime")

    def __init__(self, runtime: Runtime, call: Call, channel: Channel) -> None:
        self.runtime = runtime
        self.call = call
        self.channel = channel

    def __call__(self, function: Callable[[], Any]) -> Awaitable[Any]:
        return self.runtime.run_in_thread(self.call, function)


Completer = Callable[..., "Completion | Iterable[str] | Awaitable[Completion | Iterable[str]]"]


class Injected(Protocol):
    """Completer with parameters that the server fills."""

    async def suggest(self, value: str, earlier: dict[str, str], run: Any) -> Any:
        """Return suggestions for the typed text."""


class Completers:
    """Completers of one prompt or template: functions, and fixed choices, by argument.

    ``subject`` is the prompt or template in error messages, ``names`` are the names of its arguments.
    """

    __slots__ = ("choices", "functions", "injected", "names", "subject")

    def __init__(self, subject: str, names: Sequence[str] = (), signature: Signature | None = None) -> None:
        self.subject = subject
        self.names = names
        choices = {} if signature is None else {each.alias: signature.choices(each) for each in signature.parameters}
        self.choices = {name: values for name, values in choices.items() if values}
        self.functions: dict[str, Completer] = {}
        self.injected: dict[str, Injected] = {}
        """The functions that take a ``Context`` or dependencies."""

    def __bool__(self) -> bool:
        return bool(self.functions or self.choices)

    def suggest(self, argument: str, value: str, context: dict[str, str], run: Run) -> Any:
        """Return suggestions, or an awaitable of them; none without a completer. ``run`` calls one in a thread.

        Raises:
            InvalidParams: there is no such argument.
        """
        if argument not in self.names:
            known = ", ".join(self.names)
            message = f"Invalid params: {self.subject} has no argument {argument[:200]!r}; it has {known}"
            raise InvalidParams(message, parameter="argument")
        function = self.functions.get(argument)
        if function is None:
            from carrel.catalog.name_search import filter_choices  # loaded on first use

            return filter_choices(self.choices.get(argument, ()), value)
        injected = self.injected.get(argument)
        if injected is not None:
            return injected.suggest(value, context, run)
        code = getattr(function, "__code__", None)
        takes_context = code is None or code.co_argcount - (1 if hasattr(function, "__self__") else 0) > 1
        arguments = (value, context) if takes_context else (value,)
        return function(*arguments) if iscoroutinefunction(function) else _suggest_in_thread(run, function, arguments)


class CompletableFunction(Generic[P, R]):
    """Registered resource or prompt function: called as before, with ``complete`` to register completers."""

    def __init__(self, function: Callable[P, R], completers: Completers) -> None:
        self._function = function
        self._completers = completers
        self.__wrapped__ = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        return self._function(*arguments, **named)

    def complete(self, variable: str) -> Callable[[Completer], Completer]:
        """Register the decorated function as the completer of a variable or argument.

        The function gets the typed text and, if it takes a second parameter, a dict of the earlier values. It returns
        suggestions, best first. It may also take a ``Context`` and dependencies (``Depends``).

        Raises:
            ConfigError: no variable or argument has this name.
        """
        if callable(variable):
            raise ConfigError(
                f'{self.__name__}: name the argument to complete: write @{self.__name__}.complete("name")'
            )
        names = list(self._completers.names)
        if variable not in names:
            raise ConfigError(f"{self.__name__}: there is no {variable!r} to complete; there are {names}")

        def register(completer: Completer) -> Completer:
            from carrel.server.completers import injected  # most servers complete nothing

            found = injected(completer)
            if found is None:
                self._completers.injected.pop(variable, None)
            else:
                self._completers.injected[variable] = found
            self._completers.functions[variable] = completer
            return completer

        return register


async def _suggest_in_thread(run: Run, function: Completer, arguments: tuple[Any, ...]) -> Any:
    def collect() -> Any:
        suggestions = function(*arguments)
        return list(suggestions) if isinstance(suggestions, Iterator) else suggestions

    return await resolved(await run(collect))


def listed_values(suggestions: Completion | Iterable[str] | None) -> Completion | list[str]:
    """Return suggestions as a ``Completion``, if they are one, or else as a list of text."""
    if isinstance(suggestions, Completion):
        return suggestions
    if isinstance(suggestions, str):
        return [suggestions]
    return [] if suggestions is None else [str(value) for value in suggestions]


def limited(suggestions: Completion | Iterable[str] | None) -> Completion:
    """Return suggestions as a ``Completion``: at most 100 values, and whether there are more."""
    if isinstance(suggestions, Completion):
        if len(suggestions.values) <= MAX_VALUES:
            return suggestions
        total = len(suggestions.values) if suggestions.total is None else suggestions.total
        return Completion(suggestions.values[:MAX_VALUES], total=total, has_more=True)
    values = listed_values(suggestions)
    assert isinstance(values, list)
    return Completion(values[:MAX_VALUES], total=len(values), has_more=len(values) > MAX_VALUES)


def suggested(
    suggestions: Completion | list[str],
    template: UriTemplate,
    variable: str,
    values: Mapping[str, str],
    view: View,
) -> Completion | list[str]:
    """Return suggestions for a variable. Suggestions that name hidden resources are neither returned nor counted."""

    def is_shown(value: str) -> bool:
        try:
            return may_reach(view, "complete", template, {**values, variable: value})
        except UriTemplateError:
            return False

    if isinstance(suggestions, list):
        return [value for value in suggestions if is_shown(value)]
    kept = [value for value in suggestions.values if is_shown(value)]
    return suggestions if len(kept) == len(suggestions.values) else Completion(kept)
