"""Formats of log lines: whether a line begins an entry, its time and level, and its fields.

A line that does not begin an entry, such as a line of a traceback, belongs to the previous entry. Every pattern is
anchored at the start of the line and has no nested repetition, so that the time is linear in the length of a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from carrel.sources.logs.levels import find_level, level_of
from carrel.sources.logs.times import TimestampParser

__all__ = ["FORMATS", "Format", "Head", "detect", "joins_next"]

MAX_HEAD = 16_384  # characters of a line that are looked at by patterns
ENOUGH = 0.15  # share of lines that must begin an entry for a format to be chosen
SAMPLE = 400  # lines

ISO = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d)(?![\w:]))?"


class Head(NamedTuple):
    """Time (seconds since 1970) and level of an entry, None where the line has none."""

    time: float | None
    level: str | None


class Format(Protocol):
    """Format of lines."""

    name: str

    def head(self, line: str, timestamps: TimestampParser) -> Head | None:
        """Return the time and level of the entry that a line begins; None if it begins none."""

    def fields(self, line: str) -> Mapping[str, Any]:
        """Return the fields of the entry that a line begins, as text or as JSON values."""


class LineFormat:
    """Format given by a regular expression with groups ``time``, ``level``, ``message`` and others.

    ``timestamp`` is the format of the time; ``level`` finds the level where the group does not name it.
    """

    def __init__(
        self, name: str, pattern: str, timestamp: str | None, level: Callable[[re.Match[str]], str | None] | None = None
    ) -> None:
        self.name = name
        self._pattern = re.compile(pattern, re.ASCII)
        self._timestamp = timestamp
        self._level = level or (lambda found: level_of(found["level"]))

    def head(self, line: str, timestamps: TimestampParser) -> Head | None:
        found = self._pattern.match(line, 0, MAX_HEAD)
        if found is None:
            return None
        if self._timestamp is None:
            return Head(None, self._level(found))
        time = timestamps.read(found["time"], self._timestamp)
        return None if time is None else Head(time, self._level(found))

    def fields(self, line: str) -> Mapping[str, Any]:
        found = self._pattern.match(line, 0, MAX_HEAD)
        if found is None:
            return {}
        fields = {name: value for name, value in found.groupdict().items() if value is not None}
        if "message" in fields:
            fields["message"] = line[found.start("message") :]
        return fields


TIMES = ("time", "timestamp", "ts", "@timestamp", "t", "datetime", "date", "asctime", "eventTime", "time_iso8601")
LEVELS = ("level", "severity", "lvl", "levelname", "log.level", "loglevel", "log_level", "PRIORITY", "severityText")
MESSAGES = ("message", "msg", "event", "log", "MESSAGE", "body")


class JsonFormat:
    """JSON lines, with the names of fields that common loggers use."""

    name = "json"

    def head(self, line: str, timestamps: TimestampParser) -> Head | None:
        if not line.startswith("{"):
            return None
        fields = self.fields(line)
        time = next((time for name in TIMES if (time := timestamps.value(fields.get(name))) is not None), None)
        level = next((level for name in LEVELS if (level := level_of(fields.get(name))) is not None), None)
        if level is None and isinstance(message := fields.get("log"), str):  # of a container
            level = find_level(message)
        return Head(time, level)

    def fields(self, line: str) -> Mapping[str, Any]:
        try:
            found = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return {}
        if not isinstance(found, dict):
            return {}
        message = next((found[name] for name in MESSAGES if name in found), None)
        return found if message is None else {**found, "message": message}


class LogfmtFormat:
    """``key=value`` pairs: ``time=… level=info msg="text"``."""

    name = "logfmt"
    _pair = re.compile(r'([A-Za-z_@][\w.@/-]{0,99})=(?:"((?:[^"\\]|\\.){0,4096})"|([^\s"]*))(?: +|$)', re.ASCII)

    def head(self, line: str, timestamps: TimestampParser) -> Head | None:
        if self._pair.match(line) is None:
            return None
        fields = self.fields(line[:MAX_HEAD])
        time = next((time for name in TIMES if (time := timestamps.value(fields.get(name))) is not None), None)
        level = next((level for name in LEVELS if (level := level_of(fields.get(name))) is not None), None)
        return None if time is None and level is None else Head(time, level)

    def fields(self, line: str) -> Mapping[str, Any]:
        fields: dict[str, Any] = {}
        position = 0
        while (pair := self._pair.match(line, position)) is not None:
            name, quoted, plain = pair.groups()
            fields[name] = plain if quoted is None else quoted.replace('\\"', '"')
            position = pair.end()
        message = next((fields[name] for name in MESSAGES if name in fields), None)
        return fields if message is None else {**fields, "message": message}


class CriFormat:
    """Log files of containers in Kubernetes: ``TIME stdout F message``; P instead of F marks a partial line."""

    name = "cri"
    _pattern = re.compile(rf"(?P<time>{ISO}) (?P<stream>stdout|stderr) (?P<tag>[FP])(?: (?P<message>.*))?", re.ASCII)

    def head(self, line: str, timestamps: TimestampParser) -> Head | None:
        found = self._pattern.match(line, 0, MAX_HEAD)
        if found is None:
            return None
        message = found["message"] or ""
        # Each line of a traceback has a time: an indented line continues the previous entry.
        if message[:1] in (" ", "\t") or message.startswith(("Caused by:", "Traceback (most")):
            return None
        time = timestamps.read(found["time"], "iso")
        if time is None:
            return None
        level = find_level(message)
        if level is None:
            for inner in (FORMATS["json"], FORMATS["logfmt"], FORMATS["klog"]):
                head = inner.head(message, timestamps)
                if head is not None and head.level is not None:
                    level = head.level
                    break
        return Head(time, level)

    def fields(self, line: str) -> Mapping[str, Any]:
        found = self._pattern.match(line, 0, MAX_HEAD)
        if found is None:
            return {}
        message = line[found.start("message") :] if found["message"] is not None else ""
        own = {"time": found["time"], "stream": found["stream"], "message": message}
        return {**own, **FORMATS["json"].fields(message)} if message.startswith("{") else own


class PlainFormat:
    """Any text: each line is an entry, unless it is indented or empty."""

    name = "plain"

    def head(self, line: str, timestamps: TimestampParser) -> Head | None:
        return None if not line or line[0] in " \t" else Head(None, find_level(line))

    def fields(self, line: str) -> Mapping[str, Any]:
        return {"message": line}


def from_priority(found: re.Match[str]) -> str | None:
    """Return the level in the priority of a syslog message, or the level in its text."""
    priority = found["priority"]
    return find_level(found["message"]) if priority is None else level_of(int(priority) % 8)


def from_status(found: re.Match[str]) -> str | None:
    """Return the level of a response: 5xx are errors, 4xx warnings."""
    return {"5": "error", "4": "warning"}.get(found["status"][0], "info")


FORMATS: dict[str, Format] = {
    made.name: made
    for made in (
        JsonFormat(),
        CriFormat(),
        LineFormat(
            "syslog5424",
            rf"<(?P<priority>\d{{1,3}})>1 (?P<time>{ISO}) (?P<host>\S{{1,255}}) (?P<app>\S{{1,48}}) "
            r"(?P<process>\S{1,128}) (?P<id>\S{1,32}) (?P<message>.*)",
            "iso",
            from_priority,
        ),
        LineFormat(
            "syslog",
            r"(?:<(?P<priority>\d{1,3})>)?(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?) "
            r"(?P<host>\S{1,255}) (?P<app>[^\s:\[]{1,128})(?:\[(?P<process>[^\]\s]{1,64})\])?: (?P<message>.*)",
            "syslog",
            from_priority,
        ),
        LineFormat(
            "syslog-iso",
            rf"(?:<(?P<priority>\d{{1,3}})>)?(?P<time>{ISO}) (?P<host>[A-Za-z][\w.-]{{0,254}}) "
            r"(?P<app>[^\s:\[]{1,128})(?:\[(?P<process>[^\]\s]{1,64})\]): (?P<message>.*)",
            "iso",
            from_priority,
        ),
        LineFormat(
            "access",
            r"(?P<host>\S{1,255}) (?P<ident>\S{1,255}) (?P<user>[^\[]{1,255}?) \[(?P<time>[^\]]{20,40})\] "
            r'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?P<bytes>\d+|-)'
            r'(?: "(?P<referrer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)")?',
            "access",
            from_status,
        ),
        LineFormat(
            "nginx-error",
            r"(?P<time>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d) \[(?P<level>\w{1,10})\] "
            r"(?P<process>\d+)#(?P<thread>\d+): (?P<message>.*)",
            "iso",
        ),
        LineFormat(
            "apache-error",
            r"\[(?P<time>\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,6})? \d{4})\] "
            r"\[(?:(?P<module>\w{0,40}):)?(?P<level>\w{1,10})\] (?P<message>.*)",
            "apache",
        ),
        LineFormat(
            "klog",
            r"(?P<level>[IWEFD])(?P<time>\d{4} \d\d:\d\d:\d\d\.\d{6}) +"
            r"(?P<process>\d+) (?P<caller>[^\s\]]{1,200})\] (?P<message>.*)",
            "klog",
        ),
        LogfmtFormat(),
        LineFormat(
            "timestamped",
            rf"\[?(?P<time>{ISO})\]?(?P<message>.*)",
            "iso",
            lambda found: find_level(found["message"]),
        ),
        LineFormat(
            "python", r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?P<logger>[^:\s]{1,200}):(?P<message>.*)", None
        ),
        PlainFormat(),
    )
}
"""Formats by name, the more specific first."""

#: Formats for each name in the options.
GROUPS = {"syslog": ("syslog5424", "syslog", "syslog-iso")}


def detect(lines: Iterable[str], timestamps: TimestampParser, wanted: str = "auto") -> Format:
    """Detect the format in which most lines begin an entry, among the formats that the option allows.

    A more specific format takes precedence over a format that recognises a few more lines.
    """
    sample = [line for line in lines if line and line[0] not in " \t"]
    sample = sample[: SAMPLE // 2] + sample[SAMPLE // 2 :][-SAMPLE // 2 :]
    names = list(FORMATS) if wanted == "auto" else list(GROUPS.get(wanted, (wanted,)))
    best, most = FORMATS[names[0] if wanted != "auto" else "plain"], ENOUGH * len(sample)
    for name in names:
        if name == "plain" and wanted == "auto":
            continue
        count = sum(recognises(FORMATS[name], line, timestamps) for line in sample)
        if count > most * 1.1 or (count and count >= most and best.name == "plain"):
            best, most = FORMATS[name], count
    return best


def recognises(format: Format, line: str, timestamps: TimestampParser) -> bool:
    """Return whether a line has a format. For JSON, the line must be a complete object."""
    return bool(format.fields(line)) if format.name == "json" else format.head(line, timestamps) is not None


def joins_next(format: Format, line: str) -> bool:
    """Return whether the next line continues this line, because the container runtime split a long line."""
    return format.name == "cri" and PARTIAL.match(line, 0, 80) is not None


PARTIAL = re.compile(r"\S{1,40} std(?:out|err) P ", re.ASCII)
