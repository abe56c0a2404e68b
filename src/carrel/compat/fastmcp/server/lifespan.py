"""Lifespans: set-up at the start of a server and tear-down at its stop, which can be combined."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

__all__ = ["ContextManagerLifespan", "Lifespan", "lifespan"]


class Lifespan:
    """Lifespan that can be combined with others: ``one | two``. The yielded dictionaries are merged."""

    def __init__(self, enter: Callable[[Any], AbstractAsyncContextManager[Any]]) -> None:
        self._enter = enter

    @asynccontextmanager
    async def __call__(self, server: Any) -> AsyncIterator[dict[str, Any]]:
        async with self._enter(server) as state:
            yield {} if state is None else state

    def __or__(self, other: Any) -> Lifespan:
        @asynccontextmanager
        async def both(server: Any) -> AsyncIterator[dict[str, Any]]:
            async with self(server) as one, other(server) as two:
                yield {**one, **two}

        return Lifespan(both)


ContextManagerLifespan = Lifespan


def lifespan(function: Callable[[Any], AsyncIterator[Any]]) -> Lifespan:
    """Return the lifespan of an asynchronous generator, which takes the server."""
    return Lifespan(asynccontextmanager(function))
