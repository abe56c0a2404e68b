"""Logs of the commands: on standard error, as text for people or as JSON lines for programs."""

from __future__ import annotations

import logging
import sys

from carrel.printable import printable_lines

__all__ = ["FORMATS", "LEVELS", "configure"]

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


#: Characters of one line of a log.
MAX_LINE = 10_000


class TextLines(logging.Formatter):
    """Text without controls, whose second and further lines are indented: each other line begins a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return printable_lines(super().format(record), MAX_LINE).replace("\n", "\n    ")


class JSONLines(logging.Formatter):
    """One JSON object per line: time (ISO 8601, UTC), level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
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
    """Write logs of ``level`` and worse to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines() if form == "json" else TextLines("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
