"""Handlers with and without a parameter for the request."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

__all__ = ["create_call_wrapper"]


def create_call_wrapper(func: Callable[..., Any], request_type: type) -> Callable[[Any], Any]:
    """Return a function that passes the request on to ``func`` if it has a parameter of that type."""
    try:
        parameters = inspect.signature(func).parameters
        hints = get_type_hints(func)
    except (ValueError, TypeError, NameError):
        return lambda _: func()
    for name, parameter in parameters.items():
        if hints.get(name) is request_type and parameter.default is inspect.Parameter.empty:
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                return lambda request: func(request)
            return lambda request, name=name: func(**{name: request})  # type: ignore[misc]
    return lambda _: func()
