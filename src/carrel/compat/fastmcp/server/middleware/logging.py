"""Middleware that logs requests, as text or as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pydantic_core

from carrel.compat.fastmcp.server.middleware.middleware import Middleware

__all__ = ["LoggingMiddleware", "StructuredLoggingMiddleware"]


class LoggingMiddleware(Middleware):
    """Middleware that logs each message, and whether it succeeded."""

    structured = False

    def __init__(
        self,
        *,
        logger: logging.Logger | None = None,
        log_level: int = logging.INFO,
        include_payloads: bool = False,
        max_payload_length: int = 1000,
        methods: list[str] | None = None,
        payload_serializer: Callable[[Any], str] | None = None,
        **_: Any,
    ) -> None:
        self.logger = logger or logging.getLogger("fastmcp.middleware.logging")
        self.log_level = log_level
        self.include_payloads = include_payloads
        self.max_payload_length = max_payload_length
        self.methods = methods
        self._serialize = payload_serializer or (lambda value: pydantic_core.to_json(value, fallback=str).decode())

    def _log(self, level: int, event: str, context: Any, **details: Any) -> None:
        values = {"event": event, "method": context.method, "source": context.source, **details}
        if self.structured:
            self.logger.log(level, "%s", json.dumps(values))
        else:
            self.logger.log(level, "%s", " ".join(f"{key}={value}" for key, value in values.items()))

    async def on_message(self, context: Any, call_next: Any) -> Any:
        """Handle a message."""
        if self.methods is not None and context.method not in self.methods:
            return await call_next(context)
        details = {}
        if self.include_payloads:
            details["payload"] = self._serialize(context.message)[: self.max_payload_length]
        self._log(self.log_level, f"{context.type}_start", context, **details)
        try:
            result = await call_next(context)
        except Exception as error:
            self._log(logging.ERROR, f"{context.type}_error", context, error=str(error))
            raise
        self._log(self.log_level, f"{context.type}_success", context)
        return result


class StructuredLoggingMiddleware(LoggingMiddleware):
    """Middleware that logs each message as JSON."""

    structured = True
