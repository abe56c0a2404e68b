"""Running a transport as the work of a process, which ends when it is told to end."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["run"]

#: Seconds that threads get to finish when everything else has ended.
GRACE = 2.0


def run(main: Coroutine[Any, Any, None], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    """Run ``main`` to its end.

    A function that hangs in a thread cannot be stopped, and Python would wait for it for ever; so the process ends
    without it.
    """
    end = threading.Timer(GRACE, _end)
    end.daemon = True

    async def run_to_end() -> None:
        try:
            await main
        finally:
            end.start()

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(run_to_end())
    finally:
        end.cancel()


def _end() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)
