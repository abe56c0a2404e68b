"""Reader of logs: lists, entries by time, level and pattern, statistics, completion and search by name. It blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import tzinfo
from functools import partial
from math import inf
from time import time
from typing import Any, NamedTuple

import msgspec

from carrel.catalog.paging import decode_cursor, encode_cursor
from carrel.catalog.provider import Hit, Page, Visible
from carrel.errors import InvalidCursor, InvalidParams, ResourceNotFound
from carrel.media_types import DIRECTORY
from carrel.sources.base import PartialVariable
from carrel.sources.content.directory import directory_contents
from carrel.sources.content.words import words_of
from carrel.sources.folder.describe import annotate, display
from carrel.sources.folder.position import Parts
from carrel.sources.logs.budget import ReadBudget
from carrel.sources.logs.levels import LEVELS
from carrel.sources.logs.location import LogInfo, LogLocation
from carrel.sources.logs.options import LogsOptions
from carrel.sources.logs.page import LogPage, Newest
from carrel.sources.logs.part import ReadOptions
from carrel.sources.logs.query import LogQuery, parameters_of, read_query, redactor
from carrel.sources.logs.rotation import rotated
from carrel.sources.logs.statistics import Statistics
from carrel.sources.logs.times import zone_of
from carrel.uri.parse import UriError, encode_path
from carrel.wire.base import Annotations
from carrel.wire.resources import Resource, ResourceTemplate, TextResourceContents

__all__ = ["RECENT", "SCHEME", "STATISTICS", "SUGGESTED", "LogsReader", "Named", "templates"]

SCHEME = "logs://"
RECENT = "logs://recent"
STATISTICS = "logs://statistics"
RESERVED = ("recent", "statistics")

RECENTLY = 900.0  # seconds: the range of logs://recent where none is given
LAST = 200  # default number of entries of one log
JSON = "application/json"
PLENTY = 100_000  # entries of a compressed file that statistics look at


class Named(NamedTuple):
    """A log by its location and its path there."""

    location: LogLocation
    path: str
    info: LogInfo


class LogsReader:
    """Reader of the logs in several locations.

    Raises:
        ConfigError: an option is not valid.
    """

    def __init__(self, options: LogsOptions) -> None:
        self.locations: dict[str, LogLocation] = {}
        self.options = options
        self.zone: tzinfo | None = zone_of(options.timezone)
        self.redact = redactor(options.redact, secrets=options.redact_secrets)
        self._settings: dict[str, tuple[LogsOptions, LogsReader]] = {}
        self._visible: Visible | None = None

    def add(self, location: LogLocation, reader: LogsReader) -> None:
        """Add a location, which is read with the options of ``reader``. If its name is taken, it gets another name."""
        name = base = "".join(
            letter if letter.isascii() and letter.isalnum() else "-" for letter in location.name.lower()
        )
        number = 2
        while not name.strip("-") or name in self.locations or name in RESERVED:
            name, number = f"{base.strip('-') or 'logs'}-{number}", number + 1
        self.locations[name] = location
        self._settings[name] = reader.options, reader

    def inspect(self) -> None:
        """Check that the locations exist.

        Raises:
            ConfigError: a location does not exist.
        """
        for location in self.locations.values():
            location.inspect()

    def seen_by(self, visible: Visible | None) -> LogsReader:
        """Return the reader as a caller sees it."""
        view = copy(self)
        view._visible = visible
        return view

    def forget(self) -> None:
        """Clear the caches."""
        for location in self.locations.values():
            location.forget()

    # URIs

    def logs(self, location: str | None = None) -> dict[str, Named]:
        """Return the visible logs, of one location or of all, by their URIs."""
        found: dict[str, Named] = {}
        for name, one in self.locations.items():
            if location not in (None, name):
                continue
            for path, info in one.logs().items():
                uri = uri_of(name, path)
                if uri is not None and (self._visible is None or self._visible(uri)):
                    found[uri] = Named(one, path, info)
        return found

    # Lists

    def list_resources(self, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page: recent entries, statistics, then each location and its logs.

        Raises:
            InvalidCursor: the cursor was not issued for this list.
        """
        items = {
            RECENT: Resource(
                RECENT,
                "recent",
                title="Recent log entries",
                description="Entries of the last 15 minutes of all logs",
                mime_type="text/plain",
                annotations=Annotations(priority=1.0),
            ),
            STATISTICS: Resource(
                STATISTICS,
                "statistics",
                title="Log statistics",
                description="Levels over time and most frequent messages of the last 15 minutes",
                mime_type=JSON,
            ),
        }
        for name in self.locations:
            items[SCHEME + name] = Resource(SCHEME + name, name, mime_type=DIRECTORY)
        items |= {uri: describe(uri, log) for uri, log in self.logs().items()}
        return page_of(items, "logs", cursor, limit)

    def list_directory(self, uri: str, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the logs of a location.

        Raises:
            ResourceNotFound: there is no such location.
            InvalidCursor: the cursor was not given out for it.
        """
        name = uri.removeprefix(SCHEME)
        if not uri.startswith(SCHEME) or name not in self.locations:
            raise ResourceNotFound(uri)
        items = {uri: describe(uri, log) for uri, log in self.logs(name).items()}
        return page_of(items, f"logs of {name}", cursor, limit)

    # Reading

    def read_resource(self, uri: str) -> TextResourceContents:
        """Read entries, statistics, or the list of a location.

        Raises:
            ResourceNotFound: there is no such log.
            InvalidParams: the query makes no sense.
        """
        base, _, query = uri.partition("?")
        if "#" in uri:
            raise InvalidParams("Invalid params: uri: a log has no fragment", parameter="uri")
        location = base.removeprefix(SCHEME)
        if base in (RECENT, STATISTICS):
            logs = self.logs()
        elif location in self.locations and base.startswith(SCHEME):
            logs = self.logs(location)
            if not query:
                return directory_contents(uri, (describe(name, log) for name, log in logs.items()))
        else:
            whole = self.logs(location.partition("/")[0])
            if base not in whole or not base.startswith(SCHEME):
                raise ResourceNotFound(uri)
            logs = {base: whole[base]}
        given = parameters_of(query)
        now = time()
        if base in (RECENT, STATISTICS) and not {"timeframe", "since", "until", "tail"} & given.keys():
            given["timeframe"] = f"{RECENTLY:.0f}s"
        asked = read_query(given, now, self.zone, self.options.max_entries)
        if asked.log is not None:
            logs = {name: log for name, log in logs.items() if asked.log in (name, name.removeprefix(SCHEME), log.path)}
            if not logs:
                raise InvalidParams(f"Invalid params: log: there is no log {asked.log[:200]!r}", parameter="log")
        if base == STATISTICS:
            return self._count(uri, logs, asked)
        return self._read(uri, logs, asked, given)

    def _read(
        self, uri: str, logs: Mapping[str, Named], asked: LogQuery, given: Mapping[str, str]
    ) -> TextResourceContents:
        base = uri.partition("?")[0]
        options, notes = self.options, list[str]()
        plain = not {"timeframe", "since", "until", "tail"} & given.keys()
        most = asked.tail or (min(LAST, options.max_entries) if plain else options.max_entries)
        newest = Newest(most, options.max_answer, options.margin, asked.skip)
        budget = ReadBudget(options.max_search, options.max_seconds)
        stopped: str | None = None  # the log in which the budget ended
        left: list[str] = []
        for name, entries in self._entries(logs, asked, most + asked.skip, budget, notes.append):
            if stopped is not None:
                left.append(name)
                continue
            newest.take(name, entries)
            stopped = name if budget.is_over() else None
        answer = LogPage(uri, newest.sorted(), asked, given, notes, several=base not in logs)
        if stopped is not None:
            answer.stopped_at(stopped, left, budget)
        elif newest.dropped and not asked.tail:
            answer.go_on()
        return answer.render()

    def _count(self, uri: str, logs: Mapping[str, Named], asked: LogQuery) -> TextResourceContents:
        notes = list[str]()
        budget = ReadBudget(self.options.max_search, self.options.max_seconds)
        counts = Statistics()
        for name, entries in self._entries(logs, asked, PLENTY, budget, notes.append):
            counts.add(name.removeprefix(SCHEME), entries)
        result: dict[str, Any] = counts.result(asked.since, asked.until)
        result["complete"] = not budget.is_over()
        if budget.reason is not None:
            notes.append(f"not all was counted: {budget.reason}")
        if notes:
            result["notes"] = notes
        return TextResourceContents(uri, msgspec.json.encode(result).decode(), mime_type=JSON)

    def _entries(
        self,
        logs: Mapping[str, Named],
        asked: LogQuery,
        limit: int,
        budget: ReadBudget,
        note: Callable[[str], None],
    ) -> Iterator[tuple[str, Iterator[Any]]]:
        """Yield the URI of each log with its entries, those last written to first."""
        order = sorted(logs.items(), key=lambda item: -(item[1].info.modified or inf))
        names = {id(location): name for name, location in self.locations.items()}
        for uri, log in order:
            if log.info.modified is not None and log.info.modified < asked.since:
                continue
            options, reader = self._settings[names[id(log.location)]]
            reading = ReadOptions(
                asked.since,
                asked.until,
                asked.accepts,
                limit,
                options.margin,
                options.line_format,
                reader.zone,
                reader.redact,
                partial(shows, self._visible, names[id(log.location)]),
                budget,
            )
            yield uri, log.location.entries(log.path, reading, note)

    # Templates, completion, search

    def templates(self) -> list[ResourceTemplate]:
        """Return the templates."""
        return templates(self.locations)

    def complete(self, variable: PartialVariable) -> list[str]:
        """Return suggestions for a variable: levels, durations, names of logs."""
        known: Sequence[str] = SUGGESTED.get(variable.name, ())
        if variable.name == "log":
            location = variable.template.name
            logs = self.logs(location if location != "statistics" else None).values()
            known = sorted({log.path for log in logs if log.path.isprintable()})
        return [each for each in known if each.startswith(variable.value)]

    def search(self, query: str, limit: int) -> list[Hit]:
        """Return the logs whose names have all words of a query, the best first."""
        words = words_of(query)
        hits: list[Hit] = []
        for uri, log in self.logs().items() if words else ():
            name = uri.removeprefix(SCHEME).casefold()
            if all(word in name or word in log.path.casefold() for word in words):
                covered = sum(map(len, words)) / max(len(log.path), 1)
                hits.append(Hit(describe(uri, log), min(covered, 1.0)))
        return sorted(hits, key=lambda hit: (-hit.score, hit.resource.uri))[:limit]


def shows(visible: Visible | None, location: str, parts: Parts) -> bool:
    """Return whether a caller may see the log that a file belongs to."""
    if visible is None:
        return True
    uri = uri_of(location, "/".join((*parts[:-1], rotated(parts[-1]).log)))
    return uri is not None and visible(uri)


def uri_of(location: str, path: str) -> str | None:
    """Return the URI of a log; None if its name has none."""
    try:
        return f"{SCHEME}{location}/{encode_path(path.split('/'))}"
    except UriError:
        return None


def describe(uri: str, log: Named) -> Resource:
    """Return a log as a resource."""
    info = log.info
    return Resource(
        uri,
        display(log.path),
        description=f"{info.files} files, rotated" if info.files > 1 else None,
        mime_type="text/plain",
        size=info.size,
        annotations=None if info.modified is None else annotate(info.modified),
    )


def page_of(items: Mapping[str, Resource], name: str, cursor: str | None, limit: int) -> Page[Resource]:
    """Return a page of resources in the order of their URIs, recent entries and statistics first.

    Raises:
        InvalidCursor: the cursor was not given out for the list of this name.
    """

    def key(uri: str) -> tuple[bool, str]:
        return uri not in (RECENT, STATISTICS), uri

    remaining = sorted(items, key=key)
    if cursor is not None:
        after = decode_cursor(cursor, name)
        if not after.startswith(SCHEME):
            raise InvalidCursor
        remaining = [uri for uri in remaining if key(uri) > key(after)]
    page = remaining[: max(limit, 1)]
    return Page([items[uri] for uri in page], encode_cursor(page[-1], name) if len(remaining) > len(page) else None)


DURATIONS = ("5m", "15m", "1h", "6h", "1d", "7d")
QUERY = "{?timeframe,since,until,level,match,tail,fields}"

SUGGESTED: dict[str, Sequence[str]] = {
    "duration": DURATIONS,
    "timeframe": DURATIONS,
    "since": DURATIONS,
    "until": DURATIONS,
    "level": LEVELS,
    "tail": ("20", "100", "200", "1000"),
    "fields": ("*", "time,level,message"),
}


def templates(locations: Iterable[str]) -> list[ResourceTemplate]:
    """Return the templates for locations of these names."""
    found = [
        ResourceTemplate(
            "logs://recent?timeframe={duration}{&level,match}",
            "recent",
            title="Recent log entries",
            description="Entries of all logs in the last 5m, 2h or 1d, of a level and above, that match a pattern",
            mime_type="text/plain",
        ),
        ResourceTemplate(
            "logs://recent{?since,until,level,match,tail,fields}",
            "entries",
            title="Log entries of a time",
            description="Entries of all logs between two times (ISO 8601), or the last ones; with fields as JSON",
            mime_type="text/plain",
        ),
        ResourceTemplate(
            "logs://statistics?timeframe={duration}{&level,match,log}",
            "statistics",
            title="Log statistics",
            description="Levels over time, and the most frequent messages",
            mime_type="application/json",
        ),
    ]
    found += [
        ResourceTemplate(
            f"logs://{location}/{{+log}}{QUERY}",
            location,
            title=f"Entries of one log of {location}",
            description="Entries of one log, with the files that rotation has made of it",
            mime_type="text/plain",
        )
        for location in locations
    ]
    return found
