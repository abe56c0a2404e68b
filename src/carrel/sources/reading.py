"""Reading an open file: whole or in a window, as text or as bytes."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

from msgspec import UNSET

from carrel.errors import ResourceTooLarge
from carrel.sources.media import TEXT, is_textual, type_of_bytes, type_of_name
from carrel.sources.text import UTF8, decode, recognise
from carrel.sources.window import Cut, ReadAt, TooWide, Window, cut_bytes, cut_lines, cut_tail, refuse
from carrel.wire.resources import BlobResourceContents, TextResourceContents

__all__ = ["Contents", "read_file", "windows_of"]

Contents: TypeAlias = TextResourceContents | BlobResourceContents

HEAD = 8192  # bytes by which the type and the encoding of a large file are recognised


def read_file(descriptor: int, uri: str, name: str, window: Window | None, limit: int) -> Contents:
    """Read a file of that name, or a window of it; ``limit`` is how many bytes at most.

    Raises:
        ResourceTooLarge: it is more; the message has the URIs of windows that are not.
        InvalidParams: the window makes no sense for this file.
    """
    size = os.fstat(descriptor).st_size
    if window is not None:
        return read_window(descriptor, uri, name, size, window, limit)
    data = read_all(descriptor, size, limit) if size <= limit else None
    if data is None:
        raise too_large(descriptor, uri, limit)
    text = decode(data)
    if text is None:
        return BlobResourceContents(uri, data, mime_type=type_of_bytes(data[:HEAD], name))
    meta = UNSET if text.encoding == UTF8 else {"carrel/encoding": text.encoding}
    return TextResourceContents(uri, text.text, mime_type=type_of_text(name), meta=meta)


def read_window(descriptor: int, uri: str, name: str, size: int, window: Window, limit: int) -> Contents:
    read_at = reader(descriptor)
    head = read_at(0, HEAD)
    encoding = recognise(head, cut=size > len(head))
    try:
        cut = cut_window(read_at, size, window, limit, encoding)
    except TooWide as error:
        narrower = windows_of(uri, *error.queries)
        raise ResourceTooLarge(
            uri, f"The window is over the limit of {limit:,} bytes; read a narrower one, {narrower}"
        ) from None
    meta: dict[str, Any] = {"carrel/window": cut.describe(window.unit), "carrel/size": size}
    if encoding is None and window.unit != "bytes":
        # A log may begin with a hole of zero bytes, and yet be text where it goes on.
        encoding = recognise(cut.data, cut=True)
        if encoding is None:
            raise refuse("bytes", f"the file is not text and has no {window.unit}, only bytes")
    if encoding is None:
        return BlobResourceContents(uri, cut.data, mime_type=type_of_bytes(head, name), meta=meta)
    if encoding != UTF8:
        meta["carrel/encoding"] = encoding
    text = cut.data.decode(encoding, "replace").removeprefix("\ufeff")
    return TextResourceContents(uri, text, mime_type=type_of_text(name), meta=meta)


def cut_window(read_at: ReadAt, size: int, window: Window, limit: int, encoding: str | None) -> Cut:
    if window.unit == "bytes":
        return cut_bytes(read_at, size, window, limit, encoding)
    cut = cut_lines if window.unit == "lines" else cut_tail
    return cut(read_at, size, window, limit, encoding or UTF8)


def too_large(descriptor: int, uri: str, limit: int) -> ResourceTooLarge:
    size = os.fstat(descriptor).st_size
    is_text = recognise(reader(descriptor)(0, HEAD), cut=True) is not None
    queries = ["tail=200", "lines=1-1000"] if is_text else []
    windows = windows_of(uri, *queries, f"bytes=0-{min(limit, 65_536) - 1}")
    return ResourceTooLarge(
        uri, f"The file has {size:,} bytes, which is over the limit of {limit:,}; read a window of it, {windows}"
    )


def windows_of(uri: str, *queries: str) -> str:
    """Return the URIs of windows, for a sentence that suggests them."""
    return " or ".join(f"{uri.partition('?')[0]}?{query}" for query in queries)


def type_of_text(name: str) -> str:
    named = type_of_name(name)
    return named if named is not None and is_textual(named) else TEXT


def read_all(descriptor: int, size: int, limit: int) -> bytes | None:
    """Read to the end of a file that had ``size`` bytes, and may have grown or shrunk; None if it is over the limit."""
    data = os.read(descriptor, size + 1)
    if 0 < len(data) <= size:
        return data
    parts = [data]
    total = len(data)
    while data and total <= limit:
        data = os.read(descriptor, 65_536)
        total += len(data)
        parts.append(data)
    return b"".join(parts) if total <= limit else None


def reader(descriptor: int) -> ReadAt:
    """Return a function that reads at an offset of an open file."""

    def read_at(offset: int, size: int) -> bytes:
        os.lseek(descriptor, offset, os.SEEK_SET)
        parts = []
        while size > 0 and (data := os.read(descriptor, size)):
            parts.append(data)
            size -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    return read_at
