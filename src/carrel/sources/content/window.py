"""Windows of files: ranges of lines or bytes, or the tail, read without the rest.

``?lines=100-200`` counts from 1 and includes both ends, ``?lines=100-`` reads to the end. ``?bytes=0-65535`` counts
from 0 and includes both ends. ``?tail=200`` is the last 200 lines. Bytes of text are cut so that a character belongs to
the window in which it begins: adjacent windows, concatenated, give the whole text. Lines end with LF or CRLF.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

from carrel.errors import InvalidParams, ResourceTooLarge
from carrel.sources.content.text import UTF8, character_start, line_feed
from carrel.wire.resources import ResourceTemplate

__all__ = [
    "EXAMPLES",
    "MAX_SCAN",
    "SUGGESTIONS",
    "TooFar",
    "TooWide",
    "Window",
    "parse_window",
    "slice_bytes",
    "slice_data",
    "slice_lines",
    "slice_tail",
    "slice_window",
    "window_templates",
    "windows_of",
]

MAX_SCAN = 256 * 1024 * 1024  # bytes scanned to find a line
BLOCK = 262_144  # bytes read at a time
STEP = 65_536  # the same, backwards
ATTEMPTS = 4  # to read the end of a file that is truncated meanwhile
WIDE = {line_feed(encoding): encoding for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")}
MAX_DIGITS = 15
NEIGHBOURHOOD = 1024  # bytes around a window, read to find where characters begin

EXAMPLES = {"lines": "lines=100-200", "bytes": "bytes=0-65535", "tail": "tail=200"}

SUGGESTIONS = {
    "lines": ["1-100", "1-1000", "1-"],
    "bytes": ["0-4095", "0-65535", "0-1048575"],
    "tail": ["20", "100", "200", "1000"],
}
"""Values of the variables of templates for windows, for completion."""

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Reads up to so many bytes (the second argument) from an offset (the first); fewer only at the end."""


class Window(NamedTuple):
    """Requested part of a file: from ``first`` to ``last`` (None: to the end), or for a tail the last ``last``."""

    unit: Literal["lines", "bytes", "tail"]
    first: int
    last: int | None


class Excerpt(NamedTuple):
    """The bytes of a window, and their range in lines or in bytes. ``total`` is set if it is known."""

    data: bytes
    first: int | None
    last: int | None
    total: int | None = None

    def describe(self, unit: str) -> dict[str, Any]:
        """Return the window's entry in ``_meta``."""
        numbers = {"first": self.first, "last": self.last, "total": self.total}
        return {"unit": unit} | {name: value for name, value in numbers.items() if value is not None}


class TooWide(Exception):
    """The window is larger than the limit. ``queries`` are smaller windows."""

    def __init__(self, *queries: str) -> None:
        super().__init__(*queries)
        self.queries = queries


class TooFar(Exception):
    """Line ``wanted`` is beyond the scan limit; ``line`` and ``offset`` are where the scan ended.

    They are None if the line number alone exceeds the limit, so that nothing was read.
    """

    def __init__(self, wanted: int, line: int | None = None, offset: int | None = None) -> None:
        super().__init__(wanted, line, offset)
        self.wanted = wanted
        self.line = line
        self.offset = offset


def parse_window(query: str) -> Window | None:
    """Parse the query of a URI into a window. None if the query is empty.

    Raises:
        InvalidParams: the query is not exactly one valid window.
    """
    if not query:
        return None
    unit, _, value = query.partition("=")
    if unit not in EXAMPLES:
        raise invalid_window(unit[:50] or "query", f"there is no window {unit[:50]!r}")
    if "&" in value:
        raise invalid_window(unit, "one window at a time")
    first, dash, last = value.partition("-")
    if unit == "tail":
        count = number(first)
        if count is None or dash or count < 1:
            raise invalid_window(unit, f"{value[:50]!r} is not a number of lines")
        return Window("tail", 0, count)
    begin, end = number(first), number(last) if last else None
    if begin is None or (last and end is None) or (end is not None and end < begin):
        raise invalid_window(unit, f"{value[:50]!r} is not a range")
    if unit == "lines":
        if begin < 1:
            raise invalid_window(unit, "lines count from 1")
        return Window("lines", begin, end if dash else begin)
    return Window("bytes", begin, end if dash else begin)


def number(digits: str) -> int | None:
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS else None


def invalid_window(unit: str, reason: str) -> InvalidParams:
    shown = EXAMPLES.get(unit) or " or ".join(f"?{example}" for example in EXAMPLES.values())
    return InvalidParams(f"Invalid params: {unit}: {reason}; it should look like {shown}", parameter=unit)


def windows_of(uri: str, *queries: str) -> str:
    """Return the URIs of windows, joined by "or", for an error message."""
    return " or ".join(f"{uri.partition('?')[0]}?{query}" for query in queries)


