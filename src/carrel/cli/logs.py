"""Logging configuration of the commands: to standard error, as text or as JSON lines."""

from __future__ import annotations

import logging
import sys

from carrel.printable import printable_lines

__all__ = ["FORMATS", "LEVELS", "configure"]

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


#: Maximum number of characters of one log line.
MAX_LINE = 10_000


class TextLines(logging.Formatter):
    """Text formatter that escapes control characters and indents continuation lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one or more lines."""
        return printable_lines(super().format(record), MAX_LINE).replace("\n", "\n    ")


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
            "message": printable_lines(record.getMessage(), MAX_LINE),
        }
        if record.exc_info:
            line["traceback"] = printable_lines(self.formatException(record.exc_info), MAX_LINE)
        return encode(line).decode()


def configure(form: str, level: str) -> None:
    """Log records of ``level`` and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines() if form == "json" else TextLines("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
