"""Traces of requests, which Carrel writes itself."""

from __future__ import annotations

from carrel.compat.mcp2.server.context import CallNext, HandlerResult, ServerRequestContext

__all__ = ["OpenTelemetryMiddleware"]


class OpenTelemetryMiddleware:
    """Middleware that passes messages through: Carrel writes the spans if opentelemetry is set up."""

    async def __call__(self, ctx: ServerRequestContext, call_next: CallNext) -> HandlerResult:
        """Call the rest of the chain."""
        return await call_next(ctx)
