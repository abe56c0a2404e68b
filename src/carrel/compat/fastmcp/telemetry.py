"""Traces: the tracer of programs. Carrel itself traces requests, see docs/observability.md."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["get_tracer", "suppress_fastmcp_telemetry"]


def get_tracer(version: str | None = None) -> Any:
    """Return the tracer of OpenTelemetry."""
    from opentelemetry import trace

    return trace.get_tracer("fastmcp", version)


@contextmanager
def suppress_fastmcp_telemetry() -> Iterator[None]:
    """Record no calls of servers whose sessions begin within the block. Other spans are recorded."""
    from opentelemetry import context

    from carrel.server.telemetry import SUPPRESSED  # which loads OpenTelemetry

    token = context.attach(context.set_value(SUPPRESSED, True))
    try:
        yield
    finally:
        context.detach(token)
