"""Timing: middleware that measures how long requests take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from carrel.log import Log
from carrel.server.middleware.middleware import Middleware, Next, target_of

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.wire.base import Result

__all__ = ["Timing"]

log = Log("carrel.timing")


class Timing(Middleware):
    """Middleware that logs the duration of every request, also of a request that fails.

    Requests that take less than ``slower_than`` seconds are not logged. With ``report``, nothing is logged: it is
    called with the call and its duration in seconds, for example to update a histogram.
    """

    def __init__(self, *, slower_than: float = 0.0, report: Callable[[Call, float], object] | None = None) -> None:
        self._slower_than = slower_than
        self._report = report or _log

    async def on_request(self, call: Call, next: Next) -> Result:
        """Measure a request."""
        started = time.perf_counter()
        try:
            return await next(call)
        finally:
            seconds = time.perf_counter() - started
            if seconds >= self._slower_than:
                self._report(call, seconds)


def _log(call: Call, seconds: float) -> None:
    log.info("%s took %.1f ms", f"{call.method} {target_of(call)}".rstrip(), seconds * 1000)
