"""Database provider: the schema, rows and named queries as resources, and an optional query tool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from carrel.catalog.paging import page_after, page_of
from carrel.catalog.provider import Change, Events, Hit, Interest, Page, Provider, Request
from carrel.errors import ConfigError, InvalidParams, ProviderUnavailable, ResourceNotFound
from carrel.log import Log
from carrel.near_names import did_you_mean
from carrel.sources.base import MAX_SUGGESTIONS, BaseSource, PartialVariable
from carrel.sources.content.directory import directory_contents
from carrel.sources.databases.address import read_address
from carrel.sources.databases.failure import DatabaseFailed, StatementRejected, not_opened
from carrel.sources.databases.location import SCHEMAS, TOPS, DatabaseLocation
from carrel.sources.databases.offers import Offers
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.reader import DatabaseReader
from carrel.sources.databases.render import FORMATS
from carrel.sources.folder.patterns import read_globs
from carrel.sources.watches import RunningWatches
from carrel.wire.completion import Completion
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.sources.databases.model import Schema

__all__ = ["DatabaseSource"]

log = Log("carrel.sources")


class DatabaseSource(BaseSource):
    """Provider of a database, given by its URL: ``sqlite:///shop.db``, ``postgresql://user@host/database``, ….

    The database is read-only: statements are checked and run in read-only transactions. If the database has accounts,
    they run with the role in the option ``role``.

    Raises:
        ConfigError: the URL names no database, an option is wrong, or a package is missing.
    """

    options = DatabaseOptions
    shares_watch = True
    naming = "give each database its own name with the option alias, in carrel.toml or in Python"

    def __init__(self, target: str, options: DatabaseOptions = DatabaseOptions()) -> None:  # noqa: B008
        address = read_address(target, options.alias)
        self._name = address.name
        self._options = options
        if options.notify is not None and address.kind != "postgres":
            raise ConfigError("notify is for PostgreSQL: other databases have no notifications")
        if options.logical_decoding and (address.kind != "postgres" or options.notify is not None):
            raise ConfigError("logical_decoding is for PostgreSQL, and in place of notify")
        self._include = read_globs("tables", options.tables)
        self._exclude = read_globs("exclude_tables", options.exclude_tables)
        self._ids: set[str] = set()
        self._reader = DatabaseReader(address, options, self._shares)
        self._offers = Offers(address.base, self._name)
        self._watches = RunningWatches()
        self.name = address.base
        self.changes = "machine" if address.path else "everywhere"
        self.prefixes: Sequence[str] = (address.base,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._reader.base!r})"

    def _shares(self, id: str) -> bool:
        """Return whether a table is shared, by its id."""
        self._ids.add(id)
        path = path_of(id)
        included = not self._options.tables or self._include.decide(path, False) is True
        return included and self._exclude.decide(path, False) is not True

    def join(self, other: Provider) -> bool:
        """Return False: databases are not merged.

        Raises:
            ConfigError: the base of one of the two databases is inside the base of the other one.
        """
        if isinstance(other, DatabaseSource):
            outer, inner = sorted((self.name, other.name), key=len)
            if inner.startswith(f"{outer}/"):
                raise ConfigError(f"the URIs of {inner} are inside {outer}: {self.naming}")
        return False

    async def start(self, events: Events) -> None:
        """Open the database, read its schema, and check the named queries.

        Raises:
            ConfigError: the database cannot be opened, or a query is not read-only.
        """
        from carrel.sources.databases.queries import read_queries

        database = self._reader.database
        self._reader.queries = read_queries(self._options.queries, database.sqlglot, self._options.allow_functions)
        await database.start()
        self._reader.processes.start()
        try:
            catalog = await self._reader.cache.get(fresh=True)
            self._check_names(catalog)
            await self._check_queries(catalog)
            await self._check_notifications(catalog)
        except DatabaseFailed as error:
            await self.stop()
            raise not_opened(self._reader.base, error) from None
        except BaseException:
            await self.stop()
            raise

    async def _check_queries(self, catalog: Schema) -> None:
        from carrel.sources.databases.queries import prepare, why_not_prepared

        database = self._reader.database
        for query in self._reader.queries.values():
            try:
                await database.run("", partial(prepare, query=query))
            except (DatabaseFailed, StatementRejected) as error:
                raise ConfigError(f"{self._reader.base}: {why_not_prepared(query, error, catalog)}") from None

    def _check_names(self, catalog: Schema) -> None:
        """Log the patterns of tables and the schemas that match nothing."""
        options, base = self._options, self._reader.base
        for name, patterns in (("tables", options.tables), ("exclude_tables", options.exclude_tables)):
            for pattern in patterns:
                plain = pattern.removeprefix("!")
                globs = read_globs(name, (plain,))
                if not any(globs.decide(path_of(id), False) for id in self._ids):
                    log.warning("%s: %s: %r matches no table%s", base, name, pattern, did_you_mean(plain, self._ids))
        found = {table.schema for table in catalog.tables.values()}
        for schema in options.schemas:
            if schema not in found:
                log.warning("%s: schemas: %r has no shared table", base, schema)

    async def _check_notifications(self, catalog: Schema) -> None:
        """Log the tables whose changed rows are not reported by notifications."""
        from carrel.sources.databases.watch import heard_tables

        database = self._reader.database
        if not database.listens:
            return
        heard = await heard_tables(database, catalog)
        silent = [id for id, table in catalog.tables.items() if not table.is_view and id not in heard]
        if silent:
            log.warning(
                "%s: %s not notify of changed rows (%s%s): polled every %g s instead, by counters of the server",
                self._reader.base,
                "1 table does" if len(silent) == 1 else f"{len(silent):,} tables do",
                ", ".join(silent[:5]),
                ", …" if len(silent) > 5 else "",
                self._options.interval,
            )

    async def stop(self) -> None:
        """End all watches, and close all connections."""
        await self._watches.stop()
        await self._reader.processes.stop()
        await self._reader.database.stop()
        self._reader.cache.forget()

    def _seen(self, request: Request) -> DatabaseReader:
        return self._reader.seen_by(request.visible)

    async def _catalog(self, request: Request) -> Schema:
        """Return the schema as the caller sees it in lists."""
        try:
            return await self._seen(request).shown(request.client)
        except DatabaseFailed:
            raise ProviderUnavailable(self._reader.base) from None

    # Resources

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the resources, sorted by URI."""
        every = self._offers.resources(await self._catalog(request), self._reader.queries)
        every = [resource for resource in every if request.visible is None or request.visible(resource.uri)]
        return page_after(every, request, f"resources {self._reader.base}")

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the entries of a directory, sorted by URI."""
        entries = await self._entries(uri, self._seen(request).location(uri), request)
        return page_after(entries, request, f"directory {uri.rstrip('/')}")

    async def _entries(self, uri: str, location: DatabaseLocation, request: Request) -> list[Resource]:
        entries = self._offers.entries(location, await self._catalog(request), self._reader.queries)
        if entries is None:
            raise ResourceNotFound(uri)
        return [entry for entry in entries if request.visible is None or request.visible(entry.uri)]

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return the contents of a location, or a directory as a JSON array of resources."""
        reader = self._seen(request)
        location = reader.location(uri)
        if location.part in ("database", "tables", "table", "queries"):
            entries = await self._entries(uri, location, request)
            return ReadResourceResult(contents=[directory_contents(uri, entries)])
        return ReadResourceResult(contents=[await reader.read(uri, location, request.client)])

    def shows(self, uri: str, request: Request) -> bool:
        """Return whether a URI names nothing that is hidden from the caller, in any spelling."""
        try:
            self._seen(request).location(uri)
        except ResourceNotFound:
            return request.visible is None
        except InvalidParams:
            pass  # the error that every caller gets
        return True

    # Templates, completion, search

    def _templates(self) -> list[ResourceTemplate]:
        return self._offers.templates(self._reader.queries)

    async def _suggest(self, variable: PartialVariable, request: Request) -> Completion | list[str]:

        return await complete(self._seen(request), variable, request.client)

    async def _hits(self, query: str, limit: int, request: Request) -> list[Hit]:
        """Return the tables whose names, columns and comments match a query, best first."""
        return self._offers.search(await self._catalog(request), query, limit)

    # Tools

    def list_tools(self, request: Request) -> Page[Tool]:
        """Return the query tool, if it is enabled."""
        from carrel.sources.databases.query_tool import query_tool

        tools = [query_tool(self._reader, self._name)] if self._options.query else []
        return page_of(tools, request, lambda tool: tool.name)

    async def call_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> CallToolResult:
        """Run a read-only query.

        Raises:
            ToolError: the statement is rejected or fails, for the model to correct.
        """
        from carrel.sources.databases.query_tool import call_query_tool, tool_name

        if not self._options.query or name != tool_name(self._name):
            raise InvalidParams(f"Invalid params: unknown tool: {name[:200]}", parameter="name")
        return await call_query_tool(self._seen(request), arguments, request.client)

    # Changes

    def outdated(self, uris: Collection[str]) -> None:
        """Forget the schema."""
        self._reader.cache.forget()

    def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Return the changes of the schema and of the rows of each table."""
        from carrel.sources.databases.watch import DatabaseWatch

        return DatabaseWatch(self._reader, interest).batches(self._watches)


def path_of(id: str) -> str:
    """Return the id of a table as the path that patterns match. A slash in a name is not a path separator."""
    return id.replace("/", "\u2215")


async def complete(reader: DatabaseReader, variable: PartialVariable, client: str) -> Completion | list[str]:
    """Return suggestions for a variable of one of the templates."""
    name, value = variable.name, variable.value
    if not value.isprintable() or len(value) > 500:
        return []
    location = variable.template.uri_template.removeprefix(reader.base)
    try:
        if name == "format":
            known = SCHEMAS if "/schema{" in location else TOPS.get(location.partition("{")[0][1:], FORMATS)
            return [one for one in known if one.startswith(value)]
        if name == "table" and location.startswith("/tables/"):
            catalog = await reader.shown(client)
            typed = value.casefold()
            found = [table for table in catalog.tables.values() if table.id.casefold().startswith(typed)]
            return [table.id for table in found if table.key or "/rows" not in location]
        if name in ("key", "after", "columns") and location.startswith("/tables/"):
            return await complete_in_table(reader, variable, client)
    except (DatabaseFailed, ResourceNotFound):
        pass
    return []


async def complete_in_table(reader: DatabaseReader, variable: PartialVariable, client: str) -> Completion | list[str]:
    """Return the keys, or the columns, of a table that begin with the typed text."""
    from carrel.sources.databases.rows import prefix_of_key

    table = await reader.table(reader.base, variable.context.get("table", ""), client)
    if variable.name == "columns":
        before, comma, typed = variable.value.rpartition(",")
        return [f"{before}{comma}{column.name}" for column in table.columns if column.name.startswith(typed)]
    job = partial(prefix_of_key, table=table, typed=variable.value, limit=MAX_SUGGESTIONS + 1)
    found = await reader.processes.run(client, job, list[str])
    return Completion(found[:MAX_SUGGESTIONS], has_more=len(found) > MAX_SUGGESTIONS)
