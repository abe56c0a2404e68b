"""Budget of one response: limits on time and on bytes read."""

from __future__ import annotations

from time import monotonic

from carrel.threads import stop_if_cancelled

__all__ = ["ReadBudget"]


class ReadBudget:
    """Limits on the bytes and seconds of one response. ``read`` counts the bytes read from disk or from a process."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.read = 0
        self.reason: str | None = None
        """Reason why the budget is exhausted: a phrase for the note in the response."""
        self.reached: float | None = None
        """Time of the last examined entry, in seconds since 1970."""
        self._seconds = seconds
        self._until = monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(self._until - monotonic(), 0.0)

    def spend(self, count: int) -> None:
        """Add bytes that were read.

        Raises:
            CancelledError: the request has been cancelled.
        """
        stop_if_cancelled()
        self.read += count

    def is_over(self) -> bool:
        """Return whether the budget is exhausted."""
        if self.reason is None:
            if self.read >= self.most:
                self.reason = f"{self.most:,} bytes were looked through, which is the limit"
            elif monotonic() >= self._until:
                self.reason = f"it took {self._seconds:g} seconds, which is the limit"
        return self.reason is not None
