"""Observer of requests that counts and measures them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from carrel.errors import TooManyRequests
from carrel.protocol.observer import outcome_of
from carrel.protocol.server import ErrorResponse

if TYPE_CHECKING:
    from carrel.protocol.observer import RejectedRequest
    from carrel.protocol.server import Call, Reply

__all__ = ["MetricsObserver"]

#: Seconds, as the semantic conventions for MCP advise: https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)


class MetricsObserver:
    """Observer that keeps counters and a histogram in ``registry``.

    Labels have few values: methods and outcomes of the protocol, HTTP statuses. Names of tools, URIs and callers are in
    no label.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("method", "outcome", "era")
        self._duration = Histogram(
            "mcp_server_operation_duration",
            "Duration of requests, from their receipt to their response. A stream that may never end is left out.",
            labels,
            unit="seconds",
            buckets=BUCKETS,
            registry=registry,
        )
        self._requests = Counter(
            "carrel_requests", "Requests with a response, or cancelled.", labels, registry=registry
        )
        self._received = Counter(
            "carrel_received", "Size of the parameters of requests.", unit="bytes", registry=registry
        )
        self._sent = Counter("carrel_sent", "Size of responses.", unit="bytes", registry=registry)
        self._denied = Counter(
            "carrel_denied", "Requests that the access rules have denied.", ["method"], registry=registry
        )
        self._limited = Counter(
            "carrel_limited", "Requests that were refused because of a limit.", ["method"], registry=registry
        )
        self._rejected = Counter(
            "carrel_http_refusals", "HTTP requests that were refused, by status.", ["status"], registry=registry
        )
        self._children: dict[tuple[str, str, str], tuple[Any, Any]] = {}

    def admit(self, call: Call) -> None:
        """Admit every call."""

    def answered(self, call: Call, reply: Reply | None, seconds: float) -> None:
        """Count a response."""
        request = call.request
        outcome, size = outcome_of(call, reply)
        if outcome == "open":
            return  # it is counted at its end
        known = request.operation or request.method in call.peer.revision.requests
        method = request.method if known else "_OTHER"
        if isinstance(reply, ErrorResponse):
            if reply.status == TooManyRequests.status:
                self._limited.labels(method).inc()
            else:
                self._count_denial(call)
        key = (
            method,
            outcome,
            "stateless" if call.peer.revision.stateless else "session",
        )
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = (self._requests.labels(*key).inc, self._duration.labels(*key).observe)
        child[0]()
        if not request.endless:
            child[1](seconds)
        self._received.inc(len(memoryview(call.raw)))
        self._sent.inc(size)

    def _count_denial(self, call: Call) -> None:
        request, view = call.request, call.view
        if view is None or request.verb is None or request.target is None:
            return
        if not all(view.allows(request.verb, target) for target in request.find_targets(call.params)):
            self._denied.labels(request.method).inc()

    def http_rejected(self, request: RejectedRequest) -> None:
        """Count a request that HTTP has refused."""
        self._rejected.labels(str(request.status)).inc()
