"""Middleware: code around the requests of clients."""

from typing import TYPE_CHECKING

from carrel.compat.fastmcp.server.middleware.middleware import CallNext, Middleware, MiddlewareContext
from carrel.compat.lazy import lazily

__all__ = ["AuthMiddleware", "CallNext", "Middleware", "MiddlewareContext", "PingMiddleware"]

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"AuthMiddleware": "authorization", "PingMiddleware": "ping"})
