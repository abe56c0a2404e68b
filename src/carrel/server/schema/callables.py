"""Inspection of callables: the code behind them, whether it can wait, and the types in their annotations."""

from __future__ import annotations

import inspect
import opcode
import sys
import types
import typing
from functools import partial
from typing import Annotated, Any, get_args, get_origin

from carrel.server.schema.parameter import UNIONS

__all__ = ["called_by", "is_context", "is_in_class", "may_wait", "resolve"]

# Opcodes in a coroutine's code where it may hand control back to the event loop.
WAITS = frozenset(
    opcode.opmap[name]
    for name in ("GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "SEND", "YIELD_VALUE", "BEFORE_ASYNC_WITH")
    if name in opcode.opmap
)


def called_by(function: Any) -> Any:
    """Return what runs when ``function`` is called: the code behind partials, methods and callable objects."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif isinstance(function, (types.MethodType, staticmethod, classmethod)):
            function = function.__func__
        elif isinstance(function, type) or inspect.isroutine(function) or not callable(function):
            return function
        else:
            function = type(function).__call__


def may_wait(function: Any) -> bool:
    """Return whether an async function can ever hand control to the event loop. True where that is not certain."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & inspect.CO_COROUTINE or "GET_AWAITABLE" not in opcode.opmap:
        return True
    return not WAITS.isdisjoint(code.co_code[::2])


def is_context(annotation: Any, context_type: type) -> bool:
    """Return whether a parameter is for the context: ``Context``, ``Context | None`` or ``Annotated[Context, ...]``."""
    if annotation is context_type or get_origin(annotation) is context_type:
        return True
    if get_origin(annotation) is Annotated:
        return is_context(annotation.__origin__, context_type)
    if get_origin(annotation) in UNIONS:
        return any(is_context(item, context_type) for item in get_args(annotation))
    return False


def is_in_class(function: Any) -> bool:
    """Return whether a plain function was defined in the body of a class."""
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    return inspect.isfunction(function) and bool(owner) and not owner.endswith("<locals>")


def resolve(annotations: dict[str, Any], scope: Any) -> dict[str, Any]:
    """Evaluate annotations in the namespace where ``scope`` was defined, as far as Python still knows it."""
    module = sys.modules.get(getattr(scope, "__module__", None) or "")
    known = getattr(scope, "__globals__", None) or getattr(module, "__dict__", {})
    local = {}
    names = getattr(getattr(scope, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(scope, "__closure__", None) or (), strict=False):
        try:
            local[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    holder = types.SimpleNamespace(__annotations__=annotations, __type_params__=getattr(scope, "__type_params__", ()))
    return typing.get_type_hints(holder, known, local, include_extras=True)
