"""Functions and coroutines: tell them apart, and run them together or in threads."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from anyio.to_thread import run_sync as run_sync_in_threadpool

__all__ = ["call_sync_fn_in_threadpool", "gather", "is_coroutine_function", "run_sync_in_threadpool"]


def is_coroutine_function(fn: Any) -> bool:
    """Return whether a function is a coroutine function, also if it is partial."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn)


async def call_sync_fn_in_threadpool(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in a thread."""
    return await run_sync_in_threadpool(functools.partial(fn, *args, **kwargs))


async def gather(awaitables: Iterable[Awaitable[Any]], *, return_exceptions: bool = False) -> list[Any]:
    """Await all, and return the results in order. The first exception cancels the others, unless they are returned."""
    if return_exceptions:
        return list(await asyncio.gather(*awaitables, return_exceptions=True))

    async def wait(each: Awaitable[Any]) -> Any:
        return await each

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait(each)) for each in awaitables]
    return [task.result() for task in tasks]
