"""Reader of a database: the contents of each location, as text in the requested format."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import copy
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import msgspec

from carrel.errors import InvalidParams, ProviderUnavailable, ResourceError, ResourceNotFound, ResourceTooLarge
from carrel.sources.content.query import read_number
from carrel.sources.databases import describe
from carrel.sources.databases.address import DatabaseAddress
from carrel.sources.databases.database import Database
from carrel.sources.databases.engines import open_database
from carrel.sources.databases.failure import BadValue, DatabaseFailed, StatementRejected, TooMuch, Unreachable
from carrel.sources.databases.location import (
    PARTS,
    SCHEMAS,
    TOPS,
    DatabaseLocation,
    choice,
    read_location,
    uri_of,
)
from carrel.sources.databases.model import Schema, Table, split_key
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.processes import DatabaseProcesses
from carrel.sources.databases.render import FORMATS
from carrel.wire.resources import TextResourceContents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from carrel.catalog.provider import Visible
    from carrel.sources.databases.queries import NamedQuery
    from carrel.sources.databases.render import QueryResult

__all__ = ["DatabaseReader"]

#: Seconds between two checks of a server for a changed schema. Files are checked on every call.
FRESH = 1.0


class CatalogCache:
    """Schema cache of one database. Concurrent requests share one read."""

    def __init__(self, database: Database, selected: Callable[[str], bool]) -> None:
        self._database = database
        self._selected = selected
        self._catalog: Schema | None = None
        self._fingerprint: Any = None
        self._checked = 0.0
        self._lock = asyncio.Lock()

    def forget(self) -> None:
        """Clear the cache."""
        self._catalog = None

    async def get(self, client: str = "", *, fresh: bool = False) -> Schema:
        """Return the schema. With ``fresh``, it was read or checked during this call.

        Raises:
            DatabaseFailed: the database reported an error.
        """
        async with self._lock:
            kept = self._catalog
            age = monotonic() - self._checked
            if kept is not None and not fresh and age < self.patience:
                return kept
            known = self._fingerprint if kept is not None else None
            if kept is not None and known is not None and self._database.file_fingerprint() == known:
                return kept

            def look(connection: Any) -> tuple[Any, Schema | None]:
                from carrel.sources.databases.reflect import read_catalog

                fingerprint = self._database.schema_fingerprint(connection)
                if fingerprint is not None and fingerprint == known:
                    return fingerprint, None
                database = self._database
                return fingerprint, read_catalog(connection, database.product, database.options, self._selected)

            began = monotonic()
            self._fingerprint, found = await self._database.run(client, look)
            self._checked = began
            if found is None:
                assert kept is not None
                return kept
            self._catalog = found
            return found

    @property
    def patience(self) -> float:
        """Seconds for which the cached schema is used without a check."""
        return 0.0 if self._database.address.path else min(FRESH, self._database.options.interval)


class DatabaseReader:
    """Reader of one database. ``queries`` are the named queries; they are set when the source starts."""

    visible: Visible | None = None
    """Whether a resource is visible to the caller; None if all resources are visible."""

    def __init__(self, address: DatabaseAddress, options: DatabaseOptions, selected: Callable[[str], bool]) -> None:
        # The single connection reads the schema and other metadata. Rows are read by worker processes.
        self.database = open_database(address, msgspec.structs.replace(options, connections=1))
        self.processes = DatabaseProcesses(address, options, self.database.reached)
        self.base = address.base
        self.cache = CatalogCache(self.database, selected)
        self.queries: dict[str, NamedQuery] = {}

    @asynccontextmanager
    async def answers(self, uri: str) -> AsyncIterator[None]:
        """Convert failures to errors about the resource.

        Raises:
            ProviderUnavailable: the database cannot be reached.
            ResourceError: it reported an error, or a limit was reached.
        """
        try:
            yield
        except Unreachable:
            raise ProviderUnavailable(self.base) from None
        except (DatabaseFailed, StatementRejected) as error:
            raise ResourceError(uri, str(error)) from None

    def seen_by(self, visible: Visible | None) -> Self:
        """Return the reader as a caller sees the database."""
        if visible is None:
            return self
        seen = copy(self)
        seen.visible = visible
        return seen

    def shows(self, *segments: str) -> bool:
        """Return whether a location is visible to the caller, by the URI that lists have."""
        return self.visible is None or self.visible(uri_of(self.base, *segments))

    async def catalog(self, client: str, *parts: str) -> Schema:
        """Return the schema with the tables of which these parts are visible to the caller.

        Raises:
            DatabaseFailed: the database reported an error.
        """
        found = await self.cache.get(client)
        if self.visible is None:
            return found
        return found.seen_by(lambda table: all(self.shows("tables", table.id, part) for part in parts))

    async def shown(self, client: str) -> Schema:
        """Return the schema with the tables of which any part is visible to the caller, for lists.

        Raises:
            DatabaseFailed: the database reported an error.
        """
        found = await self.cache.get(client)
        if self.visible is None:
            return found
        return found.seen_by(lambda table: any(self.shows("tables", table.id, part) for part in PARTS))

    def location(self, uri: str) -> DatabaseLocation:
        """Parse a URI.

        Raises:
            ResourceNotFound: the URI does not name a location, or the location is hidden from the caller.
            InvalidParams: the URI has an unknown parameter.
        """
        queries = {name: query.statement.parameters for name, query in self.queries.items()}
        found = read_location(self.base, uri, queries)
        if not self.shows(*found.segments):
            raise ResourceNotFound(uri)
        return found

    async def table(self, uri: str, id: str, client: str) -> Table:
        """Return a table by its id.

        Raises:
            ResourceNotFound: the table does not exist.
        """
        found = (await self.cache.get(client)).tables.get(id)
        if found is None:
            found = (await self.cache.get(client, fresh=True)).tables.get(id)
        if found is None:
            raise ResourceNotFound(uri)
        return found

    async def read(self, uri: str, location: DatabaseLocation, client: str) -> TextResourceContents:
        """Return the contents of a location that is not a directory."""
        async with self.answers(uri):
            if location.part in ("schema", "dictionary", "diagram"):
                return self._described(uri, location, await self.catalog(client, "schema"))
            if location.part == "database statistics":
                return await self._overview(uri, location, client)
            if location.part == "query":
                return await self._query(uri, location, client)
            table = await self.table(uri, location.table, client)
            if location.part == "table schema":
                catalog = await self.catalog(client, "schema")
                table = catalog.tables.get(table.id, table)
                return self._table_schema(uri, location, table, catalog.partitions(table))
            if location.part == "statistics":
                return await self._statistics(uri, location, table, client)
            return await self._rows(uri, location, table, client)

    # Schema

    def _described(self, uri: str, location: DatabaseLocation, catalog: Schema) -> TextResourceContents:
        formats = TOPS[location.part]
        format = choice(location, formats)
        write: dict[tuple[str, str], Callable[[Schema], str]] = {
            ("schema", "markdown"): describe.schema_text,
            ("dictionary", "markdown"): describe.dictionary_markdown,
            ("dictionary", "csv"): describe.dictionary_csv,
            ("diagram", "mermaid"): describe.mermaid_of,
            ("diagram", "svg"): describe.svg_of,
        }
        text = write.get((location.part, format), describe.json_of)(catalog)
        return self._text(
            uri,
            text,
            formats[format],
            f"of a large database, read the schemas of single tables: {uri_of(self.base, 'tables')}",
        )

    def _table_schema(
        self, uri: str, location: DatabaseLocation, table: Table, partitions: list[str]
    ) -> TextResourceContents:
        format = choice(location, SCHEMAS)
        text = describe.json_of(table) if format == "json" else describe.table_text(table, partitions)
        return self._text(uri, text, SCHEMAS[format], "it has very many columns")

    def _text(
        self, uri: str, text: str, mime_type: str, advice: str, meta: dict[str, Any] | None = None
    ) -> TextResourceContents:
        limit = self.database.options.max_bytes
        if len(text.encode("utf-8", "surrogatepass")) > 4 * limit:
            raise ResourceTooLarge(uri, f"It is over the limit of {4 * limit:,} bytes (4 × max_bytes); {advice}")
        return TextResourceContents(uri, text, mime_type=mime_type, meta=meta)

    # Rows

    async def _rows(self, uri: str, location: DatabaseLocation, table: Table, client: str) -> TextResourceContents:
        from carrel.sources.databases import rows
        from carrel.sources.databases.render import RenderOptions, render_rows

        options = self.database.options
        format = choice(location, FORMATS)
        shown = self._columns(location, table)
        about: dict[str, Any] = {"table": table.id}
        if location.part == "sample":
            limit = read_number(location.parameters, "limit", options.max_rows, options.sample_rows)
            sample = partial(rows.read_sample, table=shown, limit=limit, max_bytes=options.max_bytes)
            job = partial(render_rows, read=sample, options=RenderOptions(format, about))
            found = await self._run(uri, table, client, job)
            return self._answer(uri, format, found)
        if not table.key:
            instead = uri_of(self.base, "tables", table.id, "sample")
            raise InvalidParams(
                f"Invalid params: {table.id} has neither a primary key nor unique columns that are never null, so its "
                f"rows have no keys and no order to page by; read {instead}, or use a query",
                parameter="uri",
            )
        if location.part == "row":
            return await self._row(uri, location, shown, client, format)
        limit = read_number(location.parameters, "limit", options.max_rows, options.page_rows)
        after = None
        if "after" in location.parameters:
            after = self._key(uri, table, location.parameters["after"])
        page = partial(rows.read_page, table=shown, after=after, limit=limit, max_bytes=options.max_bytes)
        try:
            found = await self._run(
                uri,
                table,
                client,
                partial(render_rows, read=page, options=RenderOptions(format, about, uri, location.parameters)),
            )
        except BadValue as error:
            raise InvalidParams(
                f"Invalid params: after: it is no key of {table.id}: {error}", parameter="after"
            ) from None
        return self._answer(uri, format, found)

    async def _row(
        self, uri: str, location: DatabaseLocation, table: Table, client: str, format: str
    ) -> TextResourceContents:
        from carrel.sources.databases import rows
        from carrel.sources.databases.render import RenderOptions, render_rows

        key = self._key(uri, table, location.key)
        read = partial(rows.read_row, table=table, key=key, max_bytes=self.database.options.max_bytes)
        try:
            about = {"table": table.id, **({"key": location.key} if format == "json" else {})}
            job = partial(render_rows, read=read, options=RenderOptions(format, about, keys=False))
            found = await self._run(uri, table, client, job)
        except BadValue:
            raise ResourceNotFound(uri) from None
        if not found.found:
            raise ResourceNotFound(uri)
        if format != "json":
            return self._answer(uri, format, found)
        whole: dict[str, Any] = msgspec.json.decode(found.text, type=dict[str, msgspec.Raw])
        [row] = msgspec.json.decode(whole.pop("rows"), type=list[msgspec.Raw])
        text = msgspec.json.encode({**whole, "row": row}).decode()
        return self._text(uri, text, FORMATS[format], "choose columns")

    def _key(self, uri: str, table: Table, text: str) -> list[str]:
        key = split_key(text, len(table.key))
        if key is None:
            raise InvalidParams(
                f"Invalid params: the key of {table.id} has {len(table.key)} values ({', '.join(table.key)}), "
                "separated by commas; a comma in a value is written \\,",
                parameter="key",
            )
        return key

    def _columns(self, location: DatabaseLocation, table: Table) -> Table:
        """Return the table with only the columns that the URI requests."""
        wanted = location.parameters.get("columns")
        if wanted is None:
            return table
        known = {column.name: column for column in table.columns}
        names = list(dict.fromkeys(split_key(wanted, wanted.count(",") + 1) or wanted.split(",")))
        for name in names:
            if name not in known:
                raise InvalidParams(
                    f"Invalid params: columns: {table.id} has no column {name[:50]!r}; it has {', '.join(known)}"[:500],
                    parameter="columns",
                )
        types = {name: known[name] for name in table.key if name in known}
        chosen = tuple(known[name] for name in names)
        return msgspec.structs.replace(table, columns=chosen) if types or not table.key else table

    async def _run(self, uri: str, table: Table, client: str, job: Callable[[Connection], QueryResult]) -> QueryResult:
        from carrel.sources.databases.render import QueryResult

        limit = self.database.options.max_bytes
        try:
            return await self.processes.run(client, job, QueryResult)
        except TooMuch:
            advice = ""
            narrow = ",".join(table.key)
            if narrow and all(name in {column.name for column in table.columns} for name in table.key):
                mark = "&" if "?" in uri else "?"
                advice = f"; choose columns, as in {uri}{mark}columns={narrow}"
            raise ResourceTooLarge(
                uri, f"One row is over the limit of {limit:,} bytes (option max_bytes){advice}"
            ) from None

    def _answer(self, uri: str, format: str, found: QueryResult) -> TextResourceContents:
        meta = {"carrel/next": found.next} if found.next is not None else None
        return self._text(uri, found.text, FORMATS[format], "ask for fewer rows", meta)

    async def _statistics(
        self, uri: str, location: DatabaseLocation, table: Table, client: str
    ) -> TextResourceContents:
        from carrel.sources.databases.render import QueryResult, render_statistics

        format = choice(location, FORMATS)
        found = await self.processes.run(client, partial(render_statistics, table=table, format=format), QueryResult)
        return self._text(uri, found.text, FORMATS[format], "it has very many columns")

    async def _overview(self, uri: str, location: DatabaseLocation, client: str) -> TextResourceContents:
        from carrel.sources.databases.render import QueryResult, RenderOptions, render_rows
        from carrel.sources.databases.statistics import read_overview

        formats = TOPS["statistics"]
        format = choice(location, formats)
        catalog = await self.catalog(client, "schema", "statistics")
        about = {"product": catalog.product, "database": catalog.name}
        job = partial(render_rows, read=partial(read_overview, catalog=catalog), options=RenderOptions(format, about))
        found = await self.processes.run(client, job, QueryResult)
        return self._text(
            uri, found.text, formats[format], f"read single tables instead: {uri_of(self.base, 'tables')}"
        )

    # Queries

    async def _query(self, uri: str, location: DatabaseLocation, client: str) -> TextResourceContents:
        from carrel.sources.databases.queries import run_query
        from carrel.sources.databases.render import QueryResult, RenderOptions, render_rows

        options = self.database.options
        format = choice(location, FORMATS)
        query = self.queries[location.query]
        missing = [name for name in query.statement.parameters if name not in location.parameters]
        if missing:
            raise InvalidParams(f"Invalid params: the query needs {', '.join(missing)}", parameter=missing[0])
        limit = read_number(location.parameters, "limit", options.max_rows, options.max_rows)
        values = {name: location.parameters[name] for name in query.statement.parameters}
        read = partial(run_query, statement=query.statement, values=values, limit=limit, max_bytes=options.max_bytes)
        render = RenderOptions(format, {"query": query.name}, more=True)
        job = partial(render_rows, read=read, options=render)
        try:
            found = await self.processes.run(client, job, QueryResult)
        except TooMuch as error:
            raise ResourceTooLarge(
                uri,
                f"The rows are over the limit of {options.max_bytes:,} bytes (option max_bytes); "
                f"the first {error.fitting:,} are within it: use limit",
            ) from None
        return self._answer(uri, format, found)
