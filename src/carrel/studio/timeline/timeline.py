"""Timeline: windows of the recorded messages, filtered, and single messages with the ones that belong to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice
from time import perf_counter
from typing import Any

import msgspec

from carrel.printable import printable_json
from carrel.studio.api import Hunk
from carrel.studio.differences import hunks_between, pretty
from carrel.studio.problems import NotFound
from carrel.studio.timeline.api import HTTPView, WireDetail, WireRow, WireWindow
from carrel.studio.timeline.facts import Facts
from carrel.studio.timeline.log import Entry, WireLog
from carrel.studio.timeline.reader import TimelineReader

__all__ = ["Timeline", "WireFilter", "answer_in", "difference", "message_difference", "row_of", "text_of"]

#: Seconds that reading messages may block the event loop.
SLICE = 0.003
#: Characters of a message that are shown.
MAX_TEXT = 2_000_000


class WireFilter(msgspec.Struct, frozen=True):
    """Filter of the timeline. ``only`` is "invalid" or "errors"; ``text`` is searched for in the whole message."""

    server: str = ""
    method: str = ""
    target: str = ""
    only: str = ""
    text: str = ""

    def accepts(self, entry: Entry, facts: Facts) -> bool:
        """Return whether the filter selects a message."""
        return (
            (not self.server or entry.connection.server == self.server)
            and (not self.method or facts.method == self.method)
            and (not self.target or facts.target == self.target)
            and (self.only != "invalid" or bool(facts.invalid))
            and (self.only != "errors" or is_error(entry, facts))
            and (not self.text or self.text.encode() in entry.data.lower())
        )


class Timeline:
    """View of a log. Messages are read when they are shown, so that recording costs little.

    Args:
        log: the messages.
        recording: name of the session file that the messages come from. Its times are seconds since its start.
    """

    def __init__(self, log: WireLog, recording: str | None = None) -> None:
        self.log = log
        self.recording = recording
        self._reader = TimelineReader()
        self._read = 0
        self._reading = asyncio.Lock()
        self._methods = Counter[str]()
        self._filter = WireFilter()
        self._found: list[Entry] = []
        self._searched = 0

    async def read(self) -> None:
        """Read the messages that have come since the last time."""
        async with self._reading:
            began = perf_counter()
            for entry in self.log.after(self._read):
                self._reader.read(entry)
                self._read = entry.number
                method = None if entry.facts is None else entry.facts.method
                if method is not None and (method in self._methods or len(self._methods) < 200):
                    self._methods[method] += 1
                if perf_counter() - began > SLICE:
                    await asyncio.sleep(0)
                    began = perf_counter()

    async def window(self, filter: WireFilter, offset: int | None, limit: int, around: int | None) -> WireWindow:
        """Return a window of the filtered messages: from ``offset``, around a message, or the newest ones."""
        self.log.arm()
        await self.read()
        found = self._select(filter)
        if around is not None:
            place = next((at for at, entry in enumerate(found) if entry.number >= around), len(found))
            offset = place - limit // 2
        elif offset is None:
            offset = len(found) - limit
        offset = max(0, min(offset, len(found) - 1 if found else 0))
        return WireWindow(
            total=len(found),
            offset=offset,
            rows=tuple(row_of(entry) for entry in found[offset : offset + limit]),
            last=self.log.last,
            all=len(self.log.entries),
            dropped=self.log.dropped,
            servers=tuple(sorted({entry.connection.server for entry in self.log.entries})),
            methods=tuple(sorted(self._methods)),
            recording=self.recording,
        )

    def _select(self, filter: WireFilter) -> list[Entry]:
        """Return the read messages that a filter selects. The result for the last filter is kept, and continued."""
        first = self.log.entries[0].number if self.log.entries else self.log.last + 1
        if filter != self._filter:
            self._filter, self._found, self._searched = filter, [], 0
        if self._found and self._found[0].number < first:
            self._found = [entry for entry in self._found if entry.number >= first]
        for entry in self.log.after(self._searched):
            if entry.facts is None:
                break
            self._searched = entry.number
            if filter.accepts(entry, entry.facts):
                self._found.append(entry)
        return self._found

    async def find(self, number: int) -> Entry:
        """Return a message that has been read.

        Raises:
            NotFound: there is no such message, or it was dropped.
        """
        await self.read()
        entry = self.log.find(number)
        if entry is None or entry.facts is None:
            raise NotFound("There is no such message any more")
        return entry

    def counterpart(self, entry: Entry | None) -> Entry | None:
        """Return the request or the response that belongs to a message, or None."""
        if entry is None or entry.facts is None or entry.facts.counterpart is None:
            return None
        return self.log.find(entry.facts.counterpart)

    def before(self, entry: Entry) -> Entry | None:
        """Return the response to the last request before with the same method and target, or None."""
        facts = entry.facts
        if facts is None or facts.kind != "response" or facts.counterpart is None or len(entry.data) > MAX_TEXT:
            return None
        for other in islice(reversed(self.log.entries), self.log.last - entry.number + 1, None):
            if (
                other.facts is not None
                and (other.facts.kind, other.facts.method, other.facts.target)
                == ("response", facts.method, facts.target)
                and (other.connection.server, other.sent) == (entry.connection.server, entry.sent)
                and len(other.data) <= MAX_TEXT
            ):
                return other
        return None

    async def detail(self, number: int) -> WireDetail:
        """Return a message with its text, its counterpart, and the difference to the response before.

        Raises:
            NotFound: there is no such message, or it was dropped.
        """
        entry = await self.find(number)
        assert entry.facts is not None
        other, before = self.counterpart(entry), self.before(entry)
        http = entry.exchange
        repeatable = self.recording is None and entry.sent and entry.facts.kind == "request"
        return WireDetail(
            row=row_of(entry),
            text=text_of(entry),
            http=None
            if http is None
            else HTTPView(method=http.method, status=http.status, sent=dict(http.sent), received=dict(http.received)),
            counterpart=None if other is None else row_of(other),
            counterpart_text=None if other is None else text_of(other),
            draft=draft_of(entry, self.log.last + 1) if repeatable else None,
            before=None if before is None else before.number,
            changes=None if before is None else difference(answer_in(before), answer_in(entry)),
        )


def is_error(entry: Entry, facts: Facts) -> bool:
    """Return whether a message is an error, is invalid, or was refused by its HTTP status."""
    return (
        facts.error is not None or bool(facts.invalid) or (entry.exchange is not None and entry.exchange.status >= 400)
    )


def row_of(entry: Entry) -> WireRow:
    """Return the row of a message that has been read."""
    facts = entry.facts or Facts("other")
    return WireRow(
        number=entry.number,
        time=entry.time,
        server=entry.connection.server,
        connection=entry.connection.number,
        direction="sent" if entry.sent else "received",
        kind=facts.kind,
        method=facts.method,
        id=facts.id,
        target=facts.target,
        revision=facts.revision,
        counterpart=facts.counterpart,
        duration=facts.duration,
        bytes=len(entry.data),
        error=facts.error,
        invalid=facts.invalid,
        status=None if entry.exchange is None else entry.exchange.status,
    )


def text_of(entry: Entry) -> str:
    """Return the text of a message. Control characters and bidirectional characters are escapes of JSON."""
    text = entry.data.decode("utf-8", "backslashreplace")
    return printable_json(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …")


def draft_of(entry: Entry, number: int) -> str:
    """Return the text of a request with a new id, to be changed and sent."""
    message = msgspec.json.decode(entry.data)
    message["id"] = f"studio-{number}"
    return pretty(message)


def answer_in(entry: Entry) -> Any:
    """Return the result or the error in a response."""
    message = msgspec.json.decode(entry.data)
    return message.get("result", message.get("error"))


def message_difference(old: Entry, new: Entry) -> tuple[Hunk, ...] | None:
    """Return the difference between two messages, or None if one of them is long or is not JSON."""
    if any(len(each.data) > MAX_TEXT or each.facts is None or each.facts.kind == "other" for each in (old, new)):
        return None
    return difference(msgspec.json.decode(old.data), msgspec.json.decode(new.data))


def difference(old: object, new: object) -> tuple[Hunk, ...]:
    """Return the difference between two values as JSON."""
    return hunks_between(pretty(old).split("\n"), pretty(new).split("\n"))[0]
