"""One file of a log: its entries, the newest first, found by binary search, or unpacked from its start."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from datetime import tzinfo
from math import inf
from typing import IO, Any, NamedTuple

from carrel.sources.content.text import UTF8, recognise
from carrel.sources.folder.position import Parts
from carrel.sources.folder.tree import Tree, TreeEntry
from carrel.sources.logs.budget import ReadBudget
from carrel.sources.logs.compression import damages, opened
from carrel.sources.logs.entries import MAX_LINE, LogEntry, Redact, group
from carrel.sources.logs.formats import Format, detect
from carrel.sources.logs.rotation import rotated
from carrel.sources.logs.seek import extents, next_data, seek
from carrel.sources.logs.times import TimestampParser

__all__ = ["NotText", "ReadOptions", "entries_of"]

BLOCK = 131_072  # bytes read at a time
SAMPLE = 32_768  # bytes by which the format is detected
HEAD = 8192  # bytes of the beginning for the same
MAX_HELD = 1_048_576  # characters of lines that wait for the start of their entry


class NotText(ValueError):
    """The file is not a log. The message gives the reason."""


class ReadOptions(NamedTuple):
    """Parameters for reading logs: options, the time range, and the filter for entries.

    ``limit`` is the number of wanted entries. ``shows`` returns whether the caller may see the file at a path.
    """

    since: float
    until: float
    accept: Callable[[LogEntry], bool]
    limit: int
    margin: float
    format: str
    zone: tzinfo | None
    redact: Redact | None
    shows: Callable[[Parts], bool]
    budget: ReadBudget


def entries_of(tree: Tree, file: TreeEntry, reading: ReadOptions, note: Callable[[str], None]) -> Iterator[LogEntry]:
    """Yield the accepted entries of a file, the newest first, as they are in the file.

    Raises:
        NotText: it is binary, or in UTF-16.
        OSError: the file was removed, or may not be read.
        ConfigError: the package that unpacks it is missing.
    """
    with tree.open(file.parts) as node:
        if node.handle is not None:
            raise NotText("it is a folder")
        if not reading.shows(node.parts):  # a link leads to a log that is hidden from the caller
            raise NotText("it is not shared")
        compression = rotated(file.parts[-1]).compression
        part = LogFile(node.descriptor, node.info.st_mtime, reading)
        yield from part.unpacked(compression, note) if compression else part.backwards()


class LogFile:
    """An open file of a log."""

    def __init__(self, descriptor: int, modified: float, reading: ReadOptions) -> None:
        self._descriptor = descriptor
        self._modified = modified
        self._reading = reading
        self._timestamps = TimestampParser(reading.zone, modified)
        self._encoding: str | None = UTF8  # None until bytes that are not ASCII are read
        self._format: Format | None = None

    # Plain files

    def backwards(self) -> Iterator[LogEntry]:
        """Yield the entries of a file that is not compressed, the newest first."""
        reading, size = self._reading, os.fstat(self._descriptor).st_size
        self._examine(self._sample(size), cut=size > SAMPLE)
        begin, end = 0, size
        if reading.since > -inf:
            begin = self._seek(size, reading.since - reading.margin)
        if reading.until < inf:
            end = self._seek(size, reading.until + reading.margin)
        held: list[str] = []  # lines of an entry that begins earlier
        for start, stop in reversed(extents(self._descriptor, begin, end)):
            for lines in self._blocks(start, stop):
                before, entries = self._group([*lines, *held])
                held = before if sum(map(len, before)) < MAX_HELD else before[:100]
                yield from filter(self._wanted, reversed(entries))
        if held and (text := [line for line in held if line]):
            yield from filter(self._wanted, [LogEntry(self._modified, None, text, self._format)])

    def _sample(self, size: int) -> bytes:
        """Return the end of the file. For a large file, add its start: the end may be a single traceback."""
        end = self.read_at(max(size - SAMPLE, 0), SAMPLE)
        if size <= SAMPLE:
            return end
        start = min(next_data(self._descriptor, 0), size - SAMPLE)
        head = self.read_at(start, min(HEAD, size - SAMPLE - start))
        return end.partition(b"\n")[2] + b"\n" + head.rpartition(b"\n")[0]

    def _seek(self, size: int, instant: float) -> int:
        known = self._known

        def time_of(line: bytes) -> float | None:
            head = known.head(self._decode(line[: MAX_LINE * 2]).strip("\0\r"), self._timestamps)
            return None if head is None else head.time

        if known.name in ("plain", "python"):
            return size if instant > self._modified else 0
        budget, descriptor = self._reading.budget, self._descriptor
        return seek(self.read_at, size, instant, time_of, lambda offset: next_data(descriptor, offset), budget)

    def _blocks(self, begin: int, end: int) -> Iterator[list[str]]:
        """Yield the lines of a range, a block at a time, the last block first."""
        budget = self._reading.budget
        tail = b""  # the end of a line that begins in the block before
        cut = 0  # bytes left out of it
        while begin < end and not budget.is_over():
            start = max(end - BLOCK, begin)
            data = self.read_at(start, end - start)
            end = start
            first, feed, remaining = (data + tail).partition(b"\n")
            if start > begin and not feed:  # an endless line: its beginning is kept
                tail, cut = first[: MAX_LINE * 4], cut + max(len(first) - MAX_LINE * 4, 0)
                continue
            if start > begin:
                tail, lines = first, remaining
            else:
                tail, lines = b"", data + tail
            if lines:
                yield self._lines(lines)
        if tail and begin >= end:
            yield self._lines(tail)

    def read_at(self, offset: int, count: int) -> bytes:
        """Read from an offset. The bytes count against the budget."""
        os.lseek(self._descriptor, offset, os.SEEK_SET)
        parts: list[bytes] = []
        while count > 0 and (data := os.read(self._descriptor, count)):
            parts.append(data)
            count -= len(data)
            self._reading.budget.spend(len(data))
        return b"".join(parts)

    # Compressed files

    def unpacked(self, compression: str, note: Callable[[str], None]) -> Iterator[LogEntry]:
        """Yield the entries of a compressed file, the newest first. The file is decompressed from the start, and not
        cached.
        """
        kept: deque[LogEntry] = deque(maxlen=self._reading.limit)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self._descriptor), "rb") as raw, opened(raw, compression) as file:
            for lines in self._forwards(file, note):
                kept.extend(filter(self._wanted, lines))
        yield from reversed(kept)

    def _forwards(self, file: IO[bytes], note: Callable[[str], None]) -> Iterator[list[LogEntry]]:
        budget = self._reading.budget
        remaining, held = b"", list[str]()
        while True:
            if budget.is_over():
                note("only its beginning was looked through; raise max_search, or unpack it")
                budget.reached = None  # earlier entries have been examined, later entries have not
                return
            try:
                data = file.read(BLOCK)
            except damages() as error:
                note(f"it is damaged, and read up to there ({type(error).__name__})")
                data = b""
            budget.spend(len(data))
            if self._format is None:
                self._examine(data[:SAMPLE], cut=len(data) > SAMPLE)
            whole, feed, end = (remaining + data).rpartition(b"\n")
            remaining = end[: MAX_LINE * 4]
            lines = [*held, *(self._lines(whole) if feed else ())]
            if not data:
                yield self._entries([*lines, *(self._lines(remaining) if remaining else ())])
                return
            index = self._last_head(lines)
            held = lines[index:]
            yield self._entries(lines[:index])

    def _last_head(self, lines: list[str]) -> int:
        for index in range(len(lines) - 1, max(len(lines) - 5000, 0), -1):
            if self._known.head(lines[index], self._timestamps) is not None:
                return index
        return len(lines) if len(lines) > 5000 else 0

    def _entries(self, lines: list[str]) -> list[LogEntry]:
        before, entries = self._group(lines)
        return [LogEntry(self._modified, None, before, self._format), *entries] if any(before) else entries

    # Both

    def _examine(self, sample: bytes, *, cut: bool) -> None:
        """Detect the encoding and the format by a sample.

        Raises:
            NotText: it is binary, or in UTF-16.
        """
        sample = sample.replace(b"\0", b"") if sample.count(0) != len(sample) // 2 else sample
        encoding = recognise(sample, truncated=cut)
        if encoding is None and cut and sample:
            encoding = recognise(sample.partition(b"\n")[2], truncated=True)  # it began within a character
        if encoding is None:
            raise NotText("it is not text")
        if encoding.startswith(("utf-16", "utf-32")):
            raise NotText(f"it is in {encoding.upper()}, which is not read as a log")
        self._encoding = None if sample.isascii() and encoding == UTF8 else encoding
        lines = self._lines(sample)
        self._format = detect(lines, self._timestamps, self._reading.format)

    @property
    def _known(self) -> Format:
        assert self._format is not None
        return self._format

    def _decode(self, data: bytes) -> str:
        if self._encoding is None and not data.isascii():
            self._encoding = recognise(data, truncated=True) or UTF8
        return data.decode(self._encoding or UTF8, "backslashreplace")

    def _lines(self, data: bytes) -> list[str]:
        """Return the lines of a text; long ones are cut before they are decoded, zero bytes around them dropped."""
        whole = self._decode(data)
        lines = whole.removesuffix("\n").split("\n")
        if "\0" in whole or "\r" in whole:
            lines = [line.strip("\0\r") for line in lines]
        return lines

    def _group(self, lines: list[str]) -> Any:
        return group(lines, self._known, self._timestamps, self._modified, self._reading.redact)

    def _wanted(self, entry: LogEntry) -> bool:
        reading = self._reading
        reading.budget.reached = entry.time
        return reading.since <= entry.time <= reading.until and reading.accept(entry)
