"""Calls of functions with and without ``async``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import anyio.to_thread

__all__ = ["call_function", "is_async_callable", "name_of"]


def is_async_callable(function: Any) -> bool:
    """Return whether calling an object returns a coroutine."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def call_function(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function; one without ``async`` runs in a thread."""
    if is_async_callable(function):
        return await function(**arguments)
    return await anyio.to_thread.run_sync(functools.partial(function, **arguments))


def name_of(function: Callable[..., Any], name: str | None) -> str:
    """Return the given name, or the name of the function.

    Raises:
        ValueError: a lambda has no name.
    """
    found: str = name or getattr(function, "__name__", None) or type(function).__name__
    if found == "<lambda>":
        raise ValueError("You must provide a name for lambda functions")
    return found
