"""Contents of a directory: a JSON array with one resource per line, or a window of its lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from carrel.errors import ResourceTooLarge
from carrel.media_types import DIRECTORY
from carrel.sources.content.window import Window, invalid_window, windows_of
from carrel.wire.resources import Resource, TextResourceContents

__all__ = ["directory_contents"]


def directory_contents(
    uri: str, entries: Iterable[Resource], window: Window | None = None, limit: int | None = None
) -> TextResourceContents:
    """Return the contents of a directory, or a window of them, of at most ``limit`` bytes.

    ``entries`` is not read further than the window reaches.

    Raises:
        ResourceTooLarge: they are over the limit; the message has the URI of a window.
        InvalidParams: the window is one of bytes.
    """
    lines, first = lines_of(entries), 1
    if window is not None:
        if window.unit == "bytes":
            raise invalid_window("lines", "a directory has lines, one for each entry, not bytes")
        if window.unit == "tail":
            lines = iter(deque(lines, maxlen=window.last))
        else:
            first = window.first
            lines = islice(lines, first - 1, window.last)
    text: list[bytes] = []
    size = 0
    for line in lines:
        size += len(line)
        if limit is not None and size > limit:
            some = windows_of(uri, f"lines={first}-{first + max(len(text), 1) - 1}")
            raise ResourceTooLarge(
                uri, f"The entries of the directory take more than {limit:,} bytes; read some of them, {some}"
            )
        text.append(line)
    return TextResourceContents(uri, b"".join(text).decode(), mime_type=DIRECTORY)


def lines_of(entries: Iterable[Resource]) -> Iterator[bytes]:
    yield b"[\n"
    before = b""
    for entry in entries:
        if before:
            yield before + b",\n"
        before = msgspec.json.encode(entry)
    if before:
        yield before + b"\n"
    yield b"]\n"
