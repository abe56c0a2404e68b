"""Work budget of a request: limits its cost, even for a hostile folder.

The unit is about a microsecond. The budget counts expensive operations: names looked up, directories opened and read,
patterns tried. Elapsed time is not measured, so that a slow disk does not make pages shorter.
"""

from __future__ import annotations

from math import inf

from carrel.sources.folder.position import TreePosition
from carrel.threads import stop_if_cancelled

__all__ = ["PAGE", "WHOLE", "Work"]

PAGE = 50_000.0  # for a page of a list
WHOLE = 1_000_000.0  # for a result without pages: a search, a directory that is read


class Work:
    """Work spent on one request, its limit, and the position where the walk stopped if that was exceeded."""

    __slots__ = ("limit", "position", "spent")

    def __init__(self, limit: float = inf) -> None:
        self.limit = limit
        self.spent = 0.0
        self.position: TreePosition | None = None
        """Position to resume from."""

    @property
    def is_over(self) -> bool:
        """Whether the limit has been reached.

        Raises:
            CancelledError: the request for which the work is done has been cancelled.
        """
        stop_if_cancelled()
        return self.spent >= self.limit
