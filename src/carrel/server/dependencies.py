"""Dependencies of handlers: ``Depends(make)`` as a default or annotation of a parameter, made anew for each call.

    def open_db(): ...                      # a function, generator or context manager, with async or without

    @app.tool
    async def search(text: str, db: Database = Depends(open_db)) -> list[str]: ...

The plan of a handler is compiled when it is registered.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from contextlib import contextmanager as plain_context_manager
from functools import partial
from typing import TYPE_CHECKING, Any

from carrel.awaitables import resolved
from carrel.errors import ConfigError, ServerUnavailable
from carrel.server.context import Context
from carrel.server.schema.callables import called_by, is_context, resolve
from carrel.server.schema.parameter import Dependency, dependency_of

if TYPE_CHECKING:
    from carrel.server.runtime import Runtime

__all__ = ["Depends", "Plan", "parameters_of"]


def Depends(make: Callable[..., Any], *, use_cache: bool = True) -> Any:  # noqa: N802 (as in FastAPI)
    """Return the default of a parameter whose value ``make`` makes for each call; clients do not see the parameter.

    ``make`` is a function, a class, a generator function that yields the value, or one decorated with
    ``contextmanager`` or ``asynccontextmanager``. Its parameters are a ``Context`` and other dependencies. Within a
    call, all parameters share one value, unless ``use_cache`` is False.

    Raises:
        ConfigError: ``make`` cannot be called.
    """
    if not callable(make):
        raise ConfigError(f"Depends takes a function or class, without calling it, not {make!r}")
    return Dependency(make, use_cache)


class DependencyNode:
    """Factory of a dependency, with its own dependencies by parameter."""

    __slots__ = ("call", "children", "context", "in_loop", "is_class", "make", "name", "use_cache")

    def __init__(self, dependency: Dependency, path: tuple[Callable[..., Any], ...], owner: str) -> None:
        make = self.make = dependency.make
        called = called_by(make)
        self.name = str(getattr(called, "__qualname__", None) or repr(make))
        if make in path:
            raise ConfigError(f"{owner}: the dependency {self.name} depends on itself")
        self.use_cache = dependency.use_cache
        self.is_class = isinstance(make, type)
        origin = inspect.unwrap(called)
        self.call: Callable[..., Any] = make
        if inspect.isasyncgenfunction(called):
            self.call = asynccontextmanager(make)
        elif inspect.isgeneratorfunction(called):
            self.call = plain_context_manager(make)
        self.in_loop = (
            inspect.iscoroutinefunction(called)
            or inspect.isgeneratorfunction(origin)  # makes the context manager, and runs nothing yet
            or inspect.isasyncgenfunction(origin)
        )
        self.context: str | None = None
        self.children: dict[str, DependencyNode] = {}
        for name, parameter in parameters_of(make, called, owner).items():
            inner = dependency_of(parameter.annotation, parameter.default)
            if inner is not None:
                self.children[name] = DependencyNode(inner, (*path, make), owner)
            elif is_context(parameter.annotation, Context):
                self.context = name
            elif parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                raise ConfigError(
                    f"{owner}: the parameter {name} of the dependency {self.name} "
                    "is neither a Context nor a dependency, and has no default"
                )


def parameters_of(make: Callable[..., Any], called: Any, owner: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of a factory or completer, with their annotations resolved.

    Raises:
        ConfigError: the annotation of a parameter without a default cannot be resolved.
    """
    try:
        found = dict(inspect.signature(make).parameters)
    except (TypeError, ValueError):
        return {}  # a builtin class, which takes nothing of ours
    scope = inspect.unwrap(vars(called).get("__init__", called) if isinstance(called, type) else called)
    for name, parameter in found.items():
        if isinstance(parameter.annotation, str):
            try:
                annotation = resolve({name: parameter.annotation}, scope)[name]
            except Exception as error:
                if parameter.default is not parameter.empty:
                    continue
                raise ConfigError(
                    f"{owner}: the annotation of {name} in the dependency {called.__qualname__} "
                    f"cannot be resolved ({error})"
                ) from None
            found[name] = parameter.replace(annotation=annotation)
    return found


class Plan:
    """Dependencies of one handler: ``make`` enters them for a call.

    ``context`` is the parameter of the handler for a ``Context``, if it has one.
    """

    __slots__ = ("_children", "_context", "_overriding", "_owner", "_runtime")

    def __init__(
        self, runtime: Runtime, owner: str, dependencies: Mapping[str, Dependency], context: str | None
    ) -> None:
        self._runtime = runtime
        self._owner = owner
        self._context = context
        self._children = {name: DependencyNode(dependency, (), owner) for name, dependency in dependencies.items()}
        self._overriding: dict[Callable[..., Any], DependencyNode] = {}

    async def make(self, context: Context, stack: AsyncExitStack) -> dict[str, Any]:
        """Return the values of the handler's injected parameters; ``stack`` closes them.

        An exception of a dependency is raised with a note that names it.
        """
        made: dict[Callable[..., Any], Any] = {}
        values: dict[str, Any] = {} if self._context is None else {self._context: context}
        for name, node in self._children.items():
            values[name] = await self._value(node, context, stack, made)
        return values

    async def _value(
        self, given: DependencyNode, context: Context, stack: AsyncExitStack, made: dict[Callable[..., Any], Any]
    ) -> Any:
        if given.use_cache and given.make in made:
            return made[given.make]
        node = self._overridden(given)
        arguments: dict[str, Any] = {} if node.context is None else {node.context: context}
        for name, child in node.children.items():
            arguments[name] = await self._value(child, context, stack, made)
        try:
            value = await self._run(node, context, stack, arguments)
        except BaseException as error:
            error.add_note(f"in the dependency {node.name} of {self._owner}")
            raise
        if given.use_cache:
            made[given.make] = value
        return value

    def _overridden(self, node: DependencyNode) -> DependencyNode:
        """Return the node of a factory, or of its replacement in ``app.dependency_overrides``."""
        other = self._runtime.dependency_overrides.get(node.make)
        if other is None:
            return node
        found = self._overriding.get(other)
        if found is None:
            found = self._overriding[other] = DependencyNode(
                Dependency(other, node.use_cache), (node.make,), self._owner
            )
        return found

    async def _run(
        self, node: DependencyNode, context: Context, stack: AsyncExitStack, arguments: dict[str, Any]
    ) -> Any:
        if node.in_loop:
            value = node.call(**arguments)
        else:
            value = await self._in_thread(context, partial(node.call, **arguments))
        if not node.is_class:
            value = await resolved(value)
        # Context managers are entered where the call has made them: a function may return one that others use as well.
        if not (node.is_class or type(value).__module__ == "contextlib"):
            return value
        if isinstance(value, AbstractAsyncContextManager):
            return await stack.enter_async_context(value)
        if isinstance(value, AbstractContextManager):
            return await stack.enter_async_context(self._entered(value, context))
        return value

    @asynccontextmanager
    async def _entered(self, manager: AbstractContextManager[Any], context: Context) -> Any:
        """Enter and leave a plain context manager in threads."""
        value = await self._in_thread(context, manager.__enter__)
        try:
            yield value
        except BaseException as error:
            await self._in_thread(context, partial(manager.__exit__, type(error), error, error.__traceback__))
            raise
        else:
            await self._in_thread(context, partial(manager.__exit__, None, None, None))

    async def _in_thread(self, context: Context, function: Callable[[], Any]) -> Any:
        try:
            return await self._runtime.run_in_thread(context._call, function)
        except ServerUnavailable:
            if getattr(getattr(function, "func", None), "__name__", "") == "__exit__":
                return function()  # it must be closed anyway
            raise
