"""Contents: reads resources for the page, in windows of lines, and knows the version before the last change."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import Any

import msgspec

from carrel.catalog.provider import Request
from carrel.errors import MCPError, PeerError
from carrel.host.host import Host
from carrel.host.selection import Hosted
from carrel.log import Log
from carrel.media_types import DIRECTORY, is_textual
from carrel.printable import printable
from carrel.studio.api import Changes, Key, Part, Row, TextView
from carrel.studio.differences import hunks_between
from carrel.studio.directories import entries_in
from carrel.studio.kinds import kind_of, language_of, type_of
from carrel.studio.lists import Lists
from carrel.studio.problems import NotFound
from carrel.studio.rows import row_of, title_of
from carrel.studio.versions import Kept, Version, Versions, data_of
from carrel.wire.resources import Resource, TextResourceContents

__all__ = ["ContentReader"]

log = Log("carrel.studio")

#: Bytes from which a text is read in windows of lines, if its source has them.
LARGE = 2 * 1024 * 1024
#: Seconds for which contents are shown again without reading, if changes are not reported.
FRESH = 2.0
#: Bytes in a line of a hex dump, lines of a window, and characters of a window.
HEX_LINE, MAX_LINES, MAX_CHARS = 16, 5000, 1024 * 1024
#: Entries of a folder that are returned.
MAX_ENTRIES = 1000


class ContentReader:
    """Contents of the resources of a host. ``watched`` has the keys of resources whose changes are reported."""

    def __init__(self, host: Host, lists: Lists, watched: Container[tuple[str, str]]) -> None:
        self._host = host
        self._lists = lists
        self._watched = watched
        self.versions = Versions()
        self._reading: dict[tuple[str, str], asyncio.Task[Kept]] = {}

    async def show(self, server: str, uri: str, first: int, count: int) -> TextView:
        """Return a window of the contents of a resource: ``count`` lines from line ``first``.

        Raises:
            MCPError: the resource cannot be read.
        """
        item, key = await self._item(server, uri), Key(server=server, uri=uri)
        first, count = max(1, first), max(1, min(count, MAX_LINES))
        if _is_large(item):
            window = await self._window(server, uri, first, count)
            if window is not None:
                return _text_view(key, item, Kept(window, 0.0), (first, count))
        try:
            kept = await self.read(server, uri)
        except PeerError:
            window = None if "?" in uri else await self._window(server, uri, first, count)
            if window is None:
                raise
            return _text_view(key, item, Kept(window, 0.0), (first, count))
        entries = await self._entries(server, uri, kept.current) if kept.current.mime_type == DIRECTORY else ()
        return _text_view(key, item, kept, (first, count), entries)

    async def read(self, server: str, uri: str, *, again: bool = False) -> Kept:
        """Return the contents of a resource, which are read unless they are known to be current.

        Raises:
            MCPError: the resource cannot be read.
        """
        kept = self.versions.get(server, uri)
        now = asyncio.get_running_loop().time()
        if kept is not None and not again and not kept.stale and self._is_current(server, uri, now - kept.time):
            return kept
        key = server, uri
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.ensure_future(self._read(server, uri))
            reading.add_done_callback(lambda _: self._reading.pop(key, None))
        return await asyncio.shield(reading)

    def _is_current(self, server: str, uri: str, age: float) -> bool:
        return age < FRESH or (server, uri) in self._watched

    async def _read(self, server: str, uri: str) -> Kept:
        began = asyncio.get_running_loop().time()
        known = self.versions.get(server, uri)
        if known is not None:
            known.stale = False  # a change that is reported during the read makes it stale again
        result = await self._host.read_resource(server, uri)
        spoiled = known is not None and known.stale
        kept = self.versions.put(server, uri, Version(result), began)
        kept.stale = spoiled
        return kept

    async def changes(self, server: str, uri: str) -> Changes:
        """Return the difference between the version before and the current version of a resource.

        Raises:
            MCPError: the resource cannot be read.
            NotFound: no other version is known, or the contents are not text.
        """
        kept = await self.read(server, uri)
        old, new = kept.previous, kept.current
        if old is None or old.text is None or new.text is None:
            raise NotFound("No other version of this text is known")
        hunks, complete = await asyncio.to_thread(hunks_between, old.lines, new.lines)
        return Changes(from_=old.hash, to=new.hash, hunks=hunks, complete=complete)

    async def part(self, server: str, uri: str, part: str | None) -> tuple[str, bytes, str]:
        """Return the MIME type, the bytes and the file name of a resource, or of one of its parts.

        Raises:
            MCPError: the resource cannot be read.
            NotFound: it has no such part.
        """
        version = (await self.read(server, uri)).current
        for each in version.parts:
            if part is None or each.uri == part:
                mime_type = each.mime_type or version.mime_type
                return mime_type, data_of(each), each.uri.rstrip("/").rpartition("/")[2] or "resource"
        raise NotFound("The resource has no such part")

    async def _item(self, server: str, uri: str) -> Resource | None:
        found: Resource | None = await self._lists.item("resource", server, uri)
        return found

    async def _window(self, server: str, uri: str, first: int, count: int) -> Version | None:
        """Return some lines of a resource, if its source has windows."""
        try:
            result = await self._host.read_resource(server, f"{uri}?lines={first}-{first + count - 1}")
        except PeerError as error:
            log.debug("%s has no windows: %s", printable(uri), error)
            return None
        part = result.contents[0] if result.contents else None
        meta = (part.meta or {}).get("carrel/window") if isinstance(part, TextResourceContents) else None
        if not isinstance(meta, dict) or meta.get("unit") != "lines":
            return None
        total = meta.get("total")
        return Version(result, (first, total if isinstance(total, int) else None))

    async def _entries(self, server: str, uri: str, version: Version) -> tuple[Row, ...]:
        """Return the entries of a folder: from a directory read, or else from the folder's text."""
        provider = self._host.server(server).provider
        found: Any = ()
        try:
            if provider is not None and provider.offers("list_directory"):
                found = (await provider.list_directory(uri, Request(limit=MAX_ENTRIES))).items
            elif version.text is not None:
                found = entries_in(version.text) or ()
        except MCPError as error:
            log.debug("%s is shown without entries: %s", printable(uri), error)
        return tuple(row_of("resource", Hosted(server, item)) for item in found[:MAX_ENTRIES])


