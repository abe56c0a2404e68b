"""Contexts of a host: a search index over its servers, in a temporary folder, made when it is first used.

The index reads resources with the credentials of the host, and is only for this host: private results stay private. It
is deleted when the host is closed. It also calls the search tools of servers, which may have more than they list.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from carrel.awaitables import resolved
from carrel.catalog.provider import Interest, Provider, ReportedEvents, Request
from carrel.context.index import ContextIndex, Packing
from carrel.errors import MCPError
from carrel.host.catalog import HostCatalog
from carrel.host.hosted_server import HostedServer
from carrel.host.remote import RemoteProvider
from carrel.log import Log
from carrel.search.index import MAX_LIMIT
from carrel.search.options import SearchOptions
from carrel.search.results import PassageResults, SearchHit, SearchPassage
from carrel.uri.parse import normal_form
from carrel.wire.resources import TextResourceContents, decoded

__all__ = ["HostContexts"]

log = Log("carrel.host")

#: Name of the search tool of Carrel's servers, and the hits that are wanted.
SEARCH, HITS = "search", 10
#: Seconds that a search tool may take.
PATIENCE = 3.0


class HostContexts:
    """Index for the contexts of a host. ``catalog`` has the servers."""

    def __init__(self, catalog: HostCatalog) -> None:
        self._catalog = catalog
        self._opening = asyncio.Lock()
        self._index: HostIndex | None = None
        self._folder = ""

    async def index_of(
        self, connecting: Mapping[HostedServer, asyncio.Task[None]], wait: float | None, idle: float | None
    ) -> ContextIndex:
        """Return the index, after the servers that are connecting. See ``Host.index`` for the times.

        Raises:
            ConfigError: tantivy is not installed.
        """
        now = asyncio.get_running_loop().time()
        end = None if wait is None else now + wait
        if connecting:
            ends = [] if end is None else [end]
            if idle is not None:
                ends.append(max(server.opened_at or now for server in connecting) + idle)
            await asyncio.wait(connecting.values(), timeout=max(0.0, min(ends) - now) if ends else None)
        index = await self.index()
        try:
            async with asyncio.timeout_at(end):
                await (index.ready() if idle is None else index.ready_or_idle(idle))
        except TimeoutError:
            log.info("the index is used before all resources are indexed")
        return index

    async def index(self) -> ContextIndex:
        """Return the index, which has begun to index in the background.

        Raises:
            ConfigError: tantivy is not installed.
        """
        async with self._opening:
            if self._index is None:
                self._folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="carrel-context-")
                index = HostIndex(self._catalog, SearchOptions(folder=self._folder))
                try:
                    await index.start()
                except BaseException:
                    await self.close()
                    raise
                await self._catalog.start(ReportedEvents(index.on_changes))
                self._index = index
            return self._index

    async def close(self) -> None:
        """Stop the index, and delete it."""
        index, self._index = self._index, None
        if index is not None:
            await index.stop()
        folder, self._folder = self._folder, ""
        if folder:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


class HostIndex(ContextIndex):
    """Index over the servers of a host, which also asks their search tools.

    It subscribes to the resources of packs that are watched.
    """

    def __init__(self, catalog: HostCatalog, options: SearchOptions) -> None:
        super().__init__(catalog, options, key=lambda: "host", label="host")
        self._servers = catalog
        self._followed: dict[Packing, Collection[str]] = {}
        self._interest = Interest()
        self._watching: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Stop, and end the subscriptions."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await super().stop()

    def follow(self, packing: Packing, uris: Collection[str]) -> None:
        """Subscribe to the resources of a pack, instead of its resources before; without any, to none."""
        self._followed.pop(packing, None)
        if uris:
            self._followed[packing] = uris
        self._interest.uris = {normal_form(uri) for each in self._followed.values() for uri in each}
        self._interest.notify()
        if self._watching is None and uris:
            self._watching = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        async for changes in self._servers.watch(self._interest):
            # The first batch is empty: the servers are watched from now on, and something may have changed before.
            self.on_changes(changes, {} if changes else {"resources_list_changed": None})

    async def found(self, question: str, limit: int, request: Request) -> PassageResults:
        """Return the passages in the index, and passages that the search tools of servers find elsewhere."""
        own, others = await asyncio.gather(super().found(question, limit, request), self._asked(question))
        known = {(passage.source, passage.resource.uri) for passage in own.passages}
        more = [each for each in others if (each.source, each.resource.uri) not in known]
        passages = sorted([*own.passages, *more], key=lambda each: -each.score)[:MAX_LIMIT]
        return msgspec.structs.replace(own, passages=passages)

    async def _asked(self, question: str) -> list[SearchPassage]:
        servers = [each for each in self.catalog.providers if isinstance(each, RemoteProvider)]
        found = await asyncio.gather(*(_ask(server, question) for server in servers))
        return [passage for passages in found for passage in passages]


async def _ask(server: RemoteProvider, question: str) -> list[SearchPassage]:
    """Return the passages that the search tool of a server finds; none if it has no such tool."""
    if SEARCH not in server.tool_names:
        return []
    try:
        async with asyncio.timeout(PATIENCE):
            result = await server.client.call_tool(SEARCH, {"query": question, "limit": HITS})
            found = result.structured_content
            hits = msgspec.convert(found.get("hits") if isinstance(found, dict) else (), list[SearchHit])
            read = await asyncio.gather(*(_passage(server, hit) for hit in hits[:HITS]))
    except (TimeoutError, MCPError, msgspec.ValidationError) as error:
        log.debug("the search tool of %s is not used: %s", server.name, error)
        return []
    return [passage for passage in read if passage is not None]


async def _passage(server: Provider, hit: SearchHit) -> SearchPassage | None:
    """Return the passage of a hit, read from the server, or None if there are no lines to read."""
    if hit.first_line is None or hit.last_line is None:
        return None
    try:
        result: Any = await resolved(server.read_resource(hit.link, Request()))
    except MCPError as error:
        log.debug("%s cannot be read: %s", hit.link, error)
        return None
    text = "\n".join(each.text for each in decoded(result).contents if isinstance(each, TextResourceContents))
    if hit.link == hit.resource.uri:
        text = "\n".join(text.split("\n")[hit.first_line - 1 : hit.last_line])
    return SearchPassage(
        resource=hit.resource,
        source=server.name,
        link=hit.link,
        score=hit.score,
        first_line=hit.first_line,
        last_line=hit.last_line,
        text=text,
    )