def window_templates(literal: str, title: str, of: str) -> list[ResourceTemplate]:
    """Return the templates of windows; ``literal`` is the template of the whole, ``of`` names its kind."""
    mark = "&" if "?" in literal else "?"
    rows = (
        ("lines", f"lines of {of}", "Lines first-last, for example 100-200 or 100-"),
        ("tail", f"the end of {of}", "The last lines, for example 200"),
        ("bytes", f"bytes of {of}", "Bytes first-last, for example 0-65535"),
    )
    return [
        ResourceTemplate(f"{literal}{{{mark}{unit}}}", f"{title}: {part}", description=description)
        for unit, part, description in rows
    ]


def slice_data(data: bytes, window: Window, limit: int, encoding: str | None, uri: str) -> tuple[bytes, dict[str, Any]]:
    """Return a window of data in memory, and its description for ``_meta``; ``uri`` ends with the window.

    Raises:
        InvalidParams: the window is not valid for the data.
        ResourceTooLarge: it is over the limit; the message has the URIs of smaller windows.
    """
    try:
        excerpt = slice_window(lambda at, count: data[at : at + count], len(data), window, limit, encoding)
    except (TooWide, TooFar) as error:
        before = uri.rpartition(f"{window.unit}=")[0]
        narrower = " or ".join(before + query for query in getattr(error, "queries", ("lines=1-100",)))
        raise ResourceTooLarge(
            uri, f"The window is over the limit of {limit:,} bytes; read a narrower one, {narrower}"
        ) from None
    return excerpt.data, {"carrel/window": excerpt.describe(window.unit), "carrel/size": len(data)}


def slice_window(
    read_at: ReadAt, size: int, window: Window, limit: int, encoding: str | None, scan: int = MAX_SCAN
) -> Excerpt:
    """Read a window of any kind; text without a known encoding is read as UTF-8. Raises the errors of the kinds."""
    if window.unit == "bytes":
        return slice_bytes(read_at, size, window, limit, encoding)
    if window.unit == "tail":
        return slice_tail(read_at, size, window, limit, encoding or UTF8)
    return slice_lines(read_at, size, window, limit, encoding or UTF8, scan)


def slice_bytes(read_at: ReadAt, size: int, window: Window, limit: int, encoding: str | None) -> Excerpt:
    """Read a range of bytes from a file of ``size`` bytes, aligned to characters if it is text.

    Raises:
        InvalidParams: the window begins after the end.
        TooWide: it has more than ``limit`` bytes.
    """
    if window.first > size:
        raise invalid_window("bytes", f"the file has {size:,} bytes, and the window begins at {window.first:,}")
    end = size if window.last is None else min(window.last + 1, size)
    if end - window.first > limit:
        raise TooWide(f"bytes={window.first}-{window.first + limit - 1}")
    begin = window.first
    if encoding is None:
        data = read_at(begin, end - begin)
        return Excerpt(data, begin, begin + len(data) - 1)
    before = max(begin - NEIGHBOURHOOD, 0) & ~3
    after = NEIGHBOURHOOD if encoding.startswith("iso2022") else 3  # a character of other encodings has up to 4 bytes
    data = read_at(before, end + after - before)
    here = character_start(data, begin - before, encoding) if begin else 0
    there = character_start(data, end - before, encoding) if end < size else len(data)
    return Excerpt(data[here:there], before + here, before + there - 1)


def slice_lines(read_at: ReadAt, size: int, window: Window, limit: int, encoding: str, scan: int = MAX_SCAN) -> Excerpt:
    """Read a range of lines from a file. Up to ``scan`` bytes before them are read in blocks, and discarded.

    Raises:
        InvalidParams: the file has fewer lines than would come before the window.
        TooFar: it begins further into the file than ``scan`` bytes.
        TooWide: the window has more than ``limit`` bytes.
    """
    feed = line_feed(encoding)
    offset, passed = 0, 0  # current offset, and how many lines end before it
    skip = window.first - 1
    if min(skip * len(feed), size) > scan:
        raise TooFar(window.first)
    begin = 0 if skip == 0 else -1
    while begin < 0:
        if offset >= scan and offset < size:
            raise TooFar(window.first, passed + 1, offset)
        block = read_at(offset, min(BLOCK, size - offset))
        if not block:
            break
        count = count_feeds(block, feed)
        if passed + count >= skip:
            begin = offset + after_feeds(block, feed, skip - passed)
            break
        passed, offset = passed + count, offset + len(block)
    if begin < 0:
        total = passed + (size > 0 and not ends_with_feed(read_at, size, feed))
        if window.first > total + 1:
            raise invalid_window(
                "lines", f"the file ends with line {total:,}, and the window begins at {window.first:,}"
            )
        return Excerpt(b"", None, None, total)
    return collect_lines(read_at, size, begin, window, limit, feed)


