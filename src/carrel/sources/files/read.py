"""Reading of open files: whole or in a window, as text or as a blob."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeAlias

from carrel.errors import ResourceTooLarge
from carrel.heap import LARGE_BLOCK, unmap_large_blocks
from carrel.media_types import type_of_bytes, type_of_name, type_of_text
from carrel.sources.content.text import (
    SAMPLE,
    UTF8,
    decode,
    decode_as,
    describe_encoding,
    has_escapes,
    is_utf8,
    recognise,
)
from carrel.sources.content.window import (
    ReadAt,
    TooFar,
    TooWide,
    Window,
    invalid_window,
    slice_window,
    windows_of,
)
from carrel.sources.documents.documents import Original
from carrel.sources.documents.kinds import kind_of
from carrel.threads import stop_if_cancelled
from carrel.wire.resources import BlobResourceContents, TextResourceContents

__all__ = [
    *("HEAD", "Contents", "contents_of", "read_file", "read_original", "read_part", "read_window"),
    *("ReadLimits", "too_large_of"),
]

Contents: TypeAlias = TextResourceContents | BlobResourceContents

HEAD = 8192  # bytes used to detect the type of a large file
LOOK = 1_048_576  # bytes looked through for the first one that is not ASCII
CHUNK = 1_048_576  # bytes read between checks for cancellation


class ReadLimits(Protocol):
    """Options of a source: maximum number of bytes to return, and to scan for the lines of a window."""

    @property
    def max_size(self) -> int: ...

    @property
    def max_scan(self) -> int: ...


def read_file(descriptor: int, uri: str, name: str, window: Window | None, limits: ReadLimits) -> Contents:
    """Read an open file named ``name``, or a window of it.

    Raises:
        ResourceTooLarge: it is larger, or too far into the file; the message has the URIs of smaller windows.
        InvalidParams: the window is not valid for this file.
    """
    size, limit = os.fstat(descriptor).st_size, limits.max_size
    if window is not None:
        return read_window(descriptor, uri, name, size, window, limits)
    if size >= LARGE_BLOCK:
        unmap_large_blocks()
    data = read_all(descriptor, size, limit) if size <= limit else None
    if data is None:
        raise too_large(descriptor, uri, limit)
    return contents_of(data, uri, name)


def contents_of(data: bytes, uri: str, name: str) -> Contents:
    """Return a whole file named ``name`` as text in the encoding that is recognised, or as a blob."""
    text = decode(data)
    if text is None:
        return BlobResourceContents(uri, data, mime_type=type_of_bytes(data[:HEAD], name))
    meta = describe_encoding(text.encoding)
    return TextResourceContents(uri, text.text, mime_type=type_of_text(name), meta=meta or None)


def read_original(descriptor: int, uri: str, name: str, limit: int, known: Callable[[Hashable], bool]) -> Original:
    """Return an open file as a document; without its bytes if its version is known.

    Raises:
        ResourceTooLarge: it has more than ``limit`` bytes.
    """
    info = os.fstat(descriptor)
    version = info.st_mtime_ns, info.st_size, info.st_ino
    kind = type_of_name(name)
    if kind_of(kind) is None:
        kind = type_of_bytes(reader(descriptor)(0, HEAD), name)
        if kind_of(kind) is None:
            return Original(kind, version, None)
    if known(version):
        return Original(kind, version, None)
    os.lseek(descriptor, 0, os.SEEK_SET)
    data = read_all(descriptor, info.st_size, limit)
    if data is None:
        raise ResourceTooLarge(
            uri, f"The document has more than {limit:,} bytes, which is the limit for turning it into text"
        )
    return Original(kind, version, data)


def read_window(descriptor: int, uri: str, name: str, size: int, window: Window, limits: ReadLimits) -> Contents:
    read_at = reader(descriptor)
    if size == 0:
        # Files in /proc and the like report no size, and may differ each time they are read.
        data = read_all(descriptor, 0, limits.max_size)
        if data is None:
            raise too_large(descriptor, uri, limits.max_size)
        read_at, size = (lambda offset, count: data[offset : offset + count]), len(data)
    return read_part(read_at, uri, name, size, window, limits)


def read_part(read_at: ReadAt, uri: str, name: str, size: int, window: Window, limits: ReadLimits) -> Contents:
    """Read a window of a file with ``size`` bytes.

    Raises:
        ResourceTooLarge: the window is over the limit, or too far into the file. The message suggests the URIs
            of smaller windows.
        InvalidParams: the window is not valid.
    """
    limit, scan = limits.max_size, limits.max_scan
    head = read_at(0, SAMPLE)
    encoding = recognise(head, truncated=size > len(head))
    try:
        excerpt = slice_window(read_at, size, window, limit, encoding, scan)
        if encoding == UTF8 and (has_escapes(excerpt.data) or not is_utf8(excerpt.data, truncated=True)):
            encoding = recognise_later(read_at, excerpt.data)
            excerpt = slice_window(read_at, size, window, limit, encoding, scan)
    except TooWide as error:
        narrower = windows_of(uri, *error.queries)
        raise ResourceTooLarge(
            uri, f"The window is over the limit of {limit:,} bytes; read a narrower one, {narrower}"
        ) from None
    except TooFar as error:
        raise too_far(error, uri, size, limit, scan) from None
    meta: dict[str, Any] = {"carrel/window": excerpt.describe(window.unit), "carrel/size": size}
    if encoding is None and window.unit != "bytes":
        # A log may begin with a hole of zero bytes, followed by text.
        encoding = recognise(excerpt.data, truncated=True)
        if encoding is None:
            raise invalid_window("bytes", f"the file is not text and has no {window.unit}, only bytes")
    if encoding is None:
        return BlobResourceContents(uri, excerpt.data, mime_type=type_of_bytes(head[:HEAD], name), meta=meta)
    meta |= describe_encoding(encoding)
    text = decode_as(excerpt.data, encoding)
    return TextResourceContents(uri, text, mime_type=type_of_text(name), meta=meta)


def recognise_later(read_at: ReadAt, data: bytes) -> str:
    """Detect the encoding of a file that begins with ASCII, by its first signs, or by ``data``, a window."""
    head = read_at(0, LOOK)
    if head.isascii() and not has_escapes(head):
        head = data.partition(b"\n")[2] or data  # it may begin within a character
    return recognise(head, truncated=True) or UTF8


def too_far(error: TooFar, uri: str, size: int, limit: int, scan: int) -> ResourceTooLarge:
    reached = f"; byte {error.offset:,} is in line {error.line:,}" if error.line is not None else ""
    begin = scan if error.offset is None else error.offset
    windows = windows_of(uri, f"bytes={begin}-{min(begin + min(limit, 65_536), size) - 1}", "tail=200")
    return ResourceTooLarge(
        uri,
        f"Line {error.wanted:,} is beyond the first {scan:,} bytes of the file, which are all that is looked through "
        f"to find a line{reached}; read a window that needs no looking, {windows}",
    )


def too_large(descriptor: int, uri: str, limit: int) -> ResourceTooLarge:
    return too_large_of(uri, os.fstat(descriptor).st_size, limit, reader(descriptor)(0, HEAD))


def too_large_of(uri: str, size: int, limit: int, head: bytes) -> ResourceTooLarge:
    """Return the error for a resource over the limit that begins with ``head``, with the URIs of windows."""
    queries = ["tail=200", "lines=1-1000"] if recognise(head, truncated=True) is not None else []
    windows = windows_of(uri, *queries, f"bytes=0-{min(limit, 65_536) - 1}")
    if size <= limit:  # it is still growing, or reports no size
        return ResourceTooLarge(uri, f"The file has more than {limit:,} bytes, which is the limit")
    return ResourceTooLarge(
        uri, f"The file has {size:,} bytes, which is over the limit of {limit:,}; read a window of it, {windows}"
    )


def read_all(descriptor: int, size: int, limit: int) -> bytes | None:
    """Read a file that had ``size`` bytes, and may have grown or shrunk, to its end; None if it is over the limit."""
    data = os.read(descriptor, min(size, CHUNK) + 1)
    if 0 < len(data) <= size <= CHUNK:
        return data
    parts = [data]
    total = len(data)
    while data and total <= limit:
        stop_if_cancelled()
        data = os.read(descriptor, min(limit + 1 - total, CHUNK))
        total += len(data)
        parts.append(data)
    return b"".join(parts) if total <= limit else None


def reader(descriptor: int) -> ReadAt:
    """Return a function that reads an open file at an offset, and stops if the request is cancelled."""

    def read_at(offset: int, size: int) -> bytes:
        os.lseek(descriptor, offset, os.SEEK_SET)
        parts = []
        while size > 0:
            stop_if_cancelled()
            data = os.read(descriptor, min(size, CHUNK))
            if not data:
                break
            parts.append(data)
            size -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    return read_at
