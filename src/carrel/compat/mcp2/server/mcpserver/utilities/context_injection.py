"""Contexts of functions that take one."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from carrel.compat.mcp2.server.mcpserver.context import Context

__all__ = ["find_context_parameter", "inject_context"]


def find_context_parameter(fn: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that takes the context; None without one."""
    try:
        hints = typing.get_type_hints(fn)
    except Exception:  # a hint that cannot be evaluated is no context
        return None
    return next((name for name, hint in hints.items() if any(map(_is_context, (hint, *typing.get_args(hint))))), None)


def _is_context(hint: Any) -> bool:
    return inspect.isclass(hint) and issubclass(hint, Context)


def inject_context(
    fn: Callable[..., Any], kwargs: dict[str, Any], context: Any | None, context_kwarg: str | None
) -> dict[str, Any]:
    """Return arguments with the context, if the function takes one."""
    return kwargs if context_kwarg is None or context is None else {**kwargs, context_kwarg: context}
