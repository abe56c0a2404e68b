"""Middleware that logs requests, as text or as JSON."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pydantic_core

from carrel.compat.fastmcp.server.middleware.middleware import Middleware

__all__ = ["LoggingMiddleware", "StructuredLoggingMiddleware", "default_serializer"]

#: Characters of a payload that are counted as one token.
CHARACTERS_PER_TOKEN = 4


def default_serializer(data: Any) -> str:
    """Return a payload as JSON; values that JSON has no form of become text."""
    return pydantic_core.to_json(data, fallback=str).decode()


class BaseLoggingMiddleware(Middleware):
    """Middleware that logs each message, its result or error, and how many milliseconds it took."""

    structured_logging = False
    logger_name = "fastmcp.middleware.logging"

    def __init__(
        self,
        *,
        logger: logging.Logger | None = None,
        log_level: int = logging.INFO,
        methods: list[str] | None = None,
        payload_serializer: Callable[[Any], str] | None = None,
        max_payload_length: int | None = None,
        **included: bool,
    ) -> None:
        self.logger = logger or logging.getLogger(self.logger_name)
        self.log_level = log_level
        self.methods = methods
        self.payload_serializer = payload_serializer
        self.max_payload_length = max_payload_length
        self.include_payloads = included.pop("include_payloads", False)
        self.include_payload_length = included.pop("include_payload_length", False)
        self.estimate_payload_tokens = included.pop("estimate_payload_tokens", False)
        if included:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(included))!r}")

    def _serialize_payload(self, context: Any) -> str:
        if self.payload_serializer is not None:
            try:
                return self.payload_serializer(context.message)
            except Exception as error:
                what = f"{context.type} {context.method} {context.source}"
                self.logger.warning(f"Failed to serialize payload due to {error}: {what}.")
        return default_serializer(context.message)

    def _event(self, what: str, context: Any) -> dict[str, Any]:
        method = context.method or "unknown"
        return {"event": f"{context.type}_{what}", "method": method, "source": context.source}

    def _create_before_message(self, context: Any) -> dict[str, Any]:
        message = self._event("start", context)
        if not (self.include_payloads or self.include_payload_length or self.estimate_payload_tokens):
            return message
        payload = self._serialize_payload(context)
        if self.estimate_payload_tokens:
            message["payload_tokens"] = len(payload) // CHARACTERS_PER_TOKEN
        if self.include_payload_length:
            message["payload_length"] = len(payload)
        if self.include_payloads:
            most = self.max_payload_length
            message["payload"] = f"{payload[:most]}..." if most and len(payload) > most else payload
            message["payload_type"] = type(context.message).__name__
        return message

    def _format_message(self, message: dict[str, Any]) -> str:
        if self.structured_logging:
            return json.dumps(message)
        return " ".join(f"{key}={value}" for key, value in message.items())

    async def on_message(self, context: Any, call_next: Any) -> Any:
        """Handle a message."""
        if self.methods and context.method not in self.methods:
            return await call_next(context)
        self.logger.log(self.log_level, self._format_message(self._create_before_message(context)))
        begun = time.perf_counter()
        try:
            result = await call_next(context)
        except Exception as error:
            ended = {"duration_ms": _get_duration_ms(begun), "error": str(error)}
            self.logger.log(logging.ERROR, self._format_message(self._event("error", context) | ended))
            raise
        ended = {"duration_ms": _get_duration_ms(begun)}
        self.logger.log(self.log_level, self._format_message(self._event("success", context) | ended))
        return result


class LoggingMiddleware(BaseLoggingMiddleware):
    """Middleware that logs each message as text."""

    def __init__(self, *, max_payload_length: int | None = 1000, **options: Any) -> None:
        super().__init__(max_payload_length=max_payload_length, **options)


class StructuredLoggingMiddleware(BaseLoggingMiddleware):
    """Middleware that logs each message as JSON."""

    structured_logging = True
    logger_name = "fastmcp.middleware.structured_logging"


def _get_duration_ms(begun: float) -> float:
    return round((time.perf_counter() - begun) * 1000, 2)
