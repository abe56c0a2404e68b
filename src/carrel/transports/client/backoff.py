"""How long to wait before the next try, so that a server which is in trouble is not asked by everybody at once."""

from __future__ import annotations

import random

__all__ = ["Backoff"]

#: Seconds before the second try, about; the time doubles with each further one.
FIRST = 0.5
#: The longest time between tries, in seconds.
LONGEST = 30.0


class Backoff:
    """Counts failures in a row, and says how long to wait."""

    __slots__ = ("failures",)

    def __init__(self) -> None:
        self.failures = 0

    def delay(self, asked: float | None = None) -> float:
        """Return the seconds to wait. ``asked`` is what the server wants at least; the first time, that is enough."""
        least = 0.01 if asked is None else max(asked, 0.01)
        if asked is not None and not self.failures:
            return least
        longest = min(LONGEST, FIRST * 2.0 ** min(self.failures, 10))
        return max(least, longest * random.uniform(0.5, 1.0))  # noqa: S311  (nothing secret)
