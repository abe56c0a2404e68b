"""Logging configuration of the commands: to standard error, as text or as JSON lines."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TextIO

from carrel.printable import printable_lines
from carrel.redaction import without_secrets

__all__ = ["FORMATS", "LEVELS", "add_log_options", "configure"]

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


#: Maximum number of characters of one log line.
MAX_LINE = 10_000


class TextLines(logging.Formatter):
    """Text formatter that escapes control characters, hides secrets in URLs, and indents continuation lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one or more lines."""
        return printable_lines(without_secrets(super().format(record)), MAX_LINE).replace("\n", "\n    ")


class JSONLines(logging.Formatter):
    """JSON formatter, one object per line: time (ISO 8601, UTC), level, logger, message, and traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one JSON line."""
        import time

        from msgspec.json import encode

        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{when}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable_lines(without_secrets(record.getMessage()), MAX_LINE),
        }
        if record.exc_info:
            line["traceback"] = printable_lines(without_secrets(self.formatException(record.exc_info)), MAX_LINE)
        return encode(line).decode()


class StandardError(logging.StreamHandler[TextIO]):
    """Handler that writes to the current ``sys.stderr``, which prints above a progress bar while one is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.stream = sys.stderr
        super().emit(record)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add the options ``--log-format`` and ``--log-level``."""
    group = parser.add_argument_group("logs, on standard error")
    group.add_argument(
        "--log-format", choices=FORMATS, default=None, help="text for people, or JSON lines (default: text)"
    )
    group.add_argument(
        "--log-level", choices=LEVELS, default=None, help="the minimum level of messages (default: warning)"
    )


def configure(form: str, level: str) -> None:
    """Log records of ``level`` and above to standard error."""
    handler = StandardError(sys.stderr)
    handler.setFormatter(JSONLines() if form == "json" else TextLines("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
