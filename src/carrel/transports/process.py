"""Process runner of server transports: runs the event loop and guarantees that the process exits."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from carrel.log import Log

__all__ = ["run"]

log = Log("carrel")

#: Seconds that threads get to finish after the main coroutine has ended.
GRACE = 2.0


def run(main: Coroutine[Any, Any, None], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    """Run the coroutine ``main`` in an event loop until it completes.

    A function that hangs in a thread cannot be stopped, and Python would wait for it for ever; so the process exits
    without it. If a background task raises SystemExit, the event loop is restarted: only ``main`` ends the process.
    """
    end = threading.Timer(GRACE, _end)
    end.daemon = True

    async def run_to_end() -> None:
        try:
            await main
        finally:
            end.start()

    async def wait_for(task: asyncio.Task[None]) -> None:
        await task

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            task = runner.get_loop().create_task(run_to_end())
            while True:
                try:
                    runner.run(wait_for(task))
                except SystemExit as error:
                    if task.done():
                        raise
                    log.error("a task that a function started raised SystemExit; the server continues", exc_info=error)
                else:
                    break
    finally:
        end.cancel()


def _end() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)
