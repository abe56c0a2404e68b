"""Live: passes changes of the host on to the page: servers, lists, and resources that the page shows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from contextlib import aclosing

from carrel.catalog.provider import Interest
from carrel.errors import MCPError
from carrel.host.changes import HostChanges
from carrel.host.host import Host
from carrel.host.remote import RemoteProvider
from carrel.log import Log
from carrel.studio.api import Key
from carrel.studio.contents import ContentReader
from carrel.studio.events import PAUSE, PageEvents
from carrel.studio.lists import KINDS_OF, Lists
from carrel.studio.servers import Servers
from carrel.uri.parse import normal_form

__all__ = ["Live", "Watched"]

log = Log("carrel.studio")

#: Resources of interest whose changes are followed, and reads of changed ones at a time.
MAX_KEYS, AT_ONCE = 500, 8


class Watched:
    """Resources whose changes servers report: the subscribed resources of connected servers."""

    def __init__(self) -> None:
        self.interests: dict[str, Interest] = {}
        """URIs to subscribe to, by server."""
        self.subscribed: set[str] = set()
        """Servers whose subscription has been started."""

    def __contains__(self, key: object) -> bool:
        server, uri = key if isinstance(key, tuple) else ("", "")
        return server in self.subscribed and normal_form(uri) in self.interests[server].uris


class Live:
    """Follows the changes of a host. Use it as an async context manager."""

    def __init__(
        self, host: Host, servers: Servers, lists: Lists, contents: ContentReader, watched: Watched, events: PageEvents
    ) -> None:
        self._host = host
        self._servers = servers
        self._lists = lists
        self._contents = contents
        self.watched = watched
        """Resources whose changes servers report."""
        self._events = events
        self._keys: dict[tuple[str, str], Key] = {}
        self._following: dict[str, tuple[RemoteProvider, asyncio.Task[None]]] = {}
        self._hashes: dict[Key, str] = {}
        self._dirty: dict[Key, None] = {}
        self._ready: dict[str, bool | None] = {}
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.changes = Counter[str]()
        """Number of changes of resources and their lists so far, by server."""

    async def __aenter__(self) -> Live:
        changes = self._host.watch()
        self._tasks = [asyncio.ensure_future(self._follow_host(changes)), asyncio.ensure_future(self._refresh())]
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._tasks, *(task for _, task in self._following.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def interest(self, keys: Collection[Key]) -> None:
        """Set the resources that the page shows. Their changes are reported from now on."""
        self._keys = {(key.server, normal_form(key.uri)): key for key in list(keys)[:MAX_KEYS]}
        self._hashes = {key: hash for key, hash in self._hashes.items() if key in self._keys.values()}
        for name in {*self.watched.interests, *(server for server, _ in self._keys)}:
            uris = tuple(uri for server, uri in self._keys if server == name)
            interest = self.watched.interests.setdefault(name, Interest())
            if set(interest.uris) != set(uris):
                interest.uris = uris
                interest.notify()
            self._watch(name)

    def _watch(self, name: str) -> None:
        """Follow changes of a server's resources, unless this has begun already."""
        server = self._host.servers.get(name)
        interest = self.watched.interests.get(name)
        following = self._following.get(name)
        provider = None if server is None or server.state != "ready" else server.provider
        if following is not None and (following[0] is not provider or following[1].done()):
            following[1].cancel()
            del self._following[name]
            self.watched.subscribed.discard(name)
            following = None
        if provider is not None and interest is not None and interest.uris and following is None:
            self._following[name] = provider, asyncio.ensure_future(self._follow_resources(name, provider, interest))

    async def _follow_resources(self, name: str, provider: RemoteProvider, interest: Interest) -> None:
        resources = getattr(provider.client.capabilities, "resources", None)
        try:
            async with aclosing(provider.watch(interest)) as batches:  # type: ignore[type-var]
                async for batch in batches:
                    if getattr(resources, "subscribe", False) and name not in self.watched.subscribed:
                        self._spoil_all(name)  # resources may have changed between their read and the subscription
                        self.watched.subscribed.add(name)
                    for change in batch:
                        self._spoil(name, change.uri)
        except MCPError as error:
            log.warning("changes of the resources of %s are not known: %s", name, error)
        finally:
            self.watched.subscribed.discard(name)

    def _spoil(self, name: str, uri: str) -> None:
        inside = uri.rstrip("/") + "/"
        for (server, own), key in self._keys.items():
            if server == name and (own == uri or uri.startswith(own.rstrip("/") + "/") or own.startswith(inside)):
                self._contents.versions.spoil(name, key.uri)
                self._dirty[key] = None
                self._news.set()

    async def _follow_host(self, changes: HostChanges) -> None:
        async for change in changes:
            if change.kind in KINDS_OF:
                if change.kind == "resources":
                    self.changes[change.server] += 1
                self._lists.forget(change.server, KINDS_OF[change.kind])
                for kind in KINDS_OF[change.kind]:
                    self._events.put(type="list", server=change.server, kind=kind)
                self._servers.recount(change.server)
                self._spoil_all(change.server)
            elif change.kind != "problems":
                self._note_state(change.server)

    def _note_state(self, name: str) -> None:
        """Report the state of a server. Its lists are others only if it has become ready, or is no longer."""
        server = self._host.servers.get(name)
        state = None if server is None else server.state == "ready"
        if state != self._ready.get(name, False):
            self._ready[name] = state
            kinds = [kind for each in KINDS_OF.values() for kind in each]
            self._lists.forget(name, kinds)
            for kind in kinds:
                self._events.put(type="list", server=name, kind=kind)
        self._servers.changed(name)
        self._watch(name)

    def _spoil_all(self, name: str) -> None:
        """Read the resources of interest again, if the server does not report changes of single resources."""
        if name not in self.watched.subscribed:
            self._contents.versions.spoil(name)
            for (server, _), key in self._keys.items():
                if server == name:
                    self._dirty[key] = None
                    self._news.set()

    async def _refresh(self) -> None:
        """Read resources that may have changed again, and report new versions."""
        while True:
            await self._news.wait()
            self._news.clear()
            keys, self._dirty = list(self._dirty), {}
            for at in range(0, len(keys), AT_ONCE):
                await asyncio.gather(*map(self._compare, keys[at : at + AT_ONCE]))
            await asyncio.sleep(PAUSE)

    async def _compare(self, key: Key) -> None:
        before = self._contents.versions.get(key.server, key.uri)
        known = self._hashes.get(key) if before is None else before.current.hash
        try:
            version = (await self._contents.read(key.server, key.uri, again=True)).current.hash
        except MCPError as error:
            log.debug("a changed resource cannot be read: %s", error)
            version = ""
        self._hashes[key] = version
        if known is not None and version != known:  # else it is read for the first time
            self.changes[key.server] += 1
            self._events.put(type="resource", key=key, version=version)
