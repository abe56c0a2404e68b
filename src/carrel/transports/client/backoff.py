"""Exponential backoff with jitter for retries and reconnects, so that clients do not retry all at once."""

from __future__ import annotations

import random

__all__ = ["Backoff"]

#: Approximate delay before the first retry, in seconds; it doubles with each further one.
FIRST = 0.5
#: The longest delay between retries, in seconds.
LONGEST = 30.0


class Backoff:
    """Exponential backoff over a count of consecutive failures."""

    __slots__ = ("failures",)

    def __init__(self) -> None:
        self.failures = 0

    def delay(self, asked: float | None = None) -> float:
        """Return the delay in seconds. ``asked`` is the server's minimum, used as is before the first failure."""
        least = 0.01 if asked is None else max(asked, 0.01)
        if asked is not None and not self.failures:
            return least
        longest = min(LONGEST, FIRST * 2.0 ** min(self.failures, 10))
        return max(least, longest * random.uniform(0.5, 1.0))  # noqa: S311  (nothing secret)
