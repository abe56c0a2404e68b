"""Clocks that a test sets."""

import asyncio

__all__ = ["Clock", "pass_time"]


def pass_time(seconds: float) -> None:
    """Set the clock of the running event loop forward. Timers that are due fire in its next iteration."""
    loop = asyncio.get_running_loop()
    usual = loop.time
    loop.time = lambda: usual() + seconds  # type: ignore[method-assign]


class Clock:
    """Seconds since the epoch, as the test wants them."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now
