"""One file of a log: its entries, the newest first, found by binary search, or unpacked from its start."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from datetime import tzinfo
from math import inf
from typing import IO, Any, NamedTuple, TypeAlias

from carrel.sources.content.text import UTF8, recognise
from carrel.sources.folder.position import Parts
from carrel.sources.folder.tree import Tree, TreeEntry
from carrel.sources.logs.budget import ReadBudget
from carrel.sources.logs.compression import damages, opened
from carrel.sources.logs.entries import MAX_LINE, LogEntry, Redact, group
from carrel.sources.logs.formats import Format, detect
from carrel.sources.logs.rotation import rotated
from carrel.sources.logs.times import TimestampParser

__all__ = ["NEAR", "PROBE", "NotText", "ReadAt", "ReadOptions", "entries_of", "extents", "next_data", "seek"]

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
        self._examine(self._sample(size), truncated=size > SAMPLE)
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
        file = TimedFile(size, self.read_at, time_of, lambda offset: next_data(descriptor, offset))
        return seek(file, instant, budget)

    def _blocks(self, begin: int, end: int) -> Iterator[list[str]]:
        """Yield the lines of a range, a block at a time, the last block first."""
        budget = self._reading.budget
        tail = b""  # the end of a line that begins in the block before
        truncated = 0  # bytes left out of it
        while begin < end and not budget.is_over():
            start = max(end - BLOCK, begin)
            data = self.read_at(start, end - start)
            end = start
            first, feed, remaining = (data + tail).partition(b"\n")
            if start > begin and not feed:  # an endless line: its beginning is kept
                tail, truncated = first[: MAX_LINE * 4], truncated + max(len(first) - MAX_LINE * 4, 0)
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
                self._examine(data[:SAMPLE], truncated=len(data) > SAMPLE)
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

    def _examine(self, sample: bytes, *, truncated: bool) -> None:
        """Detect the encoding and the format by a sample.

        Raises:
            NotText: it is binary, or in UTF-16.
        """
        sample = sample.replace(b"\0", b"") if sample.count(0) != len(sample) // 2 else sample
        encoding = recognise(sample, truncated=truncated)
        if encoding is None and truncated and sample:
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
        """Return the lines of a text; long ones are truncated before decoding; zero bytes around them are dropped."""
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


PROBE = 16_384  # bytes read to find a time
NEAR = 65_536  # bytes: a range that is read rather than divided
MAX_EXTENTS = 1000  # parts between holes

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Reads up to so many bytes (the second argument) from an offset (the first)."""

TimeOf: TypeAlias = Callable[[bytes], float | None]
"""Returns the time of the entry that a line begins; None if it has none."""

Skip: TypeAlias = Callable[[int], int]
"""Returns the offset of the next data at or after an offset, skipping a hole."""


class TimedFile(NamedTuple):
    """File of lines with times, in which ``seek`` looks for a time."""

    size: int
    read_at: ReadAt
    time_of: TimeOf
    skip: Skip


def seek(file: TimedFile, instant: float, budget: ReadBudget) -> int:
    """Return the offset of the first entry at or after ``instant``, or the size if no entry is that late.

    Reads about twenty blocks of a file of any size. Times have to rise, but for a margin that the caller subtracts.
    Blocks without a time (a long traceback, a hole of zero bytes that copytruncate leaves) are passed over.
    """
    low, high, found_at = 0, file.size, file.size
    while high - low > NEAR and not budget.is_over():
        middle = (low + high) // 2
        found = first_timed(file, middle, high)
        if found is None:
            high = middle
        elif found[1] >= instant:
            high, found_at = middle, found[0]
        else:
            low = found[0]
    found = first_timed(file, low, high, least=instant, whole=True)
    return found_at if found is None else found[0]


def first_timed(
    file: TimedFile, begin: int, end: int, *, least: float = -inf, whole: bool = False
) -> tuple[int, float] | None:
    """Return the offset and time of the first line with a time of at least ``least`` that begins in a range.

    The line at ``begin`` counts if it is ``whole``. Lines that begin with zero bytes, after a hole, count as well.
    """
    offset, remaining = begin, b""  # the rest is a line that has not ended yet
    while offset - len(remaining) < end:
        block = file.read_at(offset, PROBE)
        if block and block.count(0) == len(block):
            offset = max(file.skip(offset), offset + len(block))
            remaining, whole = b"", True
            continue
        start = offset - len(remaining)
        lines = (remaining + block).split(b"\n")
        offset += len(block)
        remaining = lines.pop() if block else b""
        for line in lines:
            if start >= end:
                return None
            if (whole or line.startswith(b"\0")) and (time := file.time_of(line)) is not None and time >= least:
                return start, time
            start += len(line) + 1
            whole = True
        if not block:
            return None
        if len(remaining) >= PROBE:  # an endless line: only its end is of interest
            remaining, whole = b"", False
    return None


def next_data(descriptor: int, offset: int) -> int:
    """Return the offset of the next data at or after an offset, or the offset itself if this is not supported."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except AttributeError:
        return offset
    except OSError:  # ENXIO: there is a hole up to the end
        return os.fstat(descriptor).st_size


def extents(descriptor: int, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of a range of a file that are not holes. If there are very many, the last parts are joined."""
    found: list[tuple[int, int]] = []
    if not hasattr(os, "SEEK_HOLE"):
        return [(begin, end)] if begin < end else []
    while begin < end and len(found) < MAX_EXTENTS:
        start = next_data(descriptor, begin)
        if start >= end:
            break
        try:
            stop = min(os.lseek(descriptor, start, os.SEEK_HOLE), end)
        except OSError:  # it has shrunk
            break
        found.append((start, stop))
        begin = stop
    else:
        if begin < end:
            found.append((begin, end))
    return found
