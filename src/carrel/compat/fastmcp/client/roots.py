"""Roots of a client."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from carrel.compat.mcp.shared.context import RequestContext
from carrel.compat.mcp.types import ListRootsResult, Root
from carrel.compat.wire import as_model

__all__ = ["RequestContext", "RootsHandler", "RootsList", "roots_callback"]

RootsList: TypeAlias = list[Any]
RootsHandler: TypeAlias = Callable[[Any], Any]


def roots_callback(given: RootsList | RootsHandler) -> Callable[[Any], Awaitable[ListRootsResult]]:
    """Return the callback of a list of roots, or of a function that returns one."""

    async def callback(context: Any) -> ListRootsResult:
        found = given(context) if callable(given) else given
        if inspect.isawaitable(found):
            found = await found
        given_roots = (as_model(each, Root) for each in found)
        return ListRootsResult(roots=[each if isinstance(each, Root) else Root(uri=each) for each in given_roots])

    return callback
