"""Lists: the entries of all servers, kept until they change, and windows of them, filtered and sorted."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from carrel.errors import MCPError
from carrel.host.filters import ItemFilter
from carrel.host.host import Host
from carrel.host.hosted_server import HostedServer
from carrel.host.resource_tree import ResourceTree
from carrel.host.selection import Hosted, Order
from carrel.log import Log
from carrel.protocol.methods import ItemKind as HostItemKind
from carrel.studio.api import ItemKind
from carrel.studio.directories import Directories
from carrel.studio.entries import Entries, ServerList, merged
from carrel.studio.rows import key_of
from carrel.wire.resources import Resource
from carrel.wire.skills import Skill

__all__ = ["READING", "ListFailure", "ListQuery", "Lists", "ServerTree"]

log = Log("carrel.studio")

T = TypeVar("T")
#: Number of filtered and sorted lists, and of trees, that are kept.
KEPT = 8
#: Number of entries from which a list is filtered and sorted in a thread.
MANY = 2000
#: Seconds that a window waits for the list of a server. A slower list is added when it is read.
SOON = 2.0
#: Reason of a list that is still being read.
READING = "reading"
#: Lists of each kind of change.
KINDS_OF: dict[str, tuple[ItemKind, ...]] = {
    "resources": ("resource", "template", "skill"),
    "tools": ("tool",),
    "prompts": ("prompt",),
}


class ListQuery(NamedTuple):
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
    """Entries of the servers of a host. ``on_late`` gets the server and the kind of a list that was read slowly."""

    def __init__(self, host: Host, on_late: Callable[[str, ItemKind], None] = lambda server, kind: None) -> None:
        self._host = host
        self._on_late = on_late
        self.directories = Directories(host, lambda server: on_late(server, "resource"))
        """Directories that were opened in the tree."""
        self._versions: Counter[ItemKind] = Counter()
        self._read: dict[tuple[str, ItemKind], ServerList | ListFailure] = {}
        self._reading: dict[tuple[str, ItemKind], asyncio.Task[ServerList | ListFailure]] = {}
        self._late: set[tuple[str, ItemKind]] = set()
        self._made: OrderedDict[Any, asyncio.Future[Any]] = OrderedDict()
        self._filtered: OrderedDict[Any, Sequence[Hosted[Any]]] = OrderedDict()
        self._ahead: asyncio.Future[Entries] | None = None

    def forget(self, server: str, kinds: Iterable[ItemKind]) -> None:
        """Forget lists of a server, which have changed."""
        for kind in kinds:
            self._versions[kind] += 1
            self._read.pop((server, kind), None)
            self._reading.pop((server, kind), None)
            if kind == "resource":
                self.directories.forget(server)

    def count(self, server: str, kind: ItemKind) -> int | None:
        """Return the length of a list, or None if it has not been read."""
        known = self._read.get((server, kind))
        return None if known is None or isinstance(known, ListFailure) else len(known.items)

    async def of(self, server: HostedServer, kind: ItemKind) -> Sequence[Any] | ListFailure:
        """Return a list of a server, or why it cannot be read."""
        found = await self._list(server, kind)
        return found if isinstance(found, ListFailure) else found.items

    async def _list(self, server: HostedServer, kind: ItemKind) -> ServerList | ListFailure:
        key = server.name, kind
        known = self._read.get(key)
        if known is not None:
            return known
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.ensure_future(self._fetch(server, kind))
        return await asyncio.shield(reading)

    async def _lists(self, servers: Sequence[HostedServer], kind: ItemKind) -> list[ServerList | ListFailure]:
        """Return the lists of servers. Do not wait for lists that take long: these are reported when they are read."""
        found = [asyncio.ensure_future(self._list(server, kind)) for server in servers]
        quick = [task for server, task in zip(servers, found, strict=True) if (server.name, kind) not in self._late]
        try:
            if quick:
                await asyncio.wait(quick, timeout=SOON)
            lists: list[ServerList | ListFailure] = []
            for server, task in zip(servers, found, strict=True):
                if not task.done():
                    self._late.add((server.name, kind))
                lists.append(task.result() if task.done() else ListFailure(READING))
            return lists
        finally:
            for task in found:
                task.cancel()

    async def _fetch(self, server: HostedServer, kind: ItemKind) -> ServerList | ListFailure:
        key, task = (server.name, kind), asyncio.current_task()
        wire_kind: HostItemKind = kind
        try:
            if server.state in ("connecting", "idle", "disabled", "closed"):
                return ListFailure(server.state)  # not kept: the state will be another
            items = await server.items(wire_kind)
            found: ServerList | ListFailure = ServerList(
                server.name, list(map(_file_of, items)) if kind == "skill" else items
            )
        except MCPError as error:
            found = ListFailure(str(error))
        finally:
            mine = self._reading.get(key) is task
            if mine:
                del self._reading[key]
            if key in self._late:
                self._late.discard(key)
                self._versions[kind] += 1
                self._on_late(*key)
        if mine:  # no change has been reported meanwhile
            self._read[key] = found
        return found

    async def find(self, query: ListQuery) -> Sequence[Hosted[Any]]:
        """Return the entries that match a query, sorted. Cancel the task to stop filtering a long list."""
        entries = await self._entries(query)
        written = ItemFilter(query.q)
        if not written:
            return entries.hosted
        key = self._versions[query.kind], query
        found = self._filtered.get(key)
        if found is None:
            found = self._filtered[key] = await entries.select(written)
            while len(self._filtered) > KEPT:
                self._filtered.popitem(last=False)
        return found

    async def _entries(self, query: ListQuery) -> Entries:
        """Return the entries of a query without its filter."""
        kind = query.kind

        async def make() -> Entries:
            parts = await self._lists(self._servers(query.server), kind)
            lists = [part for part in parts if isinstance(part, ServerList)]
            return await self._make(lambda: merged(lists, query.sort), sum(len(part.items) for part in lists))

        entries: Entries = await self._kept(kind, ("entries", query._replace(q="")), make)
        return entries

    async def item(self, kind: ItemKind, server: str, key: str) -> Any:
        """Return an entry of a server, or None if it has no such entry."""
        found = await self.listed(kind, server, key)
        return self.directories.item(server, key) if found is None and kind == "resource" else found

    async def listed(self, kind: ItemKind, server: str, key: str) -> Any:
        """Return an entry of the list of a server, or None."""
        entries = await self.of(self._host.server(server), kind)
        if isinstance(entries, ListFailure):
            return None
        index: dict[str, Any] = await self._kept(kind, ("index", server), lambda: self._index(kind, entries))
        return index.get(key)

    async def find_directory(self, server: str, uri: str) -> None:
        """Read directories of a server until one has a resource that is not in its list."""
        found = await self._list(self._host.server(server), "resource")
        if isinstance(found, ServerList) and await self.listed("resource", server, uri) is None:
            await self.directories.find_owner(server, uri, found.items)

    async def _index(self, kind: ItemKind, entries: Sequence[Any]) -> dict[str, Any]:
        return await self._make(lambda: {key_of(kind, item): item for item in entries}, len(entries))

    async def trees(self, q: str) -> Sequence[ServerTree]:
        """Return the resources of each server that match a filter as a tree."""
        found: Sequence[ServerTree] = await self._kept("resource", ("trees", q), lambda: self._trees(q))
        return found

    async def _trees(self, q: str) -> Sequence[ServerTree]:
        servers = self._servers(None)
        parts = await self._lists(servers, "resource")
        items: dict[str, Sequence[Resource]] = {}
        reasons: list[str | None] = []
        for server, part in zip(servers, parts, strict=True):
            items[server.name] = part.items if isinstance(part, ServerList) else ()
            reasons.append(part.reason if isinstance(part, ListFailure) else None)
        if q.strip():
            found: dict[str, list[Resource]] = {}
            for entry in await self.find(ListQuery("resource", q)):
                found.setdefault(entry.server, []).append(entry.item)
            items = {name: found.get(name, ()) for name in items}

        def make() -> Sequence[ServerTree]:
            made = []
            for (name, resources), reason in zip(items.items(), reasons, strict=True):
                if resources or not q.strip():
                    tree = ResourceTree()
                    for resource in resources:
                        tree.add(resource)
                    made.append(ServerTree(name, tree, len(resources), reason))
            return made

        size = sum(map(len, items.values()))
        trees = await self._make(make, size)
        if size >= MANY:  # sort it in the background, before a page shows or filters it
            self._ahead = asyncio.ensure_future(self._entries(ListQuery("resource", sort="name")))
        return trees

    async def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return a value that is computed from the lists of resources, and cache it until one of them changes."""

        async def made() -> Any:
            return make()

        return await self._kept("resource", key, made)

    def _servers(self, name: str | None) -> list[HostedServer]:
        return list(self._host.servers.values()) if name is None else [self._host.server(name)]

    async def _kept(self, kind: ItemKind, key: Any, make: Callable[[], Any]) -> Any:
        """Return a value from the cache, or make it. The version of the lists of this kind is part of the key."""
        key = (kind, self._versions[kind], key)
        future = self._made.get(key)
        if future is None:
            future = self._made[key] = asyncio.ensure_future(make())
            while len(self._made) > KEPT * 2:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        try:
            return await asyncio.shield(future)
        except BaseException:
            if future.done():
                self._made.pop(key, None)
            raise

    @staticmethod
    async def _make(make: Callable[[], T], size: int) -> T:
        return make() if size < MANY else await asyncio.to_thread(make)


def _file_of(skill: Skill) -> Resource:
    """Return the file that makes a skill, which is searched and sorted as other resources are."""
    name, description = skill.frontmatter.get("name"), skill.frontmatter.get("description")
    return Resource(uri=skill.uri, name=str(name or skill.uri), description=str(description or "") or None)
