"""RemoteProvider: a provider for a remote server, with a client that connects to it.

    app.add_provider(RemoteProvider("https://example.org/mcp", name="example"), namespace="ex")

The remote server and the clients of this server may speak any revision. Server requests (elicitation, sampling, roots)
are forwarded to the client whose call caused them. Progress, cancellation, errors and cache hints are forwarded too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar, Unpack

import msgspec
from msgspec import Raw

from carrel.awaitables import MaybeAwaitable
from carrel.catalog.forwarding import FORWARDED, ForwardingProvider
from carrel.catalog.name_search import search_names
from carrel.catalog.paging import all_of
from carrel.catalog.provider import Change, Events, Hit, Interest, Page, Request
from carrel.client.client import Client
from carrel.client.endpoints import Target
from carrel.client.handlers import ClientCall
from carrel.client.options import ClientOptions
from carrel.errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ConfigError,
    InvalidCursor,
    InvalidParams,
    MCPError,
    ProtocolError,
    ProviderUnavailable,
    ResourceNotFound,
    TransportError,
)
from carrel.host.reconnect import Reconnector, Status
from carrel.host.relayed import RELAYED, RELAYED_EXTENSIONS, relaying
from carrel.host.remote_calls import RemoteCalls, RemoteError
from carrel.host.remote_changes import RemoteChanges
from carrel.host.remote_entries import EntryReader, list_format_of
from carrel.host.remote_names import RemoteNames, has_others
from carrel.host.remote_pages import MAX_LISTED, RemotePages
from carrel.host.remote_tools import RemoteTools, ToolTasks, for_peer
from carrel.log import Log
from carrel.protocol.extensions.skills import GET_SKILL, LIST_SKILLS, READ_DIRECTORY, SKILLS
from carrel.protocol.methods import (
    LIST_CAPABILITIES,
    LIST_RESOURCE_TEMPLATES,
    LIST_RESOURCES,
    LIST_TOOLS,
    READ_RESOURCE,
)
from carrel.protocol.methods import RequestType as Row
from carrel.protocol.passed_results import private
from carrel.wire.base import PageParams, PageResult, Params, Result
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.resources import ReadResourceParams, ReadResourceResult, Resource
from carrel.wire.skills import GetSkillParams, ReadDirectoryParams, Skill
from carrel.wire.tools import CallToolResult, Tool

__all__ = ["RemoteProvider"]

log = Log("carrel.host")

T = TypeVar("T")

#: Requests that a server must support, by the method of ``Provider`` that sends them.
REQUIRED: Mapping[str, Row] = {**FORWARDED, "search": LIST_RESOURCES, "watch": READ_RESOURCE}
#: Seconds that connecting to a server may take.
PATIENCE = 30.0
#: Seconds that a list request waits for a server.
LIST_PATIENCE = 10.0


class RemoteProvider(ForwardingProvider):
    """Provider for a remote server.

    ``client`` is a client, or the target for a new ``Client`` (a URL, a command, a server in this process) with
    ``options``. A new client declares elicitation, sampling and roots. An existing client needs ``handlers`` for the
    server requests to forward. ``name`` must be stable, as cursors and messages contain it; by default, it is the URL
    or command.

    ``start_timeout`` is the maximum number of seconds to connect. ``entries`` decodes list entries; all sessions of one
    server share it.

    If the server cannot be reached at the start, the provider reconnects later. Until then, lists omit its entries.

    Raises:
        ConfigError: an option is not valid, or ``options`` are given for an existing client.
    """

    extensions = RELAYED_EXTENSIONS

    def __init__(
        self,
        client: Client | Target,
        *,
        name: str | None = None,
        start_timeout: float = PATIENCE,
        entries: EntryReader | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if not isinstance(client, Client):
            options.setdefault("handlers", RELAYED)
            client = Client(client, **relaying(options))
        elif options:
            raise ConfigError(f"A client has its options already: {', '.join(options)}")
        self.client = client
        self.name = name or client.session.endpoint.shown
        self.reconnector = Reconnector(client, self.name, start_timeout, self._learn)
        """Keeps the client connected, and has the status of the connection."""
        self.reconnector.observers.append(self._observe)
        self.empty = False
        """Whether the server is connected, but has no entries in any list."""
        self.names = RemoteNames()
        """Names and URIs in the lists of the server."""
        self.exact = self.names.uris
        self.entries = entries or EntryReader(self.name)
        """Decoder for list entries, shared by all sessions of one server."""
        self._pages = RemotePages()
        self._calls = RemoteCalls(client, self.name, self.reconnector)
        self._tools = RemoteTools(client, self._calls)
        self._events: Events | None = None
        self._connected = False
        self._watching: set[RemoteChanges] = set()

    def __repr__(self) -> str:
        return f"RemoteProvider({self.name!r})"

    @property
    def tool_names(self) -> Container[str]:  # type: ignore[override]
        """Names of the server's tools."""
        return self.names.tools

    @property
    def prompt_names(self) -> Container[str]:  # type: ignore[override]
        """Names of the server's prompts."""
        return self.names.prompts

    @property
    def catch_all(self) -> bool:  # type: ignore[override]
        """Whether this provider handles URIs that match no provider, as the server may have unlisted resources."""
        return self.offers("read_resource")

    @property
    def connected(self) -> bool:
        """Whether the server has been connected since the start. The connection may be lost by now."""
        return self._connected

    @property
    def parked(self) -> int:
        """Number of parked calls, which wait for stateless clients to respond."""
        return self._calls.parked

    def reserve(self) -> None:
        """Declare that all requests are for one client, or for clients that count as one.

        Otherwise, once a second client has sent a request, a server request on stdio that does not name a task is
        rejected with an error response, as a request of another client may have caused it.
        """
        self._calls.for_one_client = True

    def offers(self, method: str) -> bool:
        """Return whether the server supports a method. Before it connects, it does, except for skills."""
        row = REQUIRED.get(method)
        if row is not None and row.method in SKILLS.requests:
            settings = self._skills_settings
            return settings is not None and (row is not READ_DIRECTORY or bool(settings.get("directoryRead")))
        return row is not None and (not self._connected or self.client.session.server.offers(row))

    @property
    def _skills_settings(self) -> Mapping[str, Any] | None:
        settings = self.client.session.server_extensions.get(SKILLS.name) if self._connected else None
        return settings if isinstance(settings, Mapping) else None

    # Starting and stopping

    async def start(self, events: Events) -> None:
        """Connect to the server, and read its lists.

        Raises:
            ConfigError: the server rejects the connection, or its program is not installed.
        """
        self.begin(events)
        try:
            status = await self.reconnector.settled()
        except BaseException:
            await self.stop()
            raise
        error = status.reason
        if isinstance(error, TransportError):
            log.warning("%s is not available yet: %s", self.name, error)
        elif error is not None:
            await self.stop()
            raise ConfigError(f"{self.name}: {error}") from error

    def begin(self, events: Events) -> None:
        """Start to connect, without waiting; ``reconnector`` has the status of the connection."""
        self._events = events
        self.reconnector.begin()

    async def stop(self) -> None:
        """Close the connection."""
        self._events = None
        for changes in list(self._watching):
            changes.end()
        await self._calls.stop()
        await self.reconnector.end()
        self._connected = False

    def _observe(self, status: Status) -> None:
        if status.name == "ready":
            for changes in self._watching:
                changes.retry()

    async def _learn(self, kinds: Collection[str]) -> None:
        """Read the names and URIs of some lists, and report the changes. Log lists that cannot be read."""
        self._connected = True
        self._pages.forget()
        for kind in kinds:
            try:
                await self.names.learn(self, kind)
                if kind == "tools":
                    self._tools.keep(self.names.tools)
            except ProviderUnavailable as error:
                raise TransportError(str(error)) from error
            except MCPError as error:
                log.warning("%s: its %s cannot be listed: %s", self.name, kind, error)
        self.empty = not self.names and not await has_others(self)
        if self._events is not None:
            self._events.publish(lists=[name for name, kind in LIST_CAPABILITIES.items() if kind in kinds])

    # Requests to the server

    async def _list(
        self,
        row: Row,
        request: Request,
        change: Callable[[Any], Any] | None = None,
        params: Params | None = None,
        name: str = "",
    ) -> Page[Any]:
        """Return a page of a list; ``change`` converts an entry to the entry to return."""
        if self._connected and not self.client.session.server.offers(row):
            return Page(())
        list_format = list_format_of(row)

        async def fetch(cursor: str | None) -> Any:
            wanted = params or PageParams()
            if cursor is not None:
                wanted = msgspec.structs.replace(wanted, cursor=cursor)
            with self._calls.errors(request if cursor is not None else None):
                call = ClientCall(row, wanted, LIST_PATIENCE, result=list_format.page)
                return await self._calls.list(call, LIST_PATIENCE)

        connection = self.client.session.connection
        whole = connection is not None and connection.connection.keeps
        notified = name == "" and self.notifies(row)
        decode = partial(self.entries.read, list_format, change=change, whole=whole)
        try:
            return await self._pages.page(name or row.operation, list_format, request, fetch, decode, notified=notified)
        except RemoteError as error:
            if row is LIST_RESOURCE_TEMPLATES and error.code == METHOD_NOT_FOUND:
                return Page(())  # the server has resources, and no handler for templates
            raise

    def notifies(self, row: Row) -> bool:
        """Return whether the server sends notifications for changes of a list."""
        declared = getattr(self.client.session.capabilities, row.capability or "", None) if self._connected else None
        return bool(getattr(declared, "list_changed", False))

    def forward(self, row: Row, request: Request, *arguments: Any) -> Awaitable[Any]:
        """Send a request of a client to the server, and return the result.

        Raises:
            InvalidParams: the server does not accept the parameters.
            ProtocolError: the server returns another error, or is not available.
        """
        return self._list(row, request) if issubclass(row.result, PageResult) else self._send(row, request, *arguments)

    def _send(self, row: Row, request: Request, *arguments: Any) -> Coroutine[Any, Any, Any]:
        params = row.params(**dict(zip(row.arguments, arguments, strict=True)))
        return self._calls.ask(" ".join([row.operation, *map(str, arguments[:1])]), request, row, params)

    # Resources

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the server's resources."""
        page = await self._list(LIST_RESOURCES, request)
        self.names.note(page.items)
        return page

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult | bytes:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: the server has no such resource.
            ProtocolError: the server returns another error, or is not available.
        """
        params = ReadResourceParams(uri=self.names.spell(uri))
        try:
            result = await self._calls.ask(f"read {uri}", request, READ_RESOURCE, params)
        except ResourceNotFound as error:
            raise ResourceNotFound(uri, error.message) from error
        if isinstance(result, bytes):
            return private(result) if request.caller is not None else result
        if result.cache_scope == "public" and request.caller is not None:
            return msgspec.structs.replace(result, cache_scope="private")
        return result

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the resources in a directory.

        Raises:
            ResourceNotFound: there is no such directory.
        """
        if not self.offers("list_directory"):
            raise ResourceNotFound(uri)
        own = self.names.spell(uri)
        try:
            page = await self._list(
                READ_DIRECTORY, request, params=ReadDirectoryParams(uri=own), name=f"directory {uri}"
            )
        except InvalidCursor:
            raise
        except (InvalidParams, ProtocolError) as error:
            if isinstance(error, ProviderUnavailable) or error.code not in (INVALID_PARAMS, -32002):
                raise
            raise ResourceNotFound(uri, error.message) from error
        self.names.note(page.items)
        return page

    async def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the resources with the query in their title, name or URI."""
        if not query.strip():
            return Page(())
        return search_names(
            [resource async for resource in all_of(self.list_resources, limit=MAX_LISTED)], query, request
        )

    async def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> Completion:
        """Return the server's suggestions.

        Raises:
            InvalidParams: there is no such template, prompt or argument.
        """
        try:
            value.encode()
        except UnicodeEncodeError:
            return Completion([])  # a lone surrogate cannot be sent, and has no completions
        with self._calls.errors():
            return await self.client.complete(reference, argument, value, context)

    # Skills

    async def list_skills(self, request: Request) -> Page[Skill]:
        """Return a page of the server's skills."""
        if not self.offers("list_skills"):
            return Page(())
        page = await self._list(LIST_SKILLS, request)
        self.names.note_skills(page.items)
        return page

    async def get_skill(self, uri: str, request: Request) -> Skill:
        """Return the skill whose SKILL.md has this URI.

        Raises:
            ResourceNotFound: there is no such skill.
        """
        if not self.offers("get_skill"):
            raise ResourceNotFound(uri)
        try:
            with self._calls.errors():
                result = await self.client.session.request(
                    ClientCall(GET_SKILL, GetSkillParams(uri=self.names.spell(uri)))
                )
        except InvalidParams as error:
            raise ResourceNotFound(uri, error.message) from error
        return result.skill

    # Tools and prompts

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of the server's tools."""
        return for_peer(await self._list(LIST_TOOLS, request, self._tools.listed), request)

    def call_tool(self, name: str, arguments: Raw, request: Request) -> MaybeAwaitable[Result | bytes]:
        """Call a tool, and return its result, or a result with its task.

        Raises:
            InvalidParams: there is no such tool, or the arguments are not valid.
            ProtocolError: the server returns another error, or is not available.
        """
        return self._tools.call(name, arguments, request)

    def tasks_of(self, name: str) -> ToolTasks | None:
        """Return the task support of a tool, or None if it does not support tasks or was not listed."""
        return self._tools.tasks_of(name)

    def run_tool(self, name: str, arguments: Raw, request: Request) -> Coroutine[Any, Any, CallToolResult | bytes]:
        """Call a tool, and return its result. The request may have become a task: see ``call_or_task``.

        Raises:
            InvalidParams, ProtocolError: see ``call_tool``.
        """
        return self._tools.run(name, arguments, request)

    # Changes

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield batches of changes of subscribed resources."""
        changes = RemoteChanges(
            self.client, self.name, interest, self.names.spell, lambda: self.reconnector.status.name == "ready"
        )
        self._watching.add(changes)
        try:
            async with changes:
                async for batch in changes:
                    yield batch
        finally:
            self._watching.discard(changes)
