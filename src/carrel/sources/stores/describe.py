"""Descriptions of objects and directories as resources, and directories as text."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from carrel.errors import ResourceTooLarge
from carrel.media_types import DIRECTORY, type_of_name
from carrel.sources.content.window import Window, invalid_window
from carrel.sources.files.read import windows_of
from carrel.sources.folder.describe import annotate
from carrel.sources.stores.address import StoreAddress
from carrel.sources.stores.store import StoreEntry
from carrel.wire.resources import Resource, TextResourceContents

__all__ = ["describe", "read_directory"]


def describe(address: StoreAddress, entry: StoreEntry, name: str | None = None) -> Resource:
    """Return the resource of an object or a directory; ``name`` overrides its own name."""
    uri = address.uri(entry.key)
    if entry.is_directory or entry.key == address.prefix:
        return Resource(uri, name or entry.name, mime_type=DIRECTORY)
    return Resource(
        uri,
        name or entry.name,
        mime_type=type_of_name(entry.name),
        size=entry.size,
        annotations=None if entry.modified is None else annotate(entry.modified),
    )


def read_directory(
    entries: Sequence[Resource], uri: str, window: Window | None, limit: int, *, excerpt: bool
) -> TextResourceContents:
    """Return a JSON array with one resource per line, or some of its lines; with ``excerpt``, there are more entries.

    Raises:
        ResourceTooLarge: it is larger than ``limit`` bytes, or has more entries than are read.
        InvalidParams: the window is one of bytes.
    """
    if window is not None and window.unit == "bytes":
        raise invalid_window("lines", "a directory has lines, one for each entry, not bytes")
    lines = [msgspec.json.encode(entry) for entry in entries]
    lines = [b"[", *(line + b"," for line in lines[:-1]), *lines[-1:], *([] if excerpt else [b"]"])]
    first, last = 0, len(lines)
    if window is not None and window.unit == "tail":
        first = max(last - (window.last or 1), 0)
    elif window is not None:
        first, last = window.first - 1, min(window.last or last + excerpt, last + excerpt)
    text = b"".join(line + b"\n" for line in lines[first:last])
    beyond = excerpt and (window is None or window.unit == "tail" or last > len(lines))
    if beyond or len(text) > limit:
        what = f"more than {len(entries):,} entries" if beyond else f"{len(text):,} bytes, over the limit of {limit:,}"
        end = first + min(1000, max(len(entries) // 2, 1))
        advice = windows_of(uri, f"lines={first + 1 if not beyond else 1}-{end}")
        raise ResourceTooLarge(uri, f"The directory has {what}; read some of it, {advice}")
    return TextResourceContents(uri, text.decode(), mime_type=DIRECTORY)
