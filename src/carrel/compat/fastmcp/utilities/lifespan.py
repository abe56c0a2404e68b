"""Lifespans of several applications together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

__all__ = ["combine_lifespans"]


def combine_lifespans(*lifespans: Callable[[Any], AbstractAsyncContextManager[Any]]) -> Callable[[Any], Any]:
    """Return a lifespan that enters several, in order, and merges the yielded dictionaries."""

    @asynccontextmanager
    async def combined(app: Any) -> AsyncIterator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            state: dict[str, Any] = {}
            for each in lifespans:
                state.update(await stack.enter_async_context(each(app)) or {})
            yield state

    return combined
