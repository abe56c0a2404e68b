"""Versions: contents of resources that were read, by a hash of them. The version before a change is kept too."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b

from carrel.media_types import BINARY, TEXT
from carrel.wire.resources import BlobResourceContents, ReadResourceResult, TextResourceContents

__all__ = ["Kept", "Version", "Versions"]

#: Bytes of contents that are kept.
MAX_BYTES = 64 * 1024 * 1024


class Version:
    """Contents of a resource. ``window`` is set if these are only some of its lines: the first one, and their total."""

    def __init__(self, result: ReadResourceResult, window: tuple[int, int | None] | None = None) -> None:
        self.result = result
        """The result, as the server sent it."""
        self.parts: Sequence[TextResourceContents | BlobResourceContents] = result.contents
        self.window = window
        digest = blake2b(digest_size=12)
        for part in self.parts:
            digest.update(repr((part.uri, part.mime_type)).encode("utf-8", "surrogatepass"))
            digest.update(data_of(part))
        self.hash = digest.hexdigest()
        self.size = sum(len(data_of(part)) for part in self.parts)

    @property
    def first(self) -> TextResourceContents | BlobResourceContents | None:
        """The first contents, which are shown."""
        return self.parts[0] if self.parts else None

    @property
    def text(self) -> str | None:
        """The text, or None if the contents are binary."""
        return self.first.text if isinstance(self.first, TextResourceContents) else None

    @property
    def mime_type(self) -> str:
        """The MIME type."""
        given = None if self.first is None else self.first.mime_type
        return given or (BINARY if self.text is None else TEXT)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text, without an empty last one."""
        lines = (self.text or "").split("\n")
        return lines[:-1] if lines[-1] == "" else lines


def data_of(part: TextResourceContents | BlobResourceContents) -> bytes:
    """Return contents as bytes."""
    return part.text.encode("utf-8", "surrogatepass") if isinstance(part, TextResourceContents) else part.blob


class Kept:
    """Versions of one resource: the current one and the one before, with the time when it was read."""

    def __init__(self, current: Version, time: float) -> None:
        self.current = current
        self.previous: Version | None = None
        self.time = time
        self.stale = False
        """Whether the resource may have changed since."""

    @property
    def size(self) -> int:
        """Bytes of both versions."""
        return self.current.size + (0 if self.previous is None else self.previous.size)


class Versions:
    """Kept versions by server and URI. The versions that were not used for the longest time are evicted."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[str, str], Kept] = OrderedDict()
        self._size = 0

    def get(self, server: str, uri: str) -> Kept | None:
        """Return the kept versions of a resource."""
        found = self._kept.get((server, uri))
        if found is not None:
            self._kept.move_to_end((server, uri))
        return found

    def put(self, server: str, uri: str, version: Version, time: float) -> Kept:
        """Keep a version that was read, and return it with the one before."""
        known = self._kept.pop((server, uri), None)
        kept = Kept(version, time)
        if known is not None:
            self._size -= known.size
            is_same = known.current.hash == version.hash
            kept.previous = known.previous if is_same else known.current
        self._kept[server, uri] = kept
        self._size += kept.size
        while self._size > self._limit and len(self._kept) > 1:
            _, evicted = self._kept.popitem(last=False)
            self._size -= evicted.size
        return kept

    def spoil(self, server: str, uri: str | None = None) -> None:
        """Note that a resource, or all resources of a server, may have changed."""
        for (name, own), kept in self._kept.items():
            if name == server and (uri is None or uri == own):
                kept.stale = True
