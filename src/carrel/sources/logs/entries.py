"""Entries of a log: lines that belong together, with a time and a level, shown without control characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from carrel.sources.logs.formats import CriFormat, Format, Head, joins_next
from carrel.sources.logs.times import TimestampParser

__all__ = ["MAX_LINE", "Group", "LogEntry", "Redact", "group", "shown"]

MAX_LINE = 16_384  # characters of a line that are kept
MAX_LINES = 500  # lines of an entry that are kept
MAX_ENTRY = 65_536  # characters of an entry after which no more lines are
MORE = "… (more lines)"

Redact = Callable[[str], str]
"""Replaces secrets in a text."""

# Control characters, and the invisible ones that turn text around or hide it. TAB is harmless.
HARMFUL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f"
    "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


class LogEntry(NamedTuple):
    """Entry of a log: its time in seconds since 1970, its level, and its lines, without their ends."""

    time: float
    level: str | None
    lines: Sequence[str]
    format: Format | None

    @property
    def text(self) -> str:
        """The lines, as they are searched."""
        return "\n".join(self.lines) if len(self.lines) > 1 else self.lines[0]

    def fields(self) -> Mapping[str, Any]:
        """Return the fields of the first line; the message has the other lines too."""
        fields = dict(self.format.fields(self.lines[0])) if self.format is not None else {}
        message = fields.get("message")
        if len(self.lines) > 1 and (message is None or isinstance(message, str)):
            fields["message"] = "\n".join((message if message is not None else self.lines[0], *self.lines[1:]))
        return fields


class Group(NamedTuple):
    """Lines of one block as entries. ``before`` are the lines of an entry that begins earlier."""

    before: list[str]
    entries: list[LogEntry]


def group(
    lines: Iterable[str], format: Format, timestamps: TimestampParser, otherwise: float, redact: Redact | None = None
) -> Group:
    """Group consecutive lines into entries. An entry without a time has the previous entry's time or ``otherwise``."""
    before: list[str] = []
    entries: list[LogEntry] = []
    current: list[str] = before
    time, joins = otherwise, False
    for line in lines:
        if len(line) > MAX_LINE:
            line = f"{line[:MAX_LINE]} … ({len(line) - MAX_LINE:,} more characters)"
        if redact is not None:
            line = redact(line)
        head: Head | None = None if joins else format.head(line, timestamps)
        if head is None:
            add(current, line, format, joins)
        else:
            time = time if head.time is None else head.time
            current = [line]
            entries.append(LogEntry(time, head.level, current, format))
        joins = joins_next(format, line)
    return Group(before, entries)


def add(lines: list[str], line: str, format: Format, joins: bool) -> None:
    """Append a line to the lines of an entry."""
    if isinstance(format, CriFormat):  # keep the time and the stream of the first line
        message = format.fields(line).get("message")
        text = line if message is None else str(message)
        if joins and lines:
            lines[-1] = (lines[-1] + text)[: MAX_LINE * 4]
            return
        line = text
    if lines and lines[-1] == MORE:
        return
    full = len(lines) >= MAX_LINES or (len(lines) % 16 == 15 and sum(map(len, lines)) > MAX_ENTRY)
    lines.append(MORE if full else line)


def shown(line: str) -> str:
    r"""Return a line with control characters and invisible ones as escapes such as ``\x1b`` and ``\u202e``."""
    return HARMFUL.sub(escape, line) if not line.isprintable() else line


def escape(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
