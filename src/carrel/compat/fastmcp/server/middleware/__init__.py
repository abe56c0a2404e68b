"""Middleware: code around the requests of clients."""

from typing import TYPE_CHECKING

from carrel.compat.fastmcp.server.middleware.middleware import CallNext, Middleware, MiddlewareContext
from carrel.compat.lazy import lazily

__all__ = ["AuthMiddleware", "CallNext", "Middleware", "MiddlewareContext"]

INSTEAD = {
    "PingMiddleware": "leave it out: transports notice by themselves when a client is gone",
}

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"AuthMiddleware": "authorization"}, INSTEAD)
