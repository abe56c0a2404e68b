"""Lists: the entries of all servers, kept until they change, and windows of them, filtered and sorted."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from carrel.errors import MCPError
from carrel.host.filters import ItemFilter, text_of
from carrel.host.host import Host
from carrel.host.hosted_server import HostedServer
from carrel.host.resource_tree import ResourceTree
from carrel.host.selection import Hosted, Order, select
from carrel.log import Log
from carrel.protocol.methods import ItemKind as HostItemKind
from carrel.studio.api import ItemKind
from carrel.studio.directories import Directories
from carrel.studio.rows import key_of
from carrel.wire.resources import Resource
from carrel.wire.skills import Skill

__all__ = ["ListFailure", "Lists", "Query", "ServerTree"]

log = Log("carrel.studio")

T = TypeVar("T")
#: Number of filtered and sorted lists, and of trees, that are kept.
KEPT = 8
#: Number of entries from which a list is filtered and sorted in a thread.
MANY = 2000
#: Lists of each kind of change.
KINDS_OF: dict[str, tuple[ItemKind, ...]] = {
    "resources": ("resource", "template", "skill"),
    "tools": ("tool",),
    "prompts": ("prompt",),
}


class Query(NamedTuple):
    """Which entries, in which order. Without ``server``, the entries of all servers."""

    kind: ItemKind
    q: str = ""
    sort: Order | None = None
    server: str | None = None


class ListFailure(NamedTuple):
    """Why the list of a server could not be read."""

    reason: str


class ServerTree(NamedTuple):
    """Resources of a server as a tree, and their number. ``reason`` says why they cannot be listed."""

    server: str
    tree: ResourceTree
    size: int
    reason: str | None


class Lists:
    """Entries of the servers of a host. ``on_late`` gets the server of a directory that was read slowly."""

    def __init__(self, host: Host, on_late: Callable[[str], None] = lambda server: None) -> None:
        self._host = host
        self.directories = Directories(host, on_late)
        """Directories that were opened in the tree."""
        self._version = 0
        self._read: dict[tuple[str, ItemKind], Sequence[Any] | ListFailure] = {}
        self._reading: dict[tuple[str, ItemKind], asyncio.Task[Sequence[Any] | ListFailure]] = {}
        self._found: OrderedDict[Any, asyncio.Future[Any]] = OrderedDict()

    def forget(self, server: str, kinds: Iterable[ItemKind]) -> None:
        """Forget lists of a server, which have changed."""
        self._version += 1
        for kind in kinds:
            self._read.pop((server, kind), None)
            self._reading.pop((server, kind), None)
            if kind == "resource":
                self.directories.forget(server)

    def count(self, server: str, kind: ItemKind) -> int | None:
        """Return the length of a list, or None if it has not been read."""
        known = self._read.get((server, kind))
        return None if known is None or isinstance(known, ListFailure) else len(known)

    async def of(self, server: HostedServer, kind: ItemKind) -> Sequence[Any] | ListFailure:
        """Return a list of a server, or why it cannot be read."""
        key = server.name, kind
        known = self._read.get(key)
        if known is not None:
            return known
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.ensure_future(self._fetch(server, kind))
        return await asyncio.shield(reading)

    async def _fetch(self, server: HostedServer, kind: ItemKind) -> Sequence[Any] | ListFailure:
        key, task = (server.name, kind), asyncio.current_task()
        wire_kind: HostItemKind = kind
        try:
            if server.state in ("connecting", "idle", "disabled", "closed"):
                return ListFailure(server.state)  # not kept: the state will be another
            found: Sequence[Any] | ListFailure = await server.items(wire_kind)
            if kind == "skill":
                found = list(map(_file_of, found))
        except MCPError as error:
            found = ListFailure(str(error))
        finally:
            mine = self._reading.get(key) is task
            if mine:
                del self._reading[key]
        if mine:  # no change has been reported meanwhile
            self._read[key] = found
        return found

    async def find(self, query: Query) -> Sequence[Hosted[Any]]:
        """Return the entries that match a query, sorted."""
        found: Sequence[Hosted[Any]] = await self._kept(("find", query), lambda: self._find(query))
        return found

    async def _find(self, query: Query) -> Sequence[Hosted[Any]]:
        servers = self._servers(query.server)
        parts = await asyncio.gather(*(self.of(server, query.kind) for server in servers))
        pairs = [
            (server.name, part)
            for server, part in zip(servers, parts, strict=True)
            if not isinstance(part, ListFailure)
        ]

        select_from = await self._selector(query.q, query.kind, dict(pairs))

        def make() -> Sequence[Hosted[Any]]:
            entries = [Hosted(name, item) for name, items in pairs for item in select_from(name, items)]
            return entries if query.sort is None else select(entries, {"sort": query.sort})

        return await self._make(make, sum(len(part) for _, part in pairs))

    async def item(self, kind: ItemKind, server: str, key: str) -> Any:
        """Return an entry of a server, or None if it has no such entry."""
        entries = await self.of(self._host.server(server), kind)
        if isinstance(entries, ListFailure):
            return None
        index: dict[str, Any] = await self._kept(("index", kind, server), lambda: self._index(kind, entries))
        found = index.get(key)
        return self.directories.item(server, key) if found is None and kind == "resource" else found

    async def _index(self, kind: ItemKind, entries: Sequence[Any]) -> dict[str, Any]:
        return await self._make(lambda: {key_of(kind, item): item for item in entries}, len(entries))

    async def trees(self, q: str) -> Sequence[ServerTree]:
        """Return the resources of each server that match a filter as a tree."""
        found: Sequence[ServerTree] = await self._kept(("trees", q), lambda: self._trees(q))
        return found

    async def _trees(self, q: str) -> Sequence[ServerTree]:
        servers = self._servers(None)
        parts = await asyncio.gather(*(self.of(server, "resource") for server in servers))
        pairs = {
            server.name: () if isinstance(part, ListFailure) else part
            for server, part in zip(servers, parts, strict=True)
        }
        select_from = await self._selector(q, "resource", pairs)

        def make() -> Sequence[ServerTree]:
            made = []
            for (name, items), part in zip(pairs.items(), parts, strict=True):
                tree = ResourceTree()
                found = select_from(name, items)
                for item in found:
                    tree.add(item)
                if found or not q.strip():
                    reason = part.reason if isinstance(part, ListFailure) else None
                    made.append(ServerTree(name, tree, len(found), reason))
            return made

        return await self._make(make, sum(map(len, pairs.values())))

    async def _selector(
        self, q: str, kind: ItemKind, lists: Mapping[str, Sequence[Any]]
    ) -> Callable[[str, Sequence[Any]], Sequence[Any]]:
        """Return a function that selects the entries of a server that match a filter.

        The texts in which words are looked for are kept: a user who types looks for words again and again.
        """
        written = ItemFilter(q)
        if not written:
            return lambda _, items: items
        fields = written.fields
        words = [term.value.casefold() for term in written.terms if term.field is None and not term.negated]
        texts: dict[str, list[str]] = {}
        if words:
            key = ("texts", kind, tuple(lists))
            size = sum(map(len, lists.values()))
            texts = await self._kept(key, lambda: self._make(lambda: _texts(lists), size))

        def selected(server: str, items: Sequence[Any]) -> Sequence[Any]:
            found = items
            if words:
                pairs = zip(items, texts[server], strict=True)
                found = [item for item, text in pairs if all(word in text for word in words)]
            return fields.select(server, found) if fields else found

        return selected

    async def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return a value that is made of the lists, kept until a list changes."""

        async def made() -> Any:
            return make()

        return await self._kept(key, made)

    def _servers(self, name: str | None) -> list[HostedServer]:
        return list(self._host.servers.values()) if name is None else [self._host.server(name)]

    async def _kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return a value from the cache, or make it. The lists' version is part of the key."""
        key = (self._version, key)
        future = self._found.get(key)
        if future is None:
            future = self._found[key] = asyncio.ensure_future(make())
            while len(self._found) > KEPT * 2:
                self._found.popitem(last=False)
        self._found.move_to_end(key)
        try:
            return await asyncio.shield(future)
        except BaseException:
            if future.done():
                self._found.pop(key, None)
            raise

    @staticmethod
    async def _make(make: Callable[[], T], size: int) -> T:
        return make() if size < MANY else await asyncio.to_thread(make)


def _file_of(skill: Skill) -> Resource:
    """Return the file that makes a skill, which is searched and sorted as other resources are."""
    name, description = skill.frontmatter.get("name"), skill.frontmatter.get("description")
    return Resource(uri=skill.uri, name=str(name or skill.uri), description=str(description or "") or None)


def _texts(lists: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    return {server: list(map(text_of, items)) for server, items in lists.items()}
