"""Logging, progress and cancellation.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

from typing import Any, get_args

from msgspec import field

from carrel.wire.base import Id, LoggingLevel, Meta, Params, Wire

#: Severity by log level, in reverse order of RFC 5424: higher numbers are more severe.
SEVERITY: dict[str, int] = {name: number for number, name in enumerate(get_args(LoggingLevel))}


class SetLevelParams(Params, kw_only=True):
    """Parameters of logging/setLevel (before 2026-07-28)."""

    level: LoggingLevel


class LoggingMessageParams(Wire, kw_only=True):
    meta: Meta | None = field(default=None, name="_meta")
    level: LoggingLevel
    logger: str | None = None
    data: Any


class ProgressParams(Wire, kw_only=True):
    """Parameters of notifications/progress. ``progress`` increases each time; ``total`` has the same unit."""

    meta: Meta | None = field(default=None, name="_meta")
    progress_token: Id
    progress: float
    total: float | None = None
    message: str | None = None


class CancelledParams(Params, kw_only=True):
    request_id: Id | None = None
    reason: str | None = None
