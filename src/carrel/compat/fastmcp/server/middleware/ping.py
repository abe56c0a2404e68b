"""Middleware that pings clients, which Carrel's transports do not need."""

from __future__ import annotations

from carrel.compat.fastmcp.server.middleware.middleware import Middleware

__all__ = ["PingMiddleware"]


class PingMiddleware(Middleware):
    """Middleware without effect: transports keep connections open, and notice by themselves when a client is gone.

    Raises:
        ValueError: the interval is not positive.
    """

    def __init__(self, interval_ms: int = 30_000) -> None:
        if interval_ms <= 0:
            raise ValueError("interval_ms must be positive")
        self.interval_ms = interval_ms
