"""Middleware that logs how long requests take."""

from __future__ import annotations

import logging
import time
from typing import Any

from carrel.compat.fastmcp.server.middleware.middleware import Middleware

__all__ = ["DetailedTimingMiddleware", "TimingMiddleware"]


class TimingMiddleware(Middleware):
    """Middleware that logs how long each request takes."""

    def __init__(self, logger: logging.Logger | None = None, log_level: int = logging.INFO) -> None:
        self.logger = logger or logging.getLogger("fastmcp.timing")
        self.log_level = log_level

    async def on_request(self, context: Any, call_next: Any) -> Any:
        """Handle a request."""
        begun = time.perf_counter()
        verb = "failed after"
        try:
            result = await call_next(context)
            verb = "completed in"
            return result
        finally:
            passed = (time.perf_counter() - begun) * 1000
            self.logger.log(self.log_level, "Request %s %s %.2fms", context.method, verb, passed)


DetailedTimingMiddleware = TimingMiddleware