def _text_view(
    key: Key, item: Resource | None, kept: Kept, window: tuple[int, int], entries: tuple[Row, ...] = ()
) -> TextView:
    """Return the contents of a resource: a window of so many lines (the second number) from a line (the first)."""
    first, count = window
    version = kept.current
    shown_as = type_of(version.mime_type, key.uri)
    kind = kind_of(shown_as, has_text=version.text is not None)
    text, hex, lines = None, None, None
    if version.window is not None:
        text, lines = version.text, version.window[1]
    elif version.text is not None:
        lines = len(version.lines)
        text = "\n".join(version.lines[first - 1 : first - 1 + count])
    elif kind == "binary" and version.first is not None:
        data = data_of(version.first)
        lines = -(-len(data) // HEX_LINE)
        hex = data[(first - 1) * HEX_LINE : (first - 1 + count) * HEX_LINE].hex()
    size = item.size if version.window is not None and item is not None and item.size else version.size
    annotations = None if item is None or item.annotations is None else msgspec.to_builtins(item.annotations)
    return TextView(
        key=key,
        version=version.hash,
        title=printable(key.uri) if item is None else title_of(item),
        mime_type=version.mime_type,
        kind=kind,
        language=language_of(shown_as) if kind == "code" else None,
        size=size,
        lines=lines,
        first=first,
        text=None if text is None else text[:MAX_CHARS],
        hex=hex,
        parts=tuple(
            Part(uri=part.uri, mime_type=part.mime_type or "", size=len(data_of(part))) for part in version.parts
        )
        if len(version.parts) > 1
        else (),
        annotations=annotations,
        changed=kept.previous is not None and kept.previous.text is not None,
        reads=entries,
    )


def _is_large(item: Resource | None) -> bool:
    return (
        item is not None and item.size is not None and item.size > LARGE and is_textual(item.mime_type or "text/plain")
    )
