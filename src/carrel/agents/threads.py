"""Synchronous calls of asynchronous tools, from threads other than the event loop's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from carrel.errors import ConfigError

__all__ = ["wait_in_thread"]

T = TypeVar("T")


def wait_in_thread(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, instead: str) -> T:
    """Run a coroutine in an event loop, and wait for it in this thread. An interrupt cancels it.

    Args:
        loop: the event loop of the servers.
        instead: what to use in the thread of that loop, where waiting would stop everything.

    Raises:
        ConfigError: this is the thread of the loop, or the loop does not run any more.
    """
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is loop or not loop.is_running():
        work.close()
        if here is loop:
            raise ConfigError(f"a synchronous call would block the event loop of the servers: {instead}")
        raise ConfigError("the event loop of the servers has stopped")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
