"""State of a server at the time of a scrape: sessions, streams, sources, readiness, and the delay of its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

__all__ = ["Lag", "ServerState", "StateCollector"]

#: Seconds between two measurements of the event loop.
INTERVAL = 0.25
#: Seconds after which an event loop that does not run is not healthy.
STUCK = 10.0

GAUGES = {
    "connections": "Open HTTP connections.",
    "sessions": "Sessions of HTTP clients.",
    "streams": "Open streams of events.",
    "subscriptions": "Subscriptions to resources and lists.",
    "kept_bytes": "Memory that is kept for clients: responses and events that they have not read.",
    "threads": "Threads that run handlers without async now.",
    "index_complete": "Whether the search index has all resources that were shared at the start.",
    "index_updates": "How often changes were indexed.",
}


class Lag:
    """Delay of the event loop: how late a timer fires."""

    def __init__(self) -> None:
        self.maximum = 0.0
        """The longest delay since the last scrape, in seconds."""
        self._seen = monotonic()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to measure."""
        self._seen = monotonic()
        self._task = asyncio.create_task(self._measure())

    async def stop(self) -> None:
        """Stop measuring."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            now = monotonic()
            self.maximum = max(self.maximum, now - self._seen - INTERVAL)
            self._seen = now

    def take(self) -> float:
        """Return the longest delay since the last call, and at least for how long the loop is late now."""
        found, self.maximum = self.maximum, 0.0
        return max(found, monotonic() - self._seen - INTERVAL, 0.0)

    @property
    def is_stuck(self) -> bool:
        """Whether the event loop has been blocked for a long time."""
        return self._task is not None and monotonic() - self._seen > STUCK


class ServerState:
    """Readers of the state of a server, which are called from the thread of a scrape.

    ``gauges`` are numbers by name, ``sources`` returns whether each source is available, ``errors`` how often each one
    has failed, ``problems`` the reasons why the server is not ready.
    """

    def __init__(
        self,
        gauges: Mapping[str, Callable[[], float]],
        sources: Callable[[], Mapping[str, bool]],
        errors: Callable[[], Mapping[str, int]],
        problems: Callable[[], Iterable[str]],
    ) -> None:
        self.gauges = gauges
        self.sources = sources
        self.errors = errors
        self.problems = problems
        self.lag = Lag()

    @property
    def is_stuck(self) -> bool:
        """Whether the event loop has been blocked for a long time."""
        return self.lag.is_stuck

    def readiness(self) -> tuple[bool, list[str]]:
        """Return whether the server is ready, and why it is not."""
        problems = sorted(self.problems())
        return not problems, problems


class StateCollector:
    """Collector of the state of a server, for a registry of prometheus_client."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    def collect(self) -> Iterable[Any]:
        """Yield the metrics."""
        for name, read in self._state.gauges.items():
            yield GaugeMetricFamily(f"carrel_{name}", GAUGES[name], value=float(read()))
        up = GaugeMetricFamily(
            "carrel_source_up", "Whether a source, or a server of a gateway, is available.", labels=["source"]
        )
        for source, available in self._state.sources().items():
            up.add_metric([source], float(available))
        yield up
        failures = CounterMetricFamily(
            "carrel_source_errors", "How often a source has become unavailable.", labels=["source"]
        )
        for source, count in self._state.errors().items():
            failures.add_metric([source], count)
        yield failures
        yield GaugeMetricFamily(
            "carrel_event_loop_lag_seconds",
            "The longest delay of the event loop since the last scrape.",
            value=self._state.lag.take(),
        )
