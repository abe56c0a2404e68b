"""Functions of programs as tools, resources and prompts: their schema, and calls with the arguments of clients."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from functools import cached_property
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from carrel.compat.fastmcp.server.context import current_context
from carrel.compat.fastmcp.server.dependencies import find_dependencies, resolved
from carrel.compat.fastmcp.utilities.annotations import described
from carrel.server.schema.docstring import read_docstring

__all__ = ["APPENDED", "Callee"]

#: Descriptions of types, which are appended to the description in the docstring.
APPENDED: set[str] = set()
#: Maximum number of results of one call that require input.
MAX_ROUNDS = 16
SECTION = re.compile(r"\s*(?:[A-Z][a-z]+ ?[A-Za-z]*:\s*$|:\w+.*:|@\w+.*:)")
NUMPY = re.compile(r"\n[A-Z]\w*\n-{3,}")


def _starts_section(lines: list[str], index: int) -> bool:
    """Return whether a line is a field, or the title of a section, whose lines are indented."""
    line, following = lines[index], lines[index + 1 : index + 2]
    indented = not following or following[0].startswith((" ", "\t")) or not following[0]
    return SECTION.match(line) is not None and (line.lstrip().startswith((":", "@")) or indented)


class Callee:
    """Function with its parameters: the client's arguments, and the parameters that the server injects.

    Raises:
        ValueError: ``exclude`` names a parameter that does not exist or has no default.
    """

    def __init__(self, function: Any, exclude: Collection[str] = ()) -> None:
        self.name: str = getattr(function, "__name__", None) or type(function).__name__
        outer = inspect.getdoc(function)
        if not inspect.isroutine(function) and not isinstance(function, functools.partial):
            function = function.__call__
        if isinstance(function, staticmethod):
            function = function.__func__
        self.function: Callable[..., Any] = function
        self.needs = find_dependencies(function)
        self.signature = inspect.signature(function)
        _check_excluded(self.signature, exclude)
        hidden = {*self.needs, *exclude}
        self.parameters = {name: each for name, each in self.signature.parameters.items() if name not in hidden}
        self.is_async = inspect.iscoroutinefunction(_unwrapped(function))
        self._docs = outer, inspect.getdoc(function)

    @cached_property
    def hints(self) -> dict[str, Any]:
        """Annotations of the function, evaluated."""
        try:
            found = get_type_hints(_unwrapped(self.function), include_extras=True)
            return {name: described(hint) for name, hint in found.items()}
        except Exception:
            return dict(getattr(self.function, "__annotations__", {}))

    @property
    def docs(self) -> str | None:
        """The whole docstring."""
        return self._docs[0] or self._docs[1] or None

    @cached_property
    def description(self) -> str | None:
        """The docstring, without its sections if one of them is on parameters."""
        outer, inner = self._docs
        doc = outer or inner
        if not doc or not read_docstring(doc)[1]:
            return doc or None
        head = NUMPY.split(doc)[0].splitlines()
        end = next((index for index in range(len(head)) if _starts_section(head, index)), len(head))
        return "\n".join(head[:end]).strip() or None

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Validator of arguments, which gives them back by name."""

        names = list(self.parameters)

        def collect(*values: Any, **arguments: Any) -> dict[str, Any]:
            return {**dict(zip(names, values, strict=False)), **arguments}

        function: Any = collect
        function.__signature__ = inspect.Signature(list(self.parameters.values()))
        function.__annotations__ = {name: hint for name, hint in self.hints.items() if name in self.parameters}
        function.__name__ = function.__qualname__ = self.name
        function.__module__ = getattr(self.function, "__module__", __name__)
        return TypeAdapter(function)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        return self.adapter.json_schema()

    def described(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema with the descriptions of parameters from the docstring, where it has none."""
        told = read_docstring(self._docs[1], "\n")[1]
        for name, field in schema.get("properties", {}).items():
            if name in told and "description" not in field:
                field["description"] = told[name]
            elif name in told and field["description"] in APPENDED:
                field["description"] = f"{told[name]}\n\n{field['description']}"
        return schema

    async def call(self, arguments: dict[str, Any], *, thread: bool = True) -> Any:
        """Call the function with valid arguments. With ``thread``, call a synchronous function in a thread.

        Return the values of a generator as a list; they are collected before the dependencies are closed. If the
        function returns an ``InputRequiredResult``, send its requests to the client and call the function again.

        Raises:
            RuntimeError: the function has returned an ``InputRequiredResult`` ``MAX_ROUNDS`` times.
        """
        for attempt in itertools.count():
            found = await self._call_once(dict(arguments), thread)
            context = current_context.get()
            if context is None or getattr(found, "result_type", None) != "input_required":
                return found
            if attempt == MAX_ROUNDS:
                break
            await context._take_input(found)
        raise RuntimeError(f"{self.name!r} requires input more than {MAX_ROUNDS} times")

    async def _call_once(self, arguments: dict[str, Any], thread: bool) -> Any:
        if not self.needs:
            return await self._call(arguments, thread)
        async with AsyncExitStack() as stack:
            return await self._call({**arguments, **await resolved(self.needs, arguments, stack)}, thread)

    async def _call(self, arguments: dict[str, Any], thread: bool) -> Any:
        positional: list[Any] = []
        for name, each in self.signature.parameters.items():
            if each.kind is each.POSITIONAL_ONLY and name in arguments:
                positional.append(arguments.pop(name))
        if self.is_async or not thread:
            found = self.function(*positional, **arguments)
        else:
            found = await asyncio.to_thread(self.function, *positional, **arguments)
        if inspect.isawaitable(found):
            found = await found
        if inspect.isasyncgen(found):
            return [each async for each in found]
        if inspect.isgenerator(found):
            return await asyncio.to_thread(list, found) if thread else list(found)
        return found


def _unwrapped(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _check_excluded(signature: inspect.Signature, exclude: Collection[str]) -> None:
    for name in exclude:
        if name not in signature.parameters:
            raise ValueError(f"Parameter '{name}' in exclude_args does not exist in function.")
        if signature.parameters[name].default is inspect.Parameter.empty:
            raise ValueError(f"Parameter '{name}' in exclude_args must have a default value.")
