"""RemoteProvider: a server behind a client, as a provider.

    app.add_provider(RemoteProvider("https://example.org/mcp", name="example"), namespace="ex")

The remote server may speak any revision, and so may the clients of this one. What it asks because of a call goes to the
client that has made the call; progress, cancellation, errors and cache hints are passed on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Mapping, Sequence
from typing import Any, TypeVar, Unpack

import msgspec
from msgspec import Raw

from carrel.catalog.paging import all_of
from carrel.catalog.provider import Change, Events, Hit, Interest, ListName, Page, Provider, Request
from carrel.client.client import Client
from carrel.client.endpoints import Target
from carrel.client.handlers import ClientCall
from carrel.client.options import CallOptions, ClientOptions
from carrel.errors import (
    INVALID_PARAMS,
    ConfigError,
    InvalidCursor,
    InvalidParams,
    MCPError,
    ProtocolError,
    ProviderUnavailable,
    ResourceNotFound,
    TransportError,
)
from carrel.host.relayed import RELAYED, RELAYED_EXTENSIONS, relaying
from carrel.host.remote_calls import RemoteCalls
from carrel.host.remote_changes import RemoteChanges
from carrel.host.remote_pages import RemotePages
from carrel.host.remote_tools import RemoteTools, for_peer
from carrel.host.upkeep import Status, Upkeep
from carrel.log import Log
from carrel.protocol.extensions.skills import GET_SKILL, LIST_SKILLS, READ_DIRECTORY, SKILLS
from carrel.protocol.methods import (
    CALL_TOOL,
    COMPLETE,
    GET_PROMPT,
    LIST_PROMPTS,
    LIST_RESOURCE_TEMPLATES,
    LIST_RESOURCES,
    LIST_TOOLS,
    READ_RESOURCE,
)
from carrel.protocol.methods import Request as Row
from carrel.protocol.unknown import distribute
from carrel.server.completion import search_names
from carrel.uri.parse import UriError, normalize
from carrel.wire.base import PageParams, Params
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.prompts import GetPromptResult, Prompt
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate
from carrel.wire.skills import GetSkillParams, ReadDirectoryParams, Skill
from carrel.wire.tools import CallToolResult, Tool

__all__ = ["RemoteProvider"]

log = Log("carrel.host")

T = TypeVar("T")

#: Methods of a provider, by the requests that a server has to offer for them.
NEEDED: Mapping[str, Row[Any, Any]] = {
    "call_tool": CALL_TOOL,
    "complete": COMPLETE,
    "get_prompt": GET_PROMPT,
    "list_prompts": LIST_PROMPTS,
    "list_resources": LIST_RESOURCES,
    "list_templates": LIST_RESOURCE_TEMPLATES,
    "list_tools": LIST_TOOLS,
    "read_resource": READ_RESOURCE,
    "search": LIST_RESOURCES,
    "watch": READ_RESOURCE,
}
#: Methods of a provider that need the skills extension.
SKILL_METHODS: Mapping[str, Row[Any, Any]] = {
    "list_skills": LIST_SKILLS,
    "get_skill": GET_SKILL,
    "list_directory": READ_DIRECTORY,
}
#: Lists of this side, by the remote server's name of the list.
LISTS: Mapping[str, ListName] = {
    "tools": "tools_list_changed",
    "prompts": "prompts_list_changed",
    "resources": "resources_list_changed",
}
#: Seconds that connecting to a server may take.
PATIENCE = 30.0
#: Seconds that a list waits for a server.
LIST_PATIENCE = 10.0
#: How many URIs that the server has listed are remembered, and how many tools and prompts it may have.
MAX_LISTED = 100_000
#: How many of them are learned before anything is listed.
LEARNED = 1000


class RemoteProvider(Provider):
    """Provider of what a remote server offers.

    ``client`` is what ``Client`` takes (a URL, a command, a server in this process), with its other ``options``, or a
    client. The client that is made here declares elicitation, sampling and roots; a given one has to have ``handlers``
    for what is to be passed on. ``name`` is stable, for cursors and messages: by default the URL or command.

    ``start_timeout`` is how many seconds connecting may take.

    A server that cannot be reached at the start is connected to later; until then, lists are without it.

    Raises:
        ConfigError: an option is not valid, or there are options for a client that is there already.
    """

    extensions = RELAYED_EXTENSIONS

    def __init__(
        self,
        client: Client | Target,
        *,
        name: str | None = None,
        start_timeout: float = PATIENCE,
        **options: Unpack[ClientOptions],
    ) -> None:
        if not isinstance(client, Client):
            options.setdefault("handlers", RELAYED)
            client = Client(client, **relaying(options))
        elif options:
            raise ConfigError(f"A client has its options already: {', '.join(options)}")
        self.client = client
        self.name = name or client.session.endpoint.shown
        self.upkeep = Upkeep(client, self.name, start_timeout, self._learn)
        """Keeps the connection, and says how it is."""
        self.upkeep.observers.append(self._observe)
        self.empty = False
        """Whether the server is connected and offers nothing at all."""
        self.tool_names: Container[str] = ()
        self.prompt_names: Container[str] = ()
        self._counts: dict[str, int] = {}
        self._listed: dict[str, str] = {}
        self.exact = self._listed
        self._pages = RemotePages()
        self._calls = RemoteCalls(client, self.name, self.upkeep)
        self._tools = RemoteTools(client, self._calls)
        self._events: Events | None = None
        self._connected = False
        self._watching: set[RemoteChanges] = set()

    def __repr__(self) -> str:
        return f"RemoteProvider({self.name!r})"

    @property
    def catch_all(self) -> bool:  # type: ignore[override]
        """Whether it is asked for URIs of no provider: the server may have resources that it does not list."""
        return self.offers("read_resource")

    @property
    def connected(self) -> bool:
        """Whether the server has been reached since the start; the connection may be lost by now."""
        return self._connected

    @property
    def parked(self) -> int:
        """How many calls wait for stateless clients to come back."""
        return self._calls.parked

    def offers(self, method: str) -> bool:
        """Return whether the server offers what a method needs; everything usual, while it has not been reached."""
        if method in SKILL_METHODS:
            settings = self._skills_settings
            return settings is not None and (method != "list_directory" or bool(settings.get("directoryRead")))
        row = NEEDED.get(method)
        return row is not None and (not self._connected or self.client.session.server.offers(row))

    @property
    def _skills_settings(self) -> Mapping[str, Any] | None:
        settings = self.client.session.server_extensions.get(SKILLS.name) if self._connected else None
        return settings if isinstance(settings, Mapping) else None

    # Starting and stopping

    async def start(self, events: Events) -> None:
        """Connect to the server, and learn what it has.

        Raises:
            ConfigError: it refuses, or its program is not installed.
        """
        self.begin(events)
        try:
            status = await self.upkeep.settled()
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
        """Begin to connect, without waiting for it; ``upkeep`` says when the server is there."""
        self._events = events
        self.upkeep.begin()

    async def stop(self) -> None:
        """Close the connection."""
        self._events = None
        for changes in list(self._watching):
            changes.end()
        await self._calls.stop()
        await self.upkeep.end()
        self._connected = False

    def _observe(self, status: Status) -> None:
        if status.name == "ready":
            for changes in self._watching:
                changes.retry()

    async def _learn(self, kinds: Collection[str]) -> None:
        """Learn the names and URIs of some lists, and announce them. What cannot be listed is logged."""
        self._connected = True
        self._pages.forget()
        if "tools" in kinds:
            self._tools.forget()
        for kind in kinds:
            try:
                self._counts[kind] = await self._learn_list(kind)
            except ProviderUnavailable as error:
                raise TransportError(str(error)) from error
            except MCPError as error:
                log.warning("%s: its %s cannot be listed: %s", self.name, kind, error)
        self.empty = not any(self._counts.values()) and not await self._has_others()
        if self._events is not None:
            self._events.publish(lists=[LISTS[kind] for kind in kinds])

    async def _learn_list(self, kind: str) -> int:
        """Learn the names or URIs of a list, and return how many there are, at most ``LEARNED`` resources."""
        count = 0
        if kind == "tools" and self.offers("list_tools"):
            self.tool_names = names = frozenset([tool.name async for tool in all_of(self.list_tools, limit=MAX_LISTED)])
            count = len(names)
        elif kind == "prompts" and self.offers("list_prompts"):
            self.prompt_names = names = frozenset(
                [prompt.name async for prompt in all_of(self.list_prompts, limit=MAX_LISTED)]
            )
            count = len(names)
        elif kind == "resources" and self.offers("list_resources"):
            self._listed.clear()
            async for _ in all_of(self.list_resources):
                count += 1
                if count >= LEARNED:
                    break
        return count

    async def _has_others(self) -> bool:
        """Return whether the server has templates or skills, or cannot list them."""
        try:
            for method in (self.list_templates, self.list_skills):
                if self.offers(method.__name__) and (await method(Request(limit=1))).items:
                    return True
        except MCPError:
            return True
        return False

    # Requests to the server

    async def _list(
        self,
        row: Row[Any, Any],
        request: Request,
        params: Params,
        items_of: Callable[[Any], Sequence[T]],
        key_of: Callable[[T], str],
        listing: str = "",
    ) -> Page[T]:
        if self._connected and not self.client.session.server.offers(row):
            return Page(())

        async def fetch(cursor: str | None) -> Any:
            wanted = params if cursor is None else msgspec.structs.replace(params, cursor=cursor)
            with self._calls.errors(request if cursor is not None else None):
                return distribute(await self._calls.list(ClientCall(row, wanted, LIST_PATIENCE), LIST_PATIENCE))

        return await self._pages.page(listing or row.operation, request, fetch, items_of, key_of)

    # Resources

    def _spell(self, uri: str) -> str:
        """Return a URI as the server spells it."""
        return self._listed.get(uri, uri)

    def _note(self, resources: Sequence[Resource]) -> None:
        for resource in resources:
            if len(self._listed) < MAX_LISTED:
                try:
                    self._listed[normalize(resource.uri)] = resource.uri
                except UriError:
                    continue

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the server's resources."""
        page = await self._list(
            LIST_RESOURCES, request, PageParams(), lambda result: result.resources, lambda item: item.uri
        )
        self._note(page.items)
        return page

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the server's resource templates."""
        return await self._list(
            LIST_RESOURCE_TEMPLATES,
            request,
            PageParams(),
            lambda result: result.resource_templates,
            lambda item: item.uri_template,
        )

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: the server has no such resource.
            ProtocolError: it answers with another error, or is not available.
        """
        own = self._spell(uri)

        def send(_: object, options: CallOptions) -> Awaitable[ReadResourceResult]:
            return self.client.read_resource(own, **options)

        try:
            result = await self._calls.send(f"read {uri}", request, send)
        except ResourceNotFound as error:
            raise ResourceNotFound(uri) from error
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
        own = self._spell(uri)
        try:
            page = await self._list(
                READ_DIRECTORY,
                request,
                ReadDirectoryParams(uri=own),
                lambda result: result.resources,
                lambda item: item.uri,
                f"directory {uri}",
            )
        except InvalidCursor:
            raise
        except (InvalidParams, ProtocolError) as error:
            if isinstance(error, ProviderUnavailable) or error.code not in (INVALID_PARAMS, -32002):
                raise
            raise ResourceNotFound(uri) from error
        self._note(page.items)
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
            return Completion([])  # nothing goes on from that
        with self._calls.errors():
            return await self.client.complete(reference, argument, value, context)

    # Skills

    async def list_skills(self, request: Request) -> Page[Skill]:
        """Return a page of the server's skills."""
        if not self.offers("list_skills"):
            return Page(())
        page = await self._list(LIST_SKILLS, request, PageParams(), lambda result: result.skills, lambda item: item.uri)
        for skill in page.items:
            self._note([Resource(skill.uri, "SKILL.md")])
            if not isinstance(skill.resources, str):
                self._note([Resource(file.uri, "file") for file in skill.resources])
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
                result = await self.client.session.request(ClientCall(GET_SKILL, GetSkillParams(uri=self._spell(uri))))
        except InvalidParams as error:
            raise ResourceNotFound(uri) from error
        return result.skill

    # Tools and prompts

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of the server's tools."""
        page = await self._list(
            LIST_TOOLS, request, PageParams(), lambda result: self._tools.listed(result.tools), lambda item: item.name
        )
        return for_peer(page, request)

    def call_tool(self, name: str, arguments: Raw, request: Request) -> Awaitable[CallToolResult | msgspec.Struct]:
        """Call a tool, and return its result, or the task that it has become.

        Raises:
            InvalidParams: there is no such tool, or the arguments are not valid.
            ProtocolError: the server answers with another error, or is not available.
        """
        return self._tools.call(name, arguments, request)

    async def list_prompts(self, request: Request) -> Page[Prompt]:
        """Return a page of the server's prompts."""
        return await self._list(
            LIST_PROMPTS, request, PageParams(), lambda result: result.prompts, lambda item: item.name
        )

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> GetPromptResult:
        """Return the messages of a prompt.

        Raises:
            InvalidParams: there is no such prompt, or the arguments are not valid.
        """

        def send(_: object, options: CallOptions) -> Awaitable[GetPromptResult]:
            return self.client.get_prompt(name, arguments, **options)

        return await self._calls.send(f"prompt {name}", request, send)

    # Changes

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield changes of the resources that have subscribers, in batches."""
        changes = RemoteChanges(
            self.client, self.name, interest, self._spell, lambda: self.upkeep.status.name == "ready"
        )
        self._watching.add(changes)
        try:
            async with changes:
                async for batch in changes:
                    yield batch
        finally:
            self._watching.discard(changes)
