"""Metrics of a server for Prometheus, with health and readiness, on a separate listener."""

from carrel.metrics.listener import MetricsListener
from carrel.metrics.observer import MetricsObserver
from carrel.metrics.state import Lag, ServerState, StateCollector

__all__ = ["Lag", "MetricsListener", "MetricsObserver", "ServerState", "StateCollector"]
