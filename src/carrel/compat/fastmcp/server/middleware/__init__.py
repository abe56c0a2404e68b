"""Middleware: code around the requests of clients."""

from typing import TYPE_CHECKING

from carrel.compat.fastmcp.server.middleware.middleware import CallNext, Middleware, MiddlewareContext
from carrel.compat.lazy import lazily

__all__ = ["CallNext", "Middleware", "MiddlewareContext", "PingMiddleware"]

INSTEAD = {"AuthMiddleware": "use carrel.Server with carrel.security (docs/access.md)"}

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"PingMiddleware": "ping"}, INSTEAD)
