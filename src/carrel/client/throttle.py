"""Throttle: limits how fast the client reads unsolicited messages of a server."""

from __future__ import annotations

from collections.abc import Callable

from carrel.log import Log

__all__ = ["BURST", "RATE", "Throttle"]

log = Log("carrel.client")

#: Unsolicited messages that a client reads per second from one server: requests, notifications, and ignored messages.
RATE = 2000
#: Number of unsolicited messages that it reads at once before the rate applies.
BURST = 10_000
#: Seconds for which a client stops reading from a server that is too fast.
PAUSE = 0.005


class Throttle:
    """Token bucket of the unsolicited messages of one server. Responses to requests are not counted.

    No messages are dropped. If a server sends faster than the rate, the client reads more slowly, so that only this
    server has to wait. For example, after a burst of 10,000 notifications, every ten further notifications have to wait
    for 5 milliseconds.
    """

    __slots__ = ("_clock", "_left", "_logged", "_when", "name")

    def __init__(self, clock: Callable[[], float], name: str = "the server") -> None:
        self.name = name
        self._clock = clock
        self._left = float(BURST)
        self._when = clock()
        self._logged = False

    def take(self, count: int = 1) -> float | None:
        """Count messages; return the seconds to pause reading, or None."""
        self._left -= count
        if self._left >= 0:
            return None
        now = self._clock()
        self._left = min(self._left + (now - self._when) * RATE, BURST)
        self._when = now
        if self._left >= 0:
            return None
        if not self._logged:
            self._logged = True
            log.warning(
                "%s sends too many unsolicited messages: more than %d at once, then %d a second are read "
                "with pauses (BURST, RATE)",
                *(self.name, BURST, RATE),
            )
        return max(PAUSE, -self._left / RATE)
