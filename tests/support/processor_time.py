"""Processor time of this process, for tests of cost: it is compared with other processor time, never with seconds."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

__all__ = ["fastest", "is_linear", "loop", "loops"]


def fastest(action: Callable[[], object], runs: int = 5) -> float:
    """Return the seconds that an action takes, the least of several runs."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def is_linear(small: Callable[[], object], large: Callable[[], object], most: float) -> bool:
    """Return whether ``large``, with four times the input of ``small``, takes linear time, at most ``most`` loops.

    Short times say nothing. Sixteen times as long would be quadratic; memory makes it more than four.
    """
    longest = fastest(large, 1)
    if longest < loop() / 4:
        return True
    longest = min(longest, fastest(large, 4))
    return longest < most * loop() and (longest < loop() / 4 or longest < 12 * fastest(small))


def loops(action: Callable[[], object]) -> float:
    """Return the processor time that an action takes, in units of ``loop``."""
    return fastest(action, 1) / loop()


@functools.cache
def loop() -> float:
    """Return the seconds that a loop of a million empty steps takes: about 0.01."""

    def steps() -> None:
        for _ in range(1_000_000):
            pass

    return fastest(steps)
