"""Logs as resources: files with their rotations, and the journal, under ``logs:`` URIs.

``rotation`` says which files are one log; ``part`` reads the entries of a file, the newest first; ``formats`` parse
lines, ``entries`` group lines into entries; ``page`` merges and renders them; ``follow`` reports new entries.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import aclosing

from msgspec import Raw

from carrel.catalog.paging import page_of
from carrel.catalog.provider import Change, Interest, Page, Provider, Request
from carrel.errors import ConfigError, InvalidParams, MCPError
from carrel.log import Log
from carrel.sources.base import ReaderSource
from carrel.sources.logs.follow import coalesced, follow
from carrel.sources.logs.location import LogFolder, LogLocation
from carrel.sources.logs.options import LogsOptions
from carrel.sources.logs.reader import RECENT, SCHEME, STATISTICS, LogsReader, uri_of
from carrel.sources.logs.tool import SEARCH_LOGS, search_logs
from carrel.sources.workers import Workers
from carrel.wire.resources import TextResourceContents
from carrel.wire.tools import CallToolResult, Tool

__all__ = ["LogsSource"]

log = Log("carrel.sources")


class LogsSource(ReaderSource[LogsReader]):
    """Provider of the logs that a URL names: ``logs:/var/log/app/*.log``, ``logs:/var/log/app``, ``logs:journal``.

    ``join`` adds the logs of another source that has not been started, so that ``logs://recent`` contains both.

    Raises:
        ConfigError: an option is not valid, or a package or journalctl is missing.
    """

    options = LogsOptions
    name = "logs"
    naming = "add all logs before the server starts, as one provider then; or give this one a namespace"
    prompt_names = frozenset[str]()

    def __init__(self, target: str, options: LogsOptions = LogsOptions()) -> None:  # noqa: B008
        path = target[len("logs:") :] if target.lower().startswith("logs:") else target
        path = path.removeprefix("//")
        if not path:
            raise ConfigError("logs: needs a path with patterns, a folder or journal: logs:/var/log/app/*.log")
        super().__init__(LogsReader(options), Workers(self, "carrel-logs", options.threads, options.threads_per_client))
        self._reader.add(location_of(path, options), self._reader)
        self._search_tool = options.search_tool
        self._describe()

    def _describe(self) -> None:
        locations = list(self._reader.locations)
        self.prefixes = (RECENT, STATISTICS, *(SCHEME + location for location in locations))
        self.tool_names = frozenset([SEARCH_LOGS.name] if self._search_tool else [])

    def __repr__(self) -> str:
        return f"LogsSource({', '.join(self._reader.locations)})"

    def join(self, other: Provider) -> bool:
        """Share the logs of another such source too, with its options for how they are read."""
        if not isinstance(other, LogsSource):
            return False
        for location in other._reader.locations.values():
            self._reader.add(location, other._reader)
        self._search_tool |= other._search_tool
        self._describe()
        return True

    def _seen(self, request: Request) -> LogsReader:
        return self._reader.seen_by(request.visible)

    # Tools

    def list_tools(self, request: Request) -> Page[Tool]:
        """Return the tool search_logs, if it is switched on."""
        return page_of([SEARCH_LOGS] if self._search_tool else [], request, lambda tool: tool.name)

    async def call_tool(self, name: str, arguments: Raw, request: Request) -> CallToolResult:
        """Search logs, as their resources do."""
        if not self._search_tool or name != SEARCH_LOGS.name:
            raise InvalidParams(f"Invalid params: unknown tool: {name[:200]}", parameter="name")

        async def read(uri: str) -> TextResourceContents:
            return await self._run(request, lambda reader: reader.read_resource(uri))

        return await search_logs(arguments, read)

    # Changes

    def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Return the changes of logs, of subscribed URIs with a query, and of recent entries."""
        self._workers.check()
        locations = self._reader.locations.items()
        joined = self._watches.join(*(self._changes(name, location, interest) for name, location in locations))
        return coalesced(joined, self._reader.options.notify_every)

    async def _changes(
        self, name: str, location: LogLocation, interest: Interest
    ) -> AsyncGenerator[Collection[Change], None]:
        """Yield the changes of a location; nothing if it cannot be followed."""

        async def look(location: LogLocation) -> Collection[str]:
            return await self._workers.run("", location.logs)

        try:
            async with aclosing(follow(location, look)) as batches:
                async for batch in batches:
                    yield changes_of(name, batch, interest.uris)
        except (MCPError, OSError) as error:
            log.warning("logs://%s is not followed: %s", name, error)
        yield ()
        await asyncio.Event().wait()


def changes_of(location: str, changes: Mapping[str, str], interest: Collection[str]) -> list[Change]:
    """Return changes of logs, and the changes of the resources that contain their entries."""
    found = {uri: kind for path, kind in changes.items() if (uri := uri_of(location, path)) is not None}
    if not found:
        return []
    touched = {RECENT, STATISTICS, *found}
    if set(changes.values()) - {"changed"}:
        touched.add(SCHEME + location)
    found |= dict.fromkeys((RECENT, STATISTICS), "changed")
    for uri in interest:
        base, query, _ = uri.partition("?")
        if base in touched or (query and base == SCHEME + location):
            found.setdefault(uri, "changed")
    return [Change(kind, uri) for uri, kind in found.items()]  # type: ignore[arg-type]


def location_of(path: str, options: LogsOptions) -> LogLocation:
    """Return the location that the rest of a URL names."""
    if path == "journal":
        from carrel.sources.logs.journal import Journal

        return Journal(options)
    return LogFolder(path, options)
