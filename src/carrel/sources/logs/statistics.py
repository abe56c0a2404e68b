"""Statistics of log entries: levels per interval of time, and the messages that come most often."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from math import floor, inf
from typing import Any

from carrel.sources.logs.entries import LogEntry, shown
from carrel.sources.logs.times import iso

__all__ = ["Statistics"]

BUCKETS = 60  # the most intervals
WIDTHS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000, 31_536_000)
TOP = 20  # messages
MAX_TEMPLATES = 5000  # that are counted
MAX_TIMES = 100_000  # seconds that are counted by themselves
LENGTH = 200  # characters of a message that tell it from others

VARIABLE = re.compile(
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b|\b0x[0-9a-fA-F]+\b|\b(?=[a-f]*\d)[0-9a-f]{12,64}\b|\d+", re.ASCII
)


class Statistics:
    """Counts of the entries that were added."""

    def __init__(self) -> None:
        self.count = 0
        self._seconds: Counter[tuple[int, str]] = Counter()
        self._levels: Counter[str] = Counter()
        self._logs: Counter[str] = Counter()
        self._templates: Counter[tuple[str, str]] = Counter()
        self._first, self._last = inf, -inf

    def add(self, log: str, entries: Iterable[LogEntry]) -> None:
        """Count the entries of a log."""
        for entry in entries:
            level = entry.level or "none"
            self.count += 1
            self._logs[log] += 1
            self._levels[level] += 1
            key = (floor(entry.time), level)
            if len(self._seconds) < MAX_TIMES or key in self._seconds:
                self._seconds[key] += 1
            self._first, self._last = min(self._first, entry.time), max(self._last, entry.time)
            template = (template_of(entry), level)
            if len(self._templates) < MAX_TEMPLATES or template in self._templates:
                self._templates[template] += 1

    def result(self, since: float, until: float) -> dict[str, Any]:
        """Return the counts as JSON values. Buckets span the requested time range, or all entries if unlimited."""
        begin = since if since > -inf else self._first
        end = until if until < inf else self._last
        result: dict[str, Any] = {"entries": self.count, "levels": dict(self._levels), "logs": dict(self._logs)}
        if self.count:
            width = next((width for width in WIDTHS if (end - begin) / width <= BUCKETS), WIDTHS[-1])
            buckets: dict[int, Counter[str]] = {}
            for (second, level), count in self._seconds.items():
                buckets.setdefault(second // width * width, Counter())[level] += count
            result |= {"first": iso(self._first), "last": iso(self._last), "seconds_per_bucket": width}
            result["buckets"] = [{"start": iso(start), **buckets[start]} for start in sorted(buckets)]
        top = self._templates.most_common(TOP)
        result["messages"] = [{"count": count, "level": level, "message": text} for (text, level), count in top]
        return result


def template_of(entry: LogEntry) -> str:
    """Return a message with ``*`` in place of numbers and identifiers."""
    line = entry.lines[0]
    message = entry.fields().get("message") if entry.format is not None and entry.format.name != "access" else None
    text = message.partition("\n")[0] if isinstance(message, str) else line
    return VARIABLE.sub("*", shown(text.strip()[:LENGTH]))
