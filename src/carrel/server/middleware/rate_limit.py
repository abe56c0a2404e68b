"""RateLimit: middleware that limits how many requests each caller may send."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from carrel.errors import ServerUnavailable
from carrel.protocol.methods import DISCOVER, INITIALIZE, PING
from carrel.server.middleware.middleware import Middleware, Next, caller_of

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.wire.base import Result

__all__ = ["RateLimit"]

#: Operations without a limit: a client needs them to connect and to stay connected.
FREE = frozenset(row.operation for row in (DISCOVER, INITIALIZE, PING))


class RateLimit(Middleware):
    """Middleware that lets each caller send ``rate`` requests per second on average, and ``burst`` at once.

    More requests get the error ``ServerUnavailable``, with the time to wait; they have had no effect. ``key`` returns
    the caller of a call; by default, this is the authenticated user, or else the client. A constant makes one
    limit for all callers. ``clock`` returns a time in seconds.

    The state takes memory for ``max_callers`` callers, and is in this process: each replica of a server counts its own
    requests.
    """

    def __init__(
        self,
        rate: float,
        *,
        burst: int | None = None,
        key: Callable[[Call], Hashable] | None = None,
        max_callers: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if rate <= 0:
            raise ValueError("rate must be above 0")
        self._rate = rate
        self._burst = max(1, math.ceil(rate)) if burst is None else burst
        self._key = key or caller_of
        self._max_callers = max_callers
        self._clock = clock
        self._tokens: dict[Hashable, tuple[float, float]] = {}
        """Tokens that a caller has left, and the time of its last request; the least recent caller comes first."""

    async def on_request(self, call: Call, next: Next) -> Result:
        """Count a request."""
        if call.request.operation not in FREE:
            self._take(self._key(call))
        return await next(call)

    def _take(self, caller: Hashable) -> None:
        """Take a token of a caller.

        Raises:
            ServerUnavailable: the caller has none left.
        """
        now = self._clock()
        tokens, last = self._tokens.pop(caller, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - last) * self._rate)
        allowed = tokens >= 1
        self._tokens[caller] = (tokens - 1 if allowed else tokens, now)
        if len(self._tokens) > self._max_callers:
            del self._tokens[next(iter(self._tokens))]
        if not allowed:
            wait = math.ceil((1 - tokens) / self._rate * 10) / 10  # 0.0 would say: retry now
            raise ServerUnavailable(f"Too many requests: at most {self._rate:g} per second; retry in {wait:.1f} s")
