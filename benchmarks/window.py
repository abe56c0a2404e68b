"""The measuring of a steady flow of requests: warm up, then count, time and charge a whole number of rounds."""

import time
from dataclasses import dataclass
from statistics import quantiles

from .processes import Process


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement. `value` is the figure that is compared; the rest explains it.

    Seconds for times, bytes for memory, a number for counts. CPU and wall time are per request.
    """

    value: float
    wall: float | None = None
    p50: float | None = None
    p99: float | None = None
    count: int = 1


class Window:
    """Watches answers arrive at a fixed number in flight, and stops after about `seconds`.

    The window opens after a warm-up of a quarter of that time and at least one answer per request in flight,
    and closes on a whole multiple of them, so that servers which answer in bursts are charged whole bursts.
    """

    def __init__(self, process: Process, seconds: float, in_flight: int) -> None:
        self.process = process
        self.seconds = seconds
        self.in_flight = in_flight
        self.begun = time.perf_counter()
        self.opened: float | None = None
        self.closed: float | None = None
        self.cpu = 0.0
        self.count = 0
        self.latencies: list[float] = []

    def record(self, sent: float, received: float) -> None:
        """Note one right answer."""
        self.count += 1
        if self.closed is not None:
            return
        if self.opened is not None:
            self.latencies.append(received - sent)
        if self.count % self.in_flight:
            return
        if self.opened is None:
            if received - self.begun >= self.seconds / 4:
                self.opened = time.perf_counter()
                self.cpu = self.process.cpu()
        elif received - self.opened >= self.seconds:
            self.cpu = self.process.cpu() - self.cpu
            self.closed = time.perf_counter()

    def sample(self) -> Sample:
        """The measurement; the window must have closed."""
        assert self.opened is not None
        assert self.closed is not None
        count = len(self.latencies)
        percentiles = quantiles(self.latencies, n=100) if count > 1 else self.latencies * 99
        return Sample(self.cpu / count, (self.closed - self.opened) / count, percentiles[49], percentiles[98], count)
