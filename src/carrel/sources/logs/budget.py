"""Budget of one answer: bytes that are read, and time."""

from __future__ import annotations

from time import monotonic

from carrel.threads import stop_if_cancelled

__all__ = ["Budget"]


class Budget:
    """Bytes and seconds that one answer may take. ``read`` are the bytes that were read from disk or a process."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.read = 0
        self.reason: str | None = None
        """Why the budget is over: a phrase for the note in the answer."""
        self.reached: float | None = None
        """Time of the entry that was looked at last, in seconds since 1970."""
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
        """Return whether nothing more may be read."""
        if self.reason is None:
            if self.read >= self.most:
                self.reason = f"{self.most:,} bytes were looked through, which is the limit"
            elif monotonic() >= self._until:
                self.reason = f"it took {self._seconds:g} seconds, which is the limit"
        return self.reason is not None
