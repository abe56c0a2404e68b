"""What one request may cost: counted as it is done, so that no folder, however hostile, makes one take long.

The unit is about a microsecond. Counted is what takes the time: names that are looked up, directories that are opened
and read, patterns that are tried. Time itself is not measured, so that a slow disk makes no page shorter.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from carrel.threads import stop_if_cancelled

if TYPE_CHECKING:
    from carrel.sources.folder.tree import Position

__all__ = ["PAGE", "WHOLE", "Work"]

PAGE = 50_000.0  # for a page of a list
WHOLE = 1_000_000.0  # for an answer that has no pages: a search, a directory that is read


class Work:
    """The work that one request has caused, and where it came to an end if that was too much."""

    __slots__ = ("limit", "position", "spent")

    def __init__(self, limit: float = inf) -> None:
        self.limit = limit
        self.spent = 0.0
        self.position: Position | None = None
        """Where to go on."""

    @property
    def is_over(self) -> bool:
        """Whether the limit is reached.

        Raises:
            CancelledError: the request for which the work is done has been cancelled.
        """
        stop_if_cancelled()
        return self.spent >= self.limit
