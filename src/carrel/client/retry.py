"""What may be asked again after a connection was lost, and when.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#unexpected-termination
"""

from __future__ import annotations

import random

import msgspec

from carrel.errors import HTTPStatusError, MCPError, RequestTimeout, SessionExpired, TransportError

__all__ = ["Retries"]

#: What changes nothing at the server, so that asking twice is as good as asking once: our names for it.
SAFE = frozenset(
    (
        *("complete", "discover", "get_prompt", "get_skill", "get_task", "fetch_task_result", "list_prompts"),
        *("list_resource_templates", "list_resources", "list_skills", "list_tasks", "list_tools", "ping"),
        *("read_directory", "read_resource", "set_level", "subscribe", "unsubscribe", "cancel_task"),
    )
)
#: Statuses that pass.
PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
#: The longest that a server may have us wait, in seconds.
MAX_WAIT = 60.0


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How often, and how long after: the pauses double from ``first`` to ``longest`` seconds, and are never the same.

    Requests that may have changed something are repeated only if they certainly did not arrive.
    """

    times: int = 3
    first: float = 0.2
    longest: float = 10.0

    def pause(self, operation: str, error: MCPError, attempt: int, *, safe: bool = False) -> float | None:
        """Return the seconds after which to ask again, after ``attempt`` failures; None if it is over."""
        if attempt > self.times or not isinstance(error, TransportError) or isinstance(error, RequestTimeout):
            return None
        if error.delivered and operation not in SAFE and not safe:
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
        """Return a pause that is between half as long and as long, so that not everybody comes back at once."""
        return pause * (0.5 + random.random() / 2)  # noqa: S311 - nothing is kept secret with it
