"""Metrics of several workers: what one of them asks the others for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry

from carrel.metrics import ServerState
from carrel.metrics.state import StateCollector
from carrel.metrics.workers import WorkerMetrics


@pytest.fixture
def workers() -> Iterator[list[tuple[WorkerMetrics, ServerState]]]:
    made = []
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        for number in (1, 2):
            state = ServerState({}, dict, dict, list)
            registry = CollectorRegistry()
            registry.register(StateCollector(state))
            worker = WorkerMetrics(listeners, number, registry, state)
            worker.start()
            stack.callback(worker.stop)
            made.append((worker, state))
        yield made


def test_probes_leave_the_longest_delay_of_each_event_loop_to_the_next_scrape(
    workers: list[tuple[WorkerMetrics, ServerState]],
) -> None:
    (worker, _), _ = workers
    for _, state in workers:
        state.lag.maximum = 5000.0
    assert worker.readiness() == (True, [])
    assert not worker.is_stuck
    assert delays(worker) == {"1": 5000.0, "2": 5000.0}
    assert max(delays(worker).values()) < 5000.0


def delays(worker: WorkerMetrics) -> dict[str, float]:
    """Return the longest delays of the event loops by worker, as a scrape has them."""
    [metric] = [each for each in worker.collect() if each.name == "carrel_event_loop_lag_seconds"]
    return {sample.labels["worker"]: sample.value for sample in metric.samples}
