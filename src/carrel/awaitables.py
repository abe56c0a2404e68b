"""Values that may have to be awaited: results of functions that are written with ``def`` or ``async def``."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["MaybeAwaitable", "is_awaitable", "resolved"]

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]
"""A result, or an awaitable of it: methods may be written with ``async def`` or with ``def``."""


def is_awaitable(value: object) -> TypeIs[Awaitable[Any]]:
    """Return whether a value can be awaited. Much cheaper than ``isinstance`` with ``Awaitable``."""
    return hasattr(value, "__await__")


async def resolved(value: MaybeAwaitable[T]) -> T:
    """Return a value, and await it first if necessary."""
    if is_awaitable(value):
        return await value
    return value
