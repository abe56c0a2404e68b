"""The newest entries of several logs, as text or as lines of JSON, with notes about omitted entries and the URI to
continue with.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import msgspec

from carrel.sources.logs.budget import ReadBudget
from carrel.sources.logs.entries import LogEntry, shown
from carrel.sources.logs.query import LogQuery
from carrel.sources.logs.times import iso
from carrel.uri.parse import UriError, percent_decode, percent_encode
from carrel.wire.resources import TextResourceContents

__all__ = ["LocatedEntry", "LogPage", "Newest"]

TEXT = "text/plain"
JSON_LINES = "application/x-ndjson"
MAX_NOTES = 20
SLACK = 1e-6  # seconds: a page that ends where it began leads nowhere


class LogPage:
    """Entries to be shown, the oldest first, after notes; ``several``: each with the name of its log."""

    def __init__(
        self,
        uri: str,
        entries: Sequence[LocatedEntry],
        asked: LogQuery,
        given: Mapping[str, str],
        notes: Sequence[str],
        *,
        several: bool,
    ) -> None:
        self._uri = uri
        self._base = uri.partition("?")[0]
        self._asked = asked
        self._given = given
        self._entries = entries[: -asked.skip] if asked.skip else entries
        self._notes = [shown(note) for note in notes[:MAX_NOTES]]
        self._several = several
        self._earlier: str | None = None

    def go_on(self) -> None:
        """Add the URI of the previous entries. Entries with the same time that were already shown are skipped."""
        if not self._entries:
            return
        until = iso(self._entries[0].entry.time)
        skip = sum(iso(found.entry.time) == until for found in self._entries)
        if self._given.get("until") == until:
            skip += self._asked.skip
        self._go_on(self._base, until, skip)

    def stopped_at(self, log: str, left: Sequence[str], budget: ReadBudget) -> None:
        """Add a note that the budget was exhausted in a log, and the logs that were not searched."""
        self._notes.append(f"not all was looked through: {budget.reason}")
        if left:
            names = ", ".join(map(name_of, left[:MAX_NOTES]))
            self._notes.append(
                f"not looked through at all: {shown(names)}{' and more' if len(left) > MAX_NOTES else ''}"
            )
        if budget.reached is not None and budget.reached < self._asked.until - SLACK:
            self._go_on(log, iso(budget.reached), 0)

    def _go_on(self, base: str, until: str, skip: int) -> None:
        query = {"since": iso(self._asked.since)} if self._asked.since > -inf else {}
        query |= {"until": until} | ({"skip": str(skip)} if skip else {})
        query |= {name: self._given[name] for name in ("level", "match", "fields", "log") if name in self._given}
        self._earlier = f"{base}?" + "&".join(f"{name}={percent_encode(value)}" for name, value in query.items())
        self._notes.append(f"earlier entries: {self._earlier}")

    def render(self) -> TextResourceContents:
        """Return the contents."""
        fields, several = self._asked.fields, self._several
        meta: dict[str, Any] = {"carrel/entries": len(self._entries)}
        if self._earlier is not None:
            meta["carrel/earlier"] = self._earlier
        if self._notes:
            meta["carrel/notes"] = self._notes
        if fields:
            lines = [as_json(found, fields, several=several) for found in self._entries]
        else:
            lines = [f"# {note}" for note in self._notes]
            lines += [as_text(found, several=several) for found in self._entries]
        text = "".join(f"{line}\n" for line in lines)
        return TextResourceContents(self._uri, text, mime_type=JSON_LINES if fields else TEXT, meta=meta)


def as_text(found: LocatedEntry, *, several: bool) -> str:
    """Return an entry as it was written, control characters as escapes."""
    mark = f"[{shown(name_of(found.log))}] " if several else ""
    return mark + "\n".join(map(shown, found.entry.lines)).rstrip("\n")


def as_json(found: LocatedEntry, fields: Sequence[str], *, several: bool) -> str:
    """Return fields of an entry as a JSON object on one line; time and level are the parsed values."""
    entry: LogEntry = found.entry
    known: dict[str, Any] = {**entry.fields(), "time": iso(entry.time), "level": entry.level}
    if several:
        known["log"] = name_of(found.log)
    wanted = known if "*" in fields else {name: known.get(name) for name in fields}
    try:
        return msgspec.json.encode(wanted).decode()
    except (UnicodeEncodeError, RecursionError, OverflowError):
        return msgspec.json.encode({"time": iso(entry.time), "message": shown(entry.lines[0])}).decode()


def name_of(log: str) -> str:
    """Return the location and the path of a log, for people."""
    try:
        return percent_decode(log.removeprefix("logs://"))
    except UriError:  # a name that is not UTF-8
        return log.removeprefix("logs://")


class LocatedEntry(NamedTuple):
    """An entry, and the log that it is in."""

    log: str
    entry: LogEntry


class Newest:
    """Collection of entries that keeps the newest: ``most`` before ``skip`` others, of up to ``size`` characters.

    Entries are added the newest first, but may be out of order by ``margin`` seconds.
    """

    def __init__(self, most: int, size: int, margin: float, skip: int = 0) -> None:
        self._most = most + skip
        self._least = skip + 1
        self._size = size
        self._margin = margin
        self._kept: list[tuple[float, int, LocatedEntry, int]] = []  # heap, the oldest first
        self._held = 0  # characters
        self._added = 0
        self.dropped = False
        """Whether entries were dropped."""

    def take(self, log: str, entries: Iterable[LogEntry]) -> bool:
        """Add entries of a log until they are too old; return whether all were added."""
        for entry in entries:
            if self.dropped and entry.time < self._kept[0][0] - self._margin:
                return False
            self.add(log, entry)
        return True

    def add(self, log: str, entry: LogEntry) -> None:
        """Add an entry, and drop the oldest if there are too many."""
        size = sum(map(len, entry.lines)) + 1
        self._added += 1
        heapq.heappush(self._kept, (entry.time, -self._added, LocatedEntry(log, entry), size))
        self._held += size
        while len(self._kept) > self._most or (self._held > self._size and len(self._kept) > self._least):
            self._held -= heapq.heappop(self._kept)[3]
            self.dropped = True

    def sorted(self) -> list[LocatedEntry]:
        """Return the entries, the oldest first."""
        return [found for _, _, found, _ in sorted(self._kept, key=lambda kept: kept[:2])]
