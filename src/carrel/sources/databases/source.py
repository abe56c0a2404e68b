"""Database as a provider: its schema, rows and named queries as resources, and a query tool where it is switched on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from carrel.catalog.provider import Change, Events, Hit, Interest, Page, Provider, Request
from carrel.errors import ConfigError, InvalidCursor, InvalidParams, ProviderUnavailable, ResourceNotFound
from carrel.media_types import DIRECTORY
from carrel.sources.cursor import page_after, page_of
from carrel.sources.databases.address import read_address
from carrel.sources.databases.engines import open_database
from carrel.sources.databases.failure import Failed, Refused, not_opened
from carrel.sources.databases.offers import Offers
from carrel.sources.databases.options import DatabaseOptions
from carrel.sources.databases.places import Place, read_place
from carrel.sources.databases.reader import DatabaseReader
from carrel.sources.folder.patterns import read_globs
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.sources.databases.model import Catalog
    from carrel.sources.databases.watch import DatabaseWatch

__all__ = ["DatabaseSource"]


class DatabaseSource(Provider):
    """Provider of a database, given by its URL: ``sqlite:///shop.db``, ``postgresql://user@host/database``, ….

    Nothing in it can be changed: statements are checked, run in read-only transactions, and, where there are
    accounts, with those that the option ``role`` names.

    Raises:
        ConfigError: the URL names no database, an option is wrong, or a package is missing.
    """

    options = DatabaseOptions
    naming = "give each database a name of its own by the option alias, in carrel.toml or in Python"

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
        self._reader = DatabaseReader(open_database(address, options), self._shares)
        self._offers = Offers(address.base, self._name)
        self._watches: set[DatabaseWatch] = set()
        self.name = address.base
        self.prefixes: Sequence[str] = (address.base,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._reader.base!r})"

    def _shares(self, id: str) -> bool:
        """Return whether a table is shared, by its id."""
        path = id.replace("/", "\u2215")  # a slash in a name is no folder
        included = not self._options.tables or self._include.decide(path, False) is True
        return included and self._exclude.decide(path, False) is not True

    async def start(self, events: Events) -> None:
        """Open the database, read its schema, and check the named queries.

        Raises:
            ConfigError: it cannot be opened, or a query is not one that only reads.
        """
        from carrel.sources.databases.queries import read_queries

        database = self._reader.database
        self._reader.queries = read_queries(self._options.queries, database.sqlglot)
        await database.start()
        try:
            await self._check_queries(await self._reader.cache.get(fresh=True))
        except Failed as error:
            await database.stop()
            raise not_opened(self._reader.base, error) from None
        except BaseException:
            await database.stop()
            raise

    async def _check_queries(self, catalog: Catalog) -> None:
        from carrel.sources.databases.queries import prepare, why_not_prepared

        database = self._reader.database
        for query in self._reader.queries.values():
            try:
                await database.run("", partial(prepare, database=database, query=query), guarded=True)
            except (Failed, Refused) as error:
                raise ConfigError(f"{self._reader.base}: {why_not_prepared(query, error, catalog)}") from None

    async def stop(self) -> None:
        """End all watches, and close all connections."""
        for watch in tuple(self._watches):
            watch.stop()
        await self._reader.database.stop()
        self._reader.cache.forget()

    async def _catalog(self, request: Request) -> Catalog:
        try:
            return await self._reader.cache.get(request.client)
        except Failed:
            raise ProviderUnavailable(self._reader.base) from None

    def _place(self, uri: str) -> Place:
        parameters = {name: query.statement.parameters for name, query in self._reader.queries.items()}
        return read_place(self._reader.base, uri, parameters)

    # Resources

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the resources, sorted by URI."""
        every = self._offers.resources(await self._catalog(request), self._reader.queries)
        return page_after(every, request, f"resources {self._reader.base}")

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the entries of a directory, sorted by URI."""
        entries = await self._entries(uri, self._place(uri), request)
        return page_after(entries, request, f"directory {uri.rstrip('/')}")

    async def _entries(self, uri: str, place: Place, request: Request) -> list[Resource]:
        entries = self._offers.entries(place, await self._catalog(request), self._reader.queries)
        if entries is None:
            raise ResourceNotFound(uri)
        return entries

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return the contents of a place, or a directory as a JSON array of resources."""
        place = self._place(uri)
        if place.part in ("database", "tables", "table", "queries"):
            entries = await self._entries(uri, place, request)
            visible = request.visible
            seen = [entry for entry in entries if visible is None or visible(entry.uri)]
            text = msgspec.json.encode(seen).decode()
            return ReadResourceResult(contents=[TextResourceContents(uri, text, mime_type=DIRECTORY)])
        return ReadResourceResult(contents=[await self._reader.read(uri, place, request.client)])

    # Templates, completion, search

    def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the templates."""
        return page_of(self._offers.templates(self._reader.queries), request, lambda item: item.uri_template)

    async def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> Completion:
        """Return suggestions for a variable of one of the templates."""
        from carrel.sources.databases.completion import complete

        known = [template.uri_template for template in self._offers.templates(self._reader.queries)]
        if not isinstance(reference, ResourceTemplateReference) or reference.uri not in known:
            raise InvalidParams("Invalid params: ref: there is no such template", parameter="ref")
        return await complete(self._reader, reference.uri, argument, value, context, request.client)

    async def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the tables whose names, columns and comments match a query, best first, in one page."""
        if request.cursor is not None:
            raise InvalidCursor
        return Page(self._offers.search(await self._catalog(request), query, max(request.limit, 0)))

    # Tools

    def list_tools(self, request: Request) -> Page[Tool]:
        """Return the query tool, if it is switched on."""
        from carrel.sources.databases.query_tool import query_tool

        tools = [query_tool(self._reader, self._name)] if self._options.query else []
        return page_of(tools, request, lambda tool: tool.name)

    async def call_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> CallToolResult:
        """Run a read-only query.

        Raises:
            ToolError: the statement is refused or fails, for the model to correct.
        """
        from carrel.sources.databases.query_tool import call_query_tool, tool_name

        if not self._options.query or name != tool_name(self._name):
            raise InvalidParams(f"Invalid params: unknown tool: {name[:200]}", parameter="name")
        return await call_query_tool(self._reader, arguments, request.client)

    # Changes

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield the changes of the schema and of the rows of each table."""
        from carrel.sources.databases.watch import DatabaseWatch

        watch = DatabaseWatch(self._reader)
        self._watches.add(watch)
        try:
            async with aclosing(watch.batches()) as batches:
                async for batch in batches:
                    yield batch
        finally:
            self._watches.discard(watch)
