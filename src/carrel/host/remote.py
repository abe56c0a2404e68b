"""RemoteProvider: a server behind a client, as a provider.

    app.add_provider(RemoteProvider("https://example.org/mcp", name="example"), namespace="ex")

The remote server may speak any revision, and so may the clients of this one. What it asks because of a call goes to the
client that has made the call; progress, cancellation, errors and cache hints are passed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from carrel.catalog.catalog import all_of
from carrel.catalog.provider import Change, Events, Hit, Interest, ListName, Page, Provider, Request
from carrel.client.client import Client
from carrel.client.endpoints import Target
from carrel.client.handlers import ClientCall, Handlers, Progress
from carrel.errors import (
    INVALID_PARAMS,
    ConfigError,
    InvalidCursor,
    InvalidParams,
    MCPError,
    MethodNotFound,
    MissingCapability,
    PeerError,
    ProtocolError,
    ProviderUnavailable,
    ResourceError,
    ResourceNotFound,
    TransportError,
)
from carrel.host.relay import RELAYED, Relay, Relays
from carrel.host.remote_changes import RemoteChanges
from carrel.host.remote_pages import RemotePages
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
#: Seconds that a start waits for a server. One that takes longer is connected to in the background.
PATIENCE = 30.0
#: Seconds that a list waits for a server.
LIST_PATIENCE = 10.0
#: Seconds between attempts to reach a server again: the first pause, and the longest.
PAUSES = (0.5, 30.0)
#: How many URIs that the server has listed are remembered.
MAX_LISTED = 100_000
#: How many of them are learned before anything is listed.
LEARNED = 1000
#: Keys of ``_meta`` that belong to one connection. All others are passed on.
OWN_META = (
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
)


class RemoteProvider(Provider):
    """Provider of what a remote server offers.

    ``client`` is what ``Client`` takes (a URL, a command, a server in this process), with its other ``options``, or a
    client. The client that is made here declares elicitation, sampling and roots; a given one has to have ``handlers``
    for what is to be passed on. ``name`` is stable, for cursors and messages: by default the URL or command.

    A server that cannot be reached at the start is connected to later; until then, lists are without it.

    Raises:
        ConfigError: an option is not valid, or there are options for a client that is there already.
    """

    def __init__(self, client: Client | Target, *, name: str | None = None, **options: Any) -> None:
        if not isinstance(client, Client):
            options.setdefault("handlers", RELAYED)
            client = Client(client, **options)
        elif options:
            raise ConfigError(f"A client has its options already: {', '.join(options)}")
        self.client = client
        self.name = name or client.session.endpoint.shown
        self.tool_names: Container[str] = ()
        self.prompt_names: Container[str] = ()
        self._listed: dict[str, str] = {}
        self.exact = self._listed
        self._pages = RemotePages()
        self._relays = Relays()
        self._events: Events | None = None
        self._following: asyncio.Task[None] | None = None
        self._connected = False
        self._watching: set[RemoteChanges] = set()

    def __repr__(self) -> str:
        return f"RemoteProvider({self.name!r})"

    @property
    def catch_all(self) -> bool:  # type: ignore[override]
        """Whether it is asked for URIs of no provider: the server may have resources that it does not list."""
        return self.offers("read_resource")

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
        self._events = events
        try:
            async with asyncio.timeout(PATIENCE):
                await self.client.session.open()
                await self._learn(LISTS)
        except (TransportError, TimeoutError) as error:
            log.warning("%s is not available yet: %s", self.name, error or f"nothing for {PATIENCE:g} s")
        except MCPError as error:
            await self.client.close()
            raise ConfigError(f"{self.name}: {error}") from error
        except BaseException:
            await self.client.close()
            raise
        self._following = asyncio.ensure_future(self._follow(self._connected))

    async def stop(self) -> None:
        """Close the connection."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        for changes in list(self._watching):
            changes.end()
        await self._relays.stop()
        await self.client.close()
        self._events = None
        self._connected = False

    async def _learn(self, kinds: Collection[str]) -> None:
        """Learn the names and URIs of some lists. What cannot be listed is logged."""
        self._connected = True
        self._pages.forget()
        for kind in kinds:
            try:
                if kind == "tools" and self.offers("list_tools"):
                    self.tool_names = frozenset([tool.name async for tool in all_of(self.list_tools)])
                elif kind == "prompts" and self.offers("list_prompts"):
                    self.prompt_names = frozenset([prompt.name async for prompt in all_of(self.list_prompts)])
                elif kind == "resources" and self.offers("list_resources"):
                    self._listed.clear()
                    count = 0
                    async for _ in all_of(self.list_resources):
                        count += 1
                        if count >= LEARNED:
                            break
            except ProviderUnavailable as error:
                raise TransportError(str(error)) from error
            except MCPError as error:
                log.warning("%s: its %s cannot be listed: %s", self.name, kind, error)

    async def _follow(self, connected: bool) -> None:
        """Keep what is known of the lists up to date, and connect again to a server that was not there."""
        pause, longest = PAUSES
        kinds: Collection[str] = () if connected else LISTS
        while True:
            try:
                await self.client.session.connect()
                if kinds:
                    await self._relearn(kinds)
                async with self.client.watch(lists=("tools", "prompts", "resources")) as changes:
                    pause = PAUSES[0]
                    kinds = LISTS
                    async for change in changes:
                        await self._relearn(LISTS if change.kind == "missed" else [change.kind])
            except (MethodNotFound, PeerError) as error:
                log.debug("%s: its lists are not watched: %s", self.name, error)
                return
            except MCPError as error:
                log.debug("%s: %s", self.name, error)
            except Exception:
                log.exception("%s: watching its lists has failed", self.name)
            kinds = LISTS
            await asyncio.sleep(pause)
            pause = min(longest, pause * 2)

    async def _relearn(self, kinds: Collection[str]) -> None:
        await self._learn(kinds)
        if self._events is not None:
            self._events.publish(lists=[LISTS[kind] for kind in kinds])

    # Requests to the server

    @contextmanager
    def _errors(self, request: Request | None = None) -> Iterator[None]:
        """Turn errors of the server into errors for the client: its own as they are, others with its name."""
        try:
            yield
        except PeerError as error:
            if error.code == INVALID_PARAMS:
                if request is not None and request.cursor is not None:
                    raise InvalidCursor from error
                raise InvalidParams(error.message, error.data) from error
            passed = ProtocolError(error.message, error.data)
            passed.code = error.code
            raise passed from error
        except (MissingCapability, MethodNotFound, InvalidParams, ProviderUnavailable, ResourceError):
            raise
        except UnicodeEncodeError as error:
            raise InvalidParams("Invalid params: it is not valid Unicode") from error
        except (MCPError, TimeoutError) as error:
            log.warning("%s: %s", self.name, error or "no answer in time")
            raise ProviderUnavailable(self.name) from error

    async def _list(
        self,
        row: Row[Any, Any],
        request: Request,
        params: Params,
        items_of: Callable[[Any], Sequence[T]],
        key_of: Callable[[T], str],
        listing: str = "",
    ) -> Page[T]:
        async def fetch(cursor: str | None) -> Any:
            wanted = params if cursor is None else msgspec.structs.replace(params, cursor=cursor)
            with self._errors(request if cursor is not None else None):
                async with asyncio.timeout(LIST_PATIENCE):
                    return await self.client.session.request(ClientCall(row, wanted, LIST_PATIENCE))

        return await self._pages.page(listing or row.operation, request, fetch, items_of, key_of)

    async def _call(
        self, label: str, request: Request, send: Callable[..., Awaitable[T]], *, repeatable: bool = True
    ) -> T:
        """Send a request on behalf of a client, whom the server may ask and notify of progress meanwhile."""
        call = request.call
        timeout = None
        if request.deadline is not None:
            timeout = max(0.0, request.deadline - asyncio.get_running_loop().time())
        options: dict[str, Any] = {"timeout": timeout, "meta": meta_of(request)}
        if call is None or request.contexts is None or request.channel is None:
            with self._errors():
                return await send(**options)

        def relayed(relay: Relay) -> Awaitable[T]:
            wants_progress = call.progress_token is not None
            progress: Progress | None = relay.report if wants_progress else None
            handlers: Handlers | None = RELAYED if can_be_asked(request) else None
            return send(progress=progress, handlers=handlers, user_data=relay, **options)

        with self._errors():
            if not can_be_asked(request) and call.progress_token is None:
                return await send(**options)
            return await self._relays.run(f"{self.name} {label}", request, relayed, repeatable=repeatable)

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

        def send(**options: Any) -> Awaitable[ReadResourceResult]:
            return self.client.read_resource(own, **options)

        try:
            result = await self._call(f"read {uri}", request, send)
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
        return search_names([resource async for resource in all_of(self.list_resources)], query, request)

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
        with self._errors():
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
            with self._errors():
                result = await self.client.session.request(ClientCall(GET_SKILL, GetSkillParams(uri=self._spell(uri))))
        except InvalidParams as error:
            raise ResourceNotFound(uri) from error
        return result.skill

    # Tools and prompts

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of the server's tools. Those that are tasks there are awaited here, and listed without that."""

        def tools(result: Any) -> list[Tool]:
            return [msgspec.structs.replace(tool, execution=None) for tool in result.tools]

        return await self._list(LIST_TOOLS, request, PageParams(), tools, lambda item: item.name)

    async def call_tool(self, name: str, arguments: Raw, request: Request) -> CallToolResult:
        """Call a tool, and return its result.

        Raises:
            InvalidParams: there is no such tool, or the arguments are not valid.
            ProtocolError: the server answers with another error, or is not available.
        """
        given = msgspec.json.decode(arguments, type=dict[str, Any])

        def send(**options: Any) -> Awaitable[CallToolResult]:
            return self.client.call_tool(name, given, **options)

        return await self._call(f"call {name}", request, send, repeatable=False)

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

        def send(**options: Any) -> Awaitable[GetPromptResult]:
            return self.client.get_prompt(name, arguments, **options)

        return await self._call(f"prompt {name}", request, send)

    # Changes

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield changes of the resources that have subscribers, in batches."""
        changes = RemoteChanges(self.client, self.name, interest, self._spell)
        self._watching.add(changes)
        try:
            async with changes:
                async for batch in changes:
                    yield batch
        finally:
            self._watching.discard(changes)


def can_be_asked(request: Request) -> bool:
    """Return whether the client of a request can be asked anything."""
    assert request.call is not None
    capabilities = request.call.peer.capabilities
    return capabilities is not None and any(
        each is not None for each in (capabilities.elicitation, capabilities.sampling, capabilities.roots)
    )


def meta_of(request: Request) -> dict[str, Any] | None:
    """Return the keys of ``_meta`` that are passed on."""
    if request.call is None or not request.call.params.meta:
        return None
    return {key: value for key, value in request.call.meta.items() if key not in OWN_META} or None
