"""Traces: the tracer of programs. Carrel itself traces requests, see docs/observability.md."""

from __future__ import annotations

from typing import Any

__all__ = ["get_tracer"]


def get_tracer(version: str | None = None) -> Any:
    """Return the tracer of OpenTelemetry."""
    from opentelemetry import trace

    return trace.get_tracer("fastmcp", version)
