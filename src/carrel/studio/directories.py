"""Directories: directory resources that were opened in the tree, read from their servers one level at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from carrel.catalog.provider import Request
from carrel.errors import MCPError, ResourceNotFound
from carrel.host.host import Host
from carrel.host.resource_tree import ResourceTree, segments
from carrel.media_types import DIRECTORY
from carrel.printable import printable
from carrel.wire.resources import Resource, TextResourceContents

__all__ = ["Directories", "Directory", "entries_in"]

#: Entries of a directory that are read, entries of one request, and directories that are kept.
MAX_ENTRIES, PAGE, MAX_KEPT = 10_000, 1000, 2000
#: Seconds that a window of the tree waits for directories. Slower ones are shown as being read.
PATIENCE = 0.2


class Directory(NamedTuple):
    """Directory that was read: its entries as a tree. ``reason`` says why it cannot be read."""

    tree: ResourceTree
    complete: bool = True
    reason: str | None = None
    directories: tuple[Resource, ...] = ()
    """Entries that are directories."""


class Directories:
    """Directories of the servers of a host. ``on_late`` gets the server of a read that took longer than a window."""

    def __init__(self, host: Host, on_late: Callable[[str], None]) -> None:
        self._host = host
        self._on_late = on_late
        self._read: OrderedDict[tuple[str, str], Directory] = OrderedDict()
        self._reading: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.version = 0
        """Number of changes so far."""

    def get(self, server: str, uri: str) -> Directory | None:
        """Return a directory, or None if it was not read."""
        return self._read.get((server, uri))

    def item(self, server: str, uri: str) -> Resource | None:
        """Return an entry of any directory that was read."""
        owner = self.owner(server, uri)
        node = None if owner is None else self._read[server, owner].tree.find(_inside(owner, uri))
        return None if node is None else node.resource

    def owner(self, server: str, uri: str) -> str | None:
        """Return the URI of a directory that was read and has this entry, or None."""
        for (name, directory), read in self._read.items():
            node = read.tree.find(_inside(directory, uri)) if name == server and directory != uri else None
            if node is not None and node.resource is not None and node.resource.uri == uri:
                return directory
        return None

    async def find_owner(self, server: str, uri: str, listed: Iterable[Resource]) -> None:
        """Read the directories that may have an entry level by level, until one has it. ``listed`` are resources of
        the server's list.
        """
        known = [each.uri for each in listed if each.mime_type == DIRECTORY]
        for _ in range(len(segments(uri))):
            if self.owner(server, uri) is not None:
                break
            found = [each.uri for (name, _), read in self._read.items() if name == server for each in read.directories]
            above = [each for each in {*known, *found} if _may_have(each, uri) and self.get(server, each) is None]
            if not above:
                break
            await self.read([(server, each) for each in above], None)

    def forget(self, server: str, uri: str | None = None) -> None:
        """Forget a directory of a server, or all of them, and read them again when they are opened."""
        for key in [key for key in {**self._read, **self._reading} if key[0] == server and uri in (None, key[1])]:
            self._read.pop(key, None)
            self._reading.pop(key, None)
        self.version += 1

    async def read(self, keys: Iterable[tuple[str, str]], patience: float | None = PATIENCE) -> None:
        """Read directories, given by server and URI, and wait at most ``patience`` seconds for them."""
        tasks = {key: self._start(*key) for key in keys if key not in self._read}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks.values(), timeout=patience)
        for (server, _), task in tasks.items():
            if task in late:
                task.add_done_callback(lambda _, server=server: self._on_late(server))  # type: ignore[misc]

    async def close(self) -> None:
        """Stop reading."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, server: str, uri: str) -> asyncio.Task[None]:
        key = server, uri
        if key not in self._reading:
            self._reading[key] = asyncio.ensure_future(self._fetch(server, uri))
        return self._reading[key]

    async def _fetch(self, server: str, uri: str) -> None:
        key, task = (server, uri), asyncio.current_task()
        try:
            found = await self._entries(server, uri)
            complete = len(found) <= MAX_ENTRIES
            found = found[:MAX_ENTRIES]
            inside = tuple(each for each in found if each.mime_type == DIRECTORY)
            directory = Directory(_tree_of(uri, found), complete, directories=inside)
        except MCPError as error:
            directory = Directory(ResourceTree(), reason=printable(str(error)))
        finally:
            mine = self._reading.get(key) is task
            if mine:
                del self._reading[key]
        if mine:  # no change has been reported meanwhile
            self._read[key] = directory
            self.version += 1
            while len(self._read) > MAX_KEPT:
                self._read.popitem(last=False)

    async def _entries(self, server: str, uri: str) -> Sequence[Resource]:
        found: list[Resource] = []
        provider = self._host.server(server).provider
        if provider is None or not provider.offers("list_directory"):
            return await self._read_entries(server, uri)
        cursor = None
        while len(found) <= MAX_ENTRIES:
            page = await provider.list_directory(uri, Request(cursor=cursor, limit=PAGE))
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def _read_entries(self, server: str, uri: str) -> Sequence[Resource]:
        """Return the entries in the text of a directory, as sources of Carrel write it.

        Raises:
            ResourceNotFound: the text has no entries.
        """
        part = next(iter((await self._host.read_resource(server, uri)).contents), None)
        found = entries_in(part.text) if isinstance(part, TextResourceContents) else None
        if found is None:
            raise ResourceNotFound(uri, "The server does not say what is in this directory")
        return found


def _may_have(directory: str, uri: str) -> bool:
    """Return whether a resource may be below a directory: their URIs have the same segments, or all but one, such as
    ``tree`` of a directory and ``file`` of its entries. The last segment of the directory must be the same.
    """
    own, parts = segments(directory), segments(uri)
    if len(own) >= len(parts) or own[-1] != parts[len(own) - 1]:
        return False
    return sum(one != other for one, other in zip(own, parts, strict=False)) <= 1


def entries_in(text: str) -> Sequence[Resource] | None:
    """Return the entries in the text of a directory, or None if it is another text."""
    try:
        return msgspec.json.decode(text.encode(), type=list[Resource])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _tree_of(directory: str, entries: Iterable[Resource]) -> ResourceTree:
    """Return the entries of a directory as a tree."""
    tree = ResourceTree()
    for entry in entries:
        parts = _inside(directory, entry.uri)
        if parts:
            tree.put(parts, entry)
    return tree


def _inside(directory: str, uri: str) -> list[str]:
    """Return the segments of a URI below a directory, or the whole URI if it is elsewhere. Empty for the directory."""
    own, parts = segments(directory), segments(uri)
    return parts[len(own) :] if parts[: len(own)] == own else [uri]
