"""Source ``openapi:``: an API by its OpenAPI description, as documentation, resources and tools."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from carrel.catalog.paging import page_after, page_of
from carrel.catalog.provider import Change, Events, Hit, Interest, Page, Request
from carrel.errors import ConfigError, MCPError, ResourceNotFound, SourceUnavailable
from carrel.sources.base import BaseSource, PartialVariable
from carrel.sources.content.words import words_of
from carrel.sources.documents.documents import Documents, Original
from carrel.sources.openapi.api import API, check_credentials
from carrel.sources.openapi.credentials import ApiCredentials, check_options
from carrel.sources.openapi.document import ApiDocuments
from carrel.sources.openapi.loading import base_url, load_description, load_file, location_of
from carrel.sources.openapi.options import OpenAPIOptions
from carrel.sources.openapi.resources import ApiResources
from carrel.sources.openapi.tools import ApiTools
from carrel.sources.openapi.transport import ApiOverASGI, ApiOverHTTP, ApiTransport
from carrel.sources.polling import poll
from carrel.sources.watches import RunningWatches
from carrel.sources.workers import Workers
from carrel.wire.resources import BlobResourceContents, ReadResourceResult, Resource, ResourceTemplate, decoded
from carrel.wire.tools import CallToolResult, Tool

__all__ = ["OpenAPISource"]


class OpenAPISource(BaseSource):
    """Provider of an API, given by ``openapi+https://…``, ``openapi+http://…`` or ``openapi+file:PATH``.

    Args:
        app: ASGI application in this process that gets the requests, instead of a server.
        description: the description, already read.

    Raises:
        ConfigError: the target names no description.
    """

    options = OpenAPIOptions
    shares_watch = True
    naming = "give each API its own name with the option api_name, in carrel.toml or in Python"

    def __init__(
        self,
        target: str,
        options: OpenAPIOptions = OpenAPIOptions(),  # noqa: B008
        *,
        app: Any = None,
        description: dict[str, Any] | None = None,
    ) -> None:
        check_options(options)
        self._location = location_of(target)
        self._options = options
        self._app = app
        self.shares_watch = app is None
        self._description = description
        self._workers = Workers(self, "carrel-openapi")
        self._transport: ApiTransport | None = None
        self._api: API | None = None
        self._resources: ApiResources | None = None
        self._tools: ApiTools | None = None
        self._texts = Documents(self, offered=options.documents, locations=options.image_locations)
        self._watches = RunningWatches()
        self._versions: dict[str, tuple[bytes, int]] = {}
        self.name = f"openapi {self._location}"

    def __repr__(self) -> str:
        return f"OpenAPISource({self._location!r})"

    async def start(self, events: Events) -> None:
        """Start: load the description.

        Raises:
            ConfigError: it cannot be loaded, or is not an OpenAPI description.
        """
        self._workers.start()
        try:
            await self._open()
        except BaseException:
            await self.stop()
            raise

    async def _open(self) -> None:
        options = self._options
        documents = await self._load()
        base = base_url(documents.root, self._location, options.server)
        self._transport = self._open_transport(base)
        credentials = ApiCredentials(options, documents)
        check_credentials(documents, base, credentials.given, named=options.server is not None)
        name = (options.api_name or urlsplit(base).netloc).lower()
        if not name or not all(one.isascii() and (one.isalnum() or one in "-._:[]") for one in name):
            raise ConfigError(f"the name of an API has letters, digits, dots and dashes only: {name[:100]!r}")
        self._api = await self._workers.run("", API, documents, base, self._transport, credentials)
        self._resources = ApiResources(self._api, f"openapi://{name}")
        self._tools = ApiTools(self._api, options, f"openapi://{name}")
        self.name = self.uri = f"openapi://{name}"
        self.prefixes = (self.uri,)

    async def _load(self) -> ApiDocuments:
        options, location = self._options, self._location
        if self._description is not None:
            from carrel.sources.openapi.operations import check_version

            check_version(self._description, "the description of the application")
            return ApiDocuments(self._description, location)
        if location.startswith("file:"):

            async def load(other: str) -> bytes:
                return await self._workers.run("", load_file, other, location, options.max_description_size)

            return await load_description(location, load, self._decode)
        host = urlsplit(location).hostname or ""
        transport = ApiOverHTTP(options.request_timeout, options.max_description_size, (host,))

        async def get(other: str) -> bytes:
            try:
                response = await transport.send("GET", other, {}, None)
            except MCPError as error:
                raise SourceUnavailable(f"the description cannot be fetched: {error}") from None
            if response.status != 200:
                kind = SourceUnavailable if response.status >= 500 else ConfigError
                raise kind(f"the description {other.partition('?')[0]} cannot be fetched: {response.status}")
            return response.body

        try:
            return await load_description(location, get, self._decode)
        finally:
            await transport.close()

    async def _decode(self, function: Any, *arguments: Any) -> Any:
        return await self._workers.run("", function, *arguments)

    def _open_transport(self, base: str) -> ApiTransport:
        options = self._options
        if self._app is not None:
            return ApiOverASGI(self._app, options.request_timeout, options.max_response_size)
        # A server that the user has named may be anywhere; one that a remote description names, only on the Internet.
        named = [urlsplit(options.token_url or "").hostname or ""]
        if options.server is not None or self._location.startswith("file:"):
            named.append(urlsplit(base).hostname or "")
        else:
            named.append(urlsplit(self._location).hostname or "")
        return ApiOverHTTP(options.request_timeout, options.max_response_size, [host for host in named if host])

    async def stop(self) -> None:
        """Stop: end watches and close connections."""
        await self._watches.stop()
        await self._texts.stop()
        await self._workers.stop()
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def _ready(self) -> tuple[ApiResources, ApiTools]:
        self._workers.check()
        assert self._resources is not None
        assert self._tools is not None
        return self._resources, self._tools

    # Resources

    def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the documentation: the API, its description, its operations, its schemas."""
        return page_after(self._ready()[0].listed, request, f"openapi {self.uri}")

    def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the entries of the API, of its operations, or of its schemas."""
        return page_after(self._ready()[0].directory(uri), request, f"openapi entries {uri}")

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return documentation, or the response of a GET operation.

        Raises:
            ResourceNotFound: the operation does not exist, or the API responds that the resource does not exist.
            InvalidParams: a parameter is missing, or not of its type.
        """
        resources = self._ready()[0]
        loaded: dict[str, Original] = {}  # send one request to the API

        async def load(document: str, request: Request, limit: int, known: Callable[[Hashable], bool]) -> Original:
            if document not in loaded:
                found = await resources.read(document)
                data = found.blob if isinstance(found, BlobResourceContents) else found.text.encode()
                loaded[document] = Original(found.mime_type, hashlib.sha256(data).digest(), data)
            return loaded[document]

        async def read(uri: str, request: Request) -> ReadResourceResult:
            return ReadResourceResult(contents=[await resources.read(uri)])

        if resources.may_be_document(uri):
            return await self._texts.read(uri, request, read, load)
        return await read(uri, request)

    # Templates, completion, search

    def _templates(self) -> Sequence[ResourceTemplate]:
        """Return the templates: documentation, and one for each GET operation."""
        return self._ready()[0].templates

    def _suggest(self, variable: PartialVariable, request: Request) -> list[str]:
        """Return the values of a parameter that its description names."""
        found = self._ready()[0].suggest(variable.template.uri_template, variable.name)
        return [one for one in found if one.casefold().startswith(variable.value.casefold())]

    def _hits(self, query: str, limit: int, request: Request) -> list[Hit]:
        """Return the operations and schemas whose names, titles or paths have all words of a query."""
        words = words_of(query)
        hits: list[Hit] = []
        for resource in self._ready()[0].listed if words else ():
            name = f"{resource.name} {resource.title or ''}".casefold()
            text = f"{name} {resource.description or ''}".casefold()
            if all(word in text for word in words):
                hits.append(Hit(resource, 1.0 if all(word in name for word in words) else 0.5))
        hits.sort(key=lambda hit: -hit.score)
        return hits[:limit]

    # Tools

    def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of the operations that are tools."""
        tools = self._ready()[1]
        page = page_of(tools.offered, request, lambda operation: operation.tool)
        return Page([tools.describe(operation) for operation in page.items], page.next_cursor)

    async def call_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> CallToolResult:
        """Call an operation.

        Raises:
            InvalidParams: there is no such tool, or the arguments are not valid.
            ToolError: the API answers with an error.
        """
        return await self._ready()[1].call(name, arguments)

    # Changes

    def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Return changes of subscribed resources of the API, found by polling."""
        return self._watches.join(poll(lambda: self._look(interest), self._options.poll_seconds, owner=self.uri))

    async def _look(self, interest: Interest) -> Mapping[str, Hashable]:
        """Return a number for each subscribed resource, which grows as it changes."""
        resources = self._ready()[0]
        for uri in interest.uris:
            if not resources.is_live(uri):
                continue
            last, number = self._versions.get(uri, (b"", -1))
            try:
                result = decoded(ReadResourceResult(contents=[await resources.read(uri)]))
                digest = hashlib.blake2b(msgspec.json.encode(result.contents), digest_size=16).digest()
            except ResourceNotFound:
                digest = b"gone"
            except MCPError:
                continue
            self._versions[uri] = digest, number + (digest != last)
        # A new subscription is not a change: its first number is 0, like the number of a resource that was not
        # requested.
        known = dict.fromkeys(self._known(resources), 0)
        return {**known, **{uri: number for uri, (_, number) in self._versions.items() if uri in interest.uris}}

    @staticmethod
    def _known(resources: ApiResources) -> Sequence[str]:
        return [resource.uri for resource in resources.listed]