def collect_lines(read_at: ReadAt, size: int, begin: int, window: Window, limit: int, feed: bytes) -> Excerpt:
    """Read the lines of a window, which begins at offset ``begin``."""
    first = window.first
    wanted = None if window.last is None else window.last - first + 1
    parts: list[bytes] = []
    offset, lines, whole = begin, 0, 0  # whole: how many lines end within the limit
    while offset < size and (wanted is None or lines < wanted):
        block = read_at(offset, min(BLOCK, size - offset))
        if not block:
            break
        count = count_feeds(block, feed)
        if wanted is not None and lines + count >= wanted:
            block, count = block[: after_feeds(block, feed, wanted - lines)], wanted - lines
        room = limit - (offset - begin)
        if len(block) > room:
            whole = lines + count_feeds(block[: max(room, 0) & -len(feed)], feed)
            last = first + whole - 1
            raise TooWide(*([f"lines={first}-{last}"] if whole else []), f"bytes={begin}-{begin + limit - 1}")
        parts.append(block)
        lines, offset = lines + count, offset + len(block)
    data = b"".join(parts)
    unfinished = bool(data) and not data.endswith(feed)
    last = first + lines + unfinished - 1
    ended = offset >= size and (wanted is None or lines <= wanted)
    return Excerpt(data, first if data else None, last if data else None, last if ended else None)


def slice_tail(read_at: ReadAt, size: int, window: Window, limit: int, encoding: str) -> Excerpt:
    """Read the last lines of a file, backwards from its end.

    Raises:
        InvalidParams: the file keeps shrinking while it is read.
        TooWide: they have more than ``limit`` bytes.
    """
    feed = line_feed(encoding)
    for _ in range(ATTEMPTS):
        blocks, end = collect_tail(read_at, size, window.last or 1, limit, feed)
        if end is None:
            break
        size = end
    else:
        raise invalid_window("tail", "the file shrank while it was read; retry")
    data = b"".join(reversed(blocks))
    if len(data) > limit:
        fitting = count_feeds(data[(len(data) - limit + 3) & ~3 : len(data) - len(feed)], feed)
        queries = [f"tail={fitting}"] if fitting else []
        raise TooWide(*queries, f"bytes={max(size - limit, 0)}-{size - 1}")
    return Excerpt(data, None, None)


def collect_tail(read_at: ReadAt, size: int, wanted: int, limit: int, feed: bytes) -> tuple[list[bytes], int | None]:
    """Read the last lines in blocks, the last block first, up to ``wanted`` lines or past ``limit`` bytes.

    The number is None, or the size that the file has meanwhile shrunk to; then there are no blocks.
    """
    blocks: list[bytes] = []
    end = size
    lines = 0  # line feeds found that begin a wanted line, that is, all but the one at the very end
    while end > 0 and size - end <= limit:
        begin = max(end - STEP, 0) & ~3
        block = read_at(begin, end - begin)
        if len(block) < end - begin:
            return [], begin + len(block)
        last = len(block) - (len(feed) if not blocks and block.endswith(feed) else 0)
        count = count_feeds(block[:last], feed)
        if lines + count >= wanted:
            position = last
            for _ in range(wanted - lines):
                position = find_feed_backwards(block, feed, position)
            blocks.append(block[position + len(feed) :])
            break
        blocks.append(block)
        lines += count
        end = begin
    return blocks, None


def count_feeds(block: bytes, feed: bytes) -> int:
    """Count line feeds; in UTF-16 and UTF-32, only at character boundaries."""
    if len(feed) == 1:
        return block.count(feed)
    return block.decode(WIDE[feed], "replace").count("\n")  # far quicker than finding them one by one


def after_feeds(block: bytes, feed: bytes, count: int) -> int:
    """Return where so many line feeds of a block, which has as many, have ended."""
    if len(feed) == 1:
        return len(block) - len(block.split(feed, count)[-1])
    end = 0
    for _ in range(count):
        end = find_feed(block, feed, end) + len(feed)
    return end


def find_feed(block: bytes, feed: bytes, start: int) -> int:
    """Find a line feed from ``start`` on; in UTF-16 and UTF-32, only where a character begins."""
    position = block.find(feed, start)
    while position % len(feed) and position >= 0:
        position = block.find(feed, position + 1)
    return position


def find_feed_backwards(block: bytes, feed: bytes, end: int) -> int:
    position = block.rfind(feed, 0, end)
    while position % len(feed) and position >= 0:
        position = block.rfind(feed, 0, position + len(feed) - 1)
    return position


def ends_with_feed(read_at: ReadAt, size: int, feed: bytes) -> bool:
    return read_at(size - len(feed), len(feed)) == feed
