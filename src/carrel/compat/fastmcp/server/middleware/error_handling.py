"""Middleware that logs errors, and that repeats requests which failed for want of a connection."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from carrel.compat.fastmcp.exceptions import NotFoundError, ValidationError, error_response
from carrel.compat.fastmcp.server.middleware.middleware import Middleware
from carrel.compat.mcp.shared.exceptions import McpError

__all__ = ["ErrorHandlingMiddleware", "RetryMiddleware"]


#: Codes and words of error responses, by the exceptions that they stand for.
CODES: tuple[tuple[tuple[type[Exception], ...], int, str], ...] = (
    ((ValueError, TypeError, ValidationError), -32602, "Invalid params"),
    ((FileNotFoundError, KeyError, NotFoundError), -32001, "Not found"),
    ((PermissionError,), -32000, "Permission denied"),
    ((TimeoutError,), -32000, "Request timeout"),
)


class ErrorHandlingMiddleware(Middleware):
    """Middleware that logs and counts errors, and turns them into error responses if ``transform_errors`` is true."""

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
        self.transform_errors = transform_errors
        self.error_counts: dict[str, int] = defaultdict(int)

    async def on_message(self, context: Any, call_next: Any) -> Any:
        """Handle a message."""
        try:
            return await call_next(context)
        except Exception as error:
            self._log_error(error, context)
            found = self._transform_error(error, context)
            if found is error:
                raise
            raise found from error

    def _log_error(self, error: Exception, context: Any) -> None:
        name, method = type(error).__name__, context.method or "unknown"
        self.error_counts[f"{name}:{method}"] += 1
        self.logger.error("Error in %s: %s: %s", method, name, error, exc_info=self.include_traceback)
        if self.error_callback is not None:
            try:
                self.error_callback(error, context)
            except Exception as failure:
                self.logger.error("Error in error callback: %s", failure)

    def _transform_error(self, error: Exception, context: Any) -> Exception:
        if isinstance(error, McpError) or not self.transform_errors:
            return error
        kind = type(error.__cause__ or error)
        code, words = next((found[1:] for found in CODES if kind in found[0]), (-32603, "Internal error"))
        if words == "Not found" and (context.method or "").startswith("resources/"):
            code, words = -32002, "Resource not found"
        return error_response(code, f"{words}: {error}")

    def get_error_stats(self) -> dict[str, int]:
        """Return the number of errors by class and method."""
        return dict(self.error_counts)


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
                if not self._should_retry(error):
                    raise
                pause = self._calculate_delay(attempt)
                self.logger.warning("Retrying in %.1fs: request %s failed: %s", pause, context.method, error)
                await asyncio.sleep(pause)
        return await call_next(context)

    def _should_retry(self, error: Exception) -> bool:
        """Return whether an error, or its cause, is one of ``retry_exceptions``."""
        return isinstance(error, self.retry_exceptions) or isinstance(error.__cause__, self.retry_exceptions)

    def _calculate_delay(self, attempt: int) -> float:
        """Return the pause in seconds after an attempt, the first of which has the number 0."""
        return min(self.base_delay * self.backoff_multiplier**attempt, self.max_delay)
