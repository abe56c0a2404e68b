"""Retry policy: which requests are retried after a lost connection, with exponential backoff and jitter.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#unexpected-termination
"""

from __future__ import annotations

import random

import msgspec

from carrel.errors import (
    UNAVAILABLE_STATUSES,
    HTTPStatusError,
    MCPError,
    RequestTimeout,
    SessionExpired,
    TransportError,
)

__all__ = ["Retries"]

#: HTTP statuses of temporary failures.
PASSING = UNAVAILABLE_STATUSES | {500}
#: Maximum Retry-After that is honoured, in seconds.
MAX_WAIT = 60.0


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """Retry policy: up to ``times`` retries, with jittered backoff that doubles from ``first`` to ``longest`` seconds.

    Requests that are not idempotent are retried only if they were certainly not delivered.
    """

    times: int = 3
    first: float = 0.2
    longest: float = 10.0

    def pause(self, error: MCPError, attempt: int, *, safe: bool) -> float | None:
        """Return the seconds to wait before the next retry, after ``attempt`` failures; None to stop retrying.

        ``safe``: the request is idempotent, and may be retried although it was delivered.
        """
        if attempt > self.times or not isinstance(error, TransportError) or isinstance(error, RequestTimeout):
            return None
        if error.delivered and not safe:
            return None
        if isinstance(error, SessionExpired):
            return 0.0
        pause = self.jitter(min(self.longest, self.first * 2 ** (attempt - 1)))
        if isinstance(error, HTTPStatusError):
            if error.status not in PASSING:
                return None
            if error.retry_after is not None:
                return None if error.retry_after > MAX_WAIT else max(pause, error.retry_after)
        return pause

    @staticmethod
    def jitter(pause: float) -> float:
        """Return a random pause between half of ``pause`` and ``pause``, so that clients do not retry in step."""
        return pause * (0.5 + random.random() / 2)  # noqa: S311 - not used for secrets
