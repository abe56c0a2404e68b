"""Metrics of all workers at one endpoint.

All workers accept connections on one socket of their parent. The worker that answers asks the others for their metrics.
For that, the parent has a socket on the loopback interface for each worker.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from socketserver import BaseRequestHandler, TCPServer, ThreadingMixIn

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from carrel.metrics.serving import ServingThread, accept_on
from carrel.metrics.state import ServerState

__all__ = ["WorkerMetrics"]

#: Seconds that a worker gets for its report.
PATIENCE = 2.0
#: Requests for a report. Collecting metrics ends the interval of the longest delay of an event loop: probes leave it.
WITH_METRICS, HEALTH = b"m", b"h"


class _Metric(msgspec.Struct, array_like=True):
    name: str
    documentation: str
    kind: str
    unit: str
    samples: list[tuple[str, dict[str, str], float]]


class _Report(msgspec.Struct, array_like=True):
    """Metrics and readiness of one worker."""

    metrics: list[_Metric]
    problems: list[str]
    is_stuck: bool


class _Reports(ThreadingMixIn, TCPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, handler: type[BaseRequestHandler]) -> None:
        super().__init__(listener.getsockname(), handler, bind_and_activate=False)
        accept_on(self, listener)


class WorkerMetrics(ServingThread):
    """Metrics and readiness of all workers, as one of them sees them.

    Args:
        listeners: sockets of the workers, in the order of their numbers.
        number: number of this worker; it is the label ``worker`` of its metrics.
        registry: the metrics of this worker.
        state: the state of this worker.
    """

    def __init__(
        self, listeners: Sequence[socket.socket], number: int, registry: CollectorRegistry, state: ServerState
    ) -> None:
        self._number = number
        self._registry = registry
        self._state = state
        self._others = {other: each.getsockname() for other, each in enumerate(listeners, 1) if other != number}
        report = self._report

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    self.request.settimeout(PATIENCE)
                    metrics = self.request.recv(1) == WITH_METRICS
                    self.request.sendall(msgspec.msgpack.encode(report(metrics=metrics)))

        super().__init__(_Reports(listeners[number - 1], Handler), "carrel-reports")

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of all workers, each sample with the number of its worker as a label."""
        found: dict[str, Metric] = {}
        for number, report in self._reports().items():
            for each in report.metrics:
                metric = found.get(each.name)
                if metric is None:
                    metric = found[each.name] = Metric(each.name, each.documentation, each.kind, each.unit)
                for name, labels, value in each.samples:
                    metric.add_sample(name, {**labels, "worker": str(number)}, value)
        return found.values()

    @property
    def is_stuck(self) -> bool:
        """Whether the event loop of every worker has been blocked for a long time."""
        return all(report.is_stuck for report in self._reports(metrics=False).values())

    def readiness(self) -> tuple[bool, list[str]]:
        """Return whether a worker is ready, and the problems of all workers."""
        reports = self._reports(metrics=False)
        problems = {problem for report in reports.values() for problem in report.problems}
        shown = [
            problem if all(problem in report.problems for report in reports.values()) else f"worker {number}: {problem}"
            for problem in problems
            for number, report in reports.items()
            if problem in report.problems
        ]
        return any(not report.problems for report in reports.values()), sorted(set(shown))

    def _report(self, *, metrics: bool = True) -> _Report:
        collected = [
            _Metric(
                each.name,
                each.documentation,
                each.type,
                each.unit,
                [(sample.name, dict(sample.labels), float(sample.value)) for sample in each.samples],
            )
            for each in (self._registry.collect() if metrics else ())
        ]
        return _Report(collected, list(self._state.problems()), self._state.is_stuck)

    def _reports(self, *, metrics: bool = True) -> dict[int, _Report]:
        """Return the reports of this worker and of the others that answer, by number."""
        with ThreadPoolExecutor(len(self._others), "carrel-reports") as pool:
            asked = list(pool.map(partial(_ask, WITH_METRICS if metrics else HEALTH), self._others.values()))
        found = {number: report for number, report in zip(self._others, asked, strict=True) if report is not None}
        found[self._number] = self._report(metrics=metrics)
        return dict(sorted(found.items()))


def _ask(wanted: bytes, address: tuple[str, int]) -> _Report | None:
    """Return the report of a worker; None if it does not answer."""
    received = bytearray()
    try:
        with socket.create_connection(address, PATIENCE) as connection:
            connection.sendall(wanted)
            while data := connection.recv(1 << 16):
                received += data
        return msgspec.msgpack.decode(received, type=_Report)
    except (OSError, msgspec.DecodeError):
        return None
