"""Audit records as log records of OpenTelemetry.

https://opentelemetry.io/docs/specs/otel/logs/data-model/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from carrel.errors import ConfigError

__all__ = ["Telemetry"]


class Telemetry:
    """Logger of OpenTelemetry, a destination of an ``AuditLog``. The exporter of the SDK sends the records.

    Raises:
        ConfigError: OpenTelemetry is not installed, or the process has not set up its SDK.
    """

    name = "the log exporter of OpenTelemetry"
    unwritten = 0

    def __init__(self) -> None:
        try:
            from opentelemetry import _logs as logs
            from opentelemetry.sdk._logs import LoggerProvider
        except ImportError:
            raise ConfigError(
                "[audit] otel needs the SDK of OpenTelemetry: "
                "pip install opentelemetry-distro opentelemetry-exporter-otlp"
            ) from None
        if not isinstance(logs.get_logger_provider(), LoggerProvider):
            raise ConfigError(
                "[audit] otel needs a logger provider of OpenTelemetry in this process: start it with "
                "OTEL_LOGS_EXPORTER=otlp opentelemetry-instrument carrel …, or set one up before the server starts"
            )
        self._logger = logs.get_logger("carrel.audit")
        self._record = logs.LogRecord
        self._info, self._warn = logs.SeverityNumber.INFO, logs.SeverityNumber.WARN

    def write(self, records: Sequence[bytes]) -> None:
        """Emit records."""
        for record in records:
            fields: dict[str, Any] = msgspec.json.decode(record)
            denied = fields.get("decision") == "denied"
            self._logger.emit(
                self._record(
                    timestamp=int(fields["time"] * 1_000_000_000),
                    severity_number=self._warn if denied else self._info,
                    severity_text="WARN" if denied else "INFO",
                    body=record.decode(),
                    attributes={name: value for name, value in fields.items() if isinstance(value, (str, int, float))},
                    event_name="carrel.audit",
                )
            )

    def close(self) -> None:
        """Do nothing: the SDK flushes its exporter when the process ends."""
