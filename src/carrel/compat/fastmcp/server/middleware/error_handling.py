"""Middleware that logs errors, and that repeats requests which failed for want of a connection."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from carrel.compat.fastmcp.server.middleware.middleware import Middleware

__all__ = ["ErrorHandlingMiddleware", "RetryMiddleware"]


class ErrorHandlingMiddleware(Middleware):
    """Middleware that logs and counts errors, and passes them on as they are."""

    def __init__(
        self,
        logger: logging.Logger | None = None,
        include_traceback: bool = False,
        error_callback: Callable[[Exception, Any], None] | None = None,
        transform_errors: bool = True,
    ) -> None:
        self.logger = logger or logging.getLogger("fastmcp.errors")
        self.include_traceback = include_traceback
        self.error_callback = error_callback
        self._counts: Counter[str] = Counter()

    async def on_message(self, context: Any, call_next: Any) -> Any:
        """Handle a message."""
        try:
            return await call_next(context)
        except Exception as error:
            name = type(error).__name__
            self._counts[f"{name}:{context.method}"] += 1
            self.logger.error("Error in %s: %s: %s", context.method, name, error, exc_info=self.include_traceback)
            if self.error_callback is not None:
                self.error_callback(error, context)
            raise

    def get_error_stats(self) -> dict[str, int]:
        """Return the number of errors by class and method."""
        return dict(self._counts)


class RetryMiddleware(Middleware):
    """Middleware that repeats requests which failed with some exceptions, after longer and longer pauses."""

    def __init__(
        self,
        max_retries: int = 3,
        base_delay: float = 1.0,
        max_delay: float = 60.0,
        backoff_multiplier: float = 2.0,
        retry_exceptions: tuple[type[Exception], ...] = (ConnectionError, TimeoutError),
        logger: logging.Logger | None = None,
    ) -> None:
        self.max_retries = max_retries
        self.base_delay = base_delay
        self.max_delay = max_delay
        self.backoff_multiplier = backoff_multiplier
        self.retry_exceptions = retry_exceptions
        self.logger = logger or logging.getLogger("fastmcp.retry")

    async def on_request(self, context: Any, call_next: Any) -> Any:
        """Handle a request."""
        for attempt in range(self.max_retries):
            try:
                return await call_next(context)
            except Exception as error:
                if not isinstance(error, self.retry_exceptions) and not isinstance(
                    error.__cause__, self.retry_exceptions
                ):
                    raise
                pause = min(self.base_delay * self.backoff_multiplier**attempt, self.max_delay)
                self.logger.warning("Request %s failed, again in %.1fs: %s", context.method, pause, error)
                await asyncio.sleep(pause)
        return await call_next(context)
