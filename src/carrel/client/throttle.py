"""Throttle of a server's traffic: how fast a client reads what a server sends without having been asked."""

from __future__ import annotations

from collections.abc import Callable

from carrel.log import Log

__all__ = ["BURST", "RATE", "Throttle"]

log = Log("carrel.client")

#: Unsolicited messages that a client reads per second from one server: requests, notifications, and what it ignores.
RATE = 2000
#: How many of them it reads at once, before the rate applies.
BURST = 10_000
#: Seconds for which a client stops reading from a server that is too fast.
PAUSE = 0.005


class Throttle:
    """Token bucket of the unsolicited messages of one server. Responses to requests are not counted.

    Nothing is dropped. A server that sends faster is read more slowly, so that it waits, and not those beside it. For
    example, after a burst of 10,000 notifications, every further ten of them have to wait for 5 milliseconds.
    """

    __slots__ = ("_clock", "_left", "_told", "_when", "name")

    def __init__(self, clock: Callable[[], float], name: str = "the server") -> None:
        self.name = name
        self._clock = clock
        self._left = float(BURST)
        self._when = clock()
        self._told = False

    def take(self, count: int = 1) -> float | None:
        """Count messages; return the seconds for which nothing more should be read, None to go on."""
        self._left -= count
        if self._left >= 0:
            return None
        now = self._clock()
        self._left = min(self._left + (now - self._when) * RATE, BURST)
        self._when = now
        if self._left >= 0:
            return None
        if not self._told:
            self._told = True
            log.warning(
                "%s sends too many messages that were not asked for: more than %d at once, then %d a second are read "
                "with pauses (BURST, RATE)",
                *(self.name, BURST, RATE),
            )
        return max(PAUSE, -self._left / RATE)
