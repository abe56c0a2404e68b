"""Catalog of providers: lists all that they offer as one, and asks the provider of a URI, a tool or a prompt.

``routes`` finds the provider of a URI. Names of tools and prompts belong to the first provider that has them. Providers
come in the order of their names, and may come and go at any time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import msgspec

from carrel.catalog.cursor import read_cursor, write_cursor
from carrel.catalog.provider import Change, Hit, ListName, MaybeAwaitable, Page, Provider, Request
from carrel.catalog.routes import Routes
from carrel.errors import (
    ConfigError,
    InvalidCursor,
    InvalidParams,
    MCPError,
    ProviderUnavailable,
    ResourceError,
    ResourceNotFound,
)
from carrel.log import Log
from carrel.uri.parse import UriError, normalize
from carrel.uri.template import MAX_URI, UriTemplate
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.prompts import GetPromptResult, Prompt
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.protocol.methods import Verb
    from carrel.wire.skills import Skill

__all__ = ["Catalog", "all_of", "valid_uri"]

T = TypeVar("T")
Kind: TypeAlias = Literal["tool", "prompt"]
Listener: TypeAlias = Callable[[Iterable[Change], Iterable[ListName]], None]
ListMethod: TypeAlias = Callable[[Request], MaybeAwaitable[Page[T]]]

#: Lists of a provider by which the catalog finds things, if the provider does not keep that up to date itself.
LISTS: Mapping[Kind, str] = {"tool": "list_tools", "prompt": "list_prompts"}
#: Verbs for the use of tools and prompts.
USES: Mapping[Kind, Verb] = {"tool": "call", "prompt": "get"}
#: Entries per page that are asked for to learn what a provider has.
LEARNED = 1000
log = Log("carrel")


class _Events:
    """Events of one provider in a catalog."""

    def __init__(self, catalog: Catalog, provider: Provider) -> None:
        self._catalog = catalog
        self._provider = provider

    def publish(self, changes: Iterable[Change] = (), lists: Iterable[ListName] = ()) -> None:
        """Report changes of resources, and which lists have changed."""
        self._catalog.publish(self._provider, changes, tuple(lists))


class _Known(Container[str]):
    """URIs, or names, that a catalog has a provider for."""

    def __init__(self, knows: Callable[[str], bool]) -> None:
        self._knows = knows

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._knows(name)


class Catalog(Provider):
    """Catalog of providers, itself a provider.

    ``listener`` is called with every change that a provider reports, maybe from another thread.
    """

    name = "catalog"

    def __init__(self, listener: Listener | None = None) -> None:
        self._listener = listener
        self.routes = Routes()
        """Finds the provider of a URI."""
        self.only: Provider | None = None
        """The only provider, where there is one."""
        self.exact = _Known(self.routes.exists)
        self.tool_names = _Known(lambda name: self._has("tool", name))
        self.prompt_names = _Known(lambda name: self._has("prompt", name))
        self._providers: dict[str, Provider] = {}
        self._offering: dict[str, tuple[Provider, ...]] = {}
        self._names: dict[Kind, dict[str, Mapping[str, Provider]]] = {"tool": {}, "prompt": {}}
        self._away: set[str] = set()
        self.stale: set[str] = set()
        """Names of providers whose templates and names have changed; ``freshen`` reads them."""

    # Providers

    @property
    def providers(self) -> Sequence[Provider]:
        """All providers, in the order of their names."""
        return tuple(self._providers.values())

    def get(self, name: str) -> Provider | None:
        """Return the provider of a name, or None."""
        return self._providers.get(name)

    async def add(self, provider: Provider) -> None:
        """Start a provider, and add it.

        Raises:
            ConfigError: there is a provider of that name, or it cannot be started.
        """
        self._check(provider.name)
        await provider.start(_Events(self, provider))
        try:
            self._check(provider.name)  # it may get its name when it starts
            self.put(provider)
            try:
                await self.learn(provider)
            except ProviderUnavailable as error:
                self._leave_out(error)  # it reports its lists when it is there
            except BaseException:
                self.take(provider.name)
                raise
        except BaseException:
            await provider.stop()
            raise

    def _check(self, name: str) -> None:
        if name in self._providers:
            raise ConfigError(f"There is a provider {name} already")

    def put(self, provider: Provider) -> None:
        """Add a provider that is running, without learning what it has."""
        self._providers = dict(sorted([*self._providers.items(), (provider.name, provider)]))
        self._index()

    async def remove(self, name: str) -> None:
        """Remove a provider, and stop it.

        Raises:
            KeyError: there is none of that name.
        """
        await self.take(name).stop()

    def take(self, name: str) -> Provider:
        """Remove a provider without stopping it, and return it.

        Raises:
            KeyError: there is none of that name.
        """
        providers = dict(self._providers)
        provider = providers.pop(name)
        self._providers = providers
        self.stale.discard(name)
        for names in self._names.values():
            names.pop(name, None)
        self.routes.route(provider, ())
        self._index()
        return provider

    def _index(self) -> None:
        providers = self.providers
        self.only = providers[0] if len(providers) == 1 else None
        self.routes.index(providers)
        self._offering.clear()

    def offering(self, method: str) -> tuple[Provider, ...]:
        """Return the providers that implement a method of ``Provider``."""
        found = self._offering.get(method)
        if found is None:
            found = self._offering[method] = tuple(one for one in self.providers if one.offers(method))
        return found

    def offers(self, method: str) -> bool:
        """Return whether a provider implements a method."""
        return bool(self.offering(method))

    # Changes

    def publish(self, provider: Provider, changes: Iterable[Change], lists: Sequence[ListName]) -> None:
        """Pass on what a provider reports. May be called from any thread."""
        if lists and (provider.tool_names is None or provider.prompt_names is None or not provider.prefixes):
            self.stale.add(provider.name)
        if lists:
            self._offering.clear()
        if self._listener is not None:
            self._listener(changes, lists)

    async def freshen(self) -> None:
        """Learn again what providers have whose lists have changed."""
        while self.stale:
            provider = self._providers.get(self.stale.pop())
            if provider is None:
                continue
            try:
                await self.learn(provider)
            except MCPError as error:  # what was known before holds until it reports its lists again
                log.warning("%s: what it has is not known: %s", provider.name, error)

    async def learn(self, provider: Provider) -> None:
        """Learn by which templates URIs of a provider are found, and the names of its tools and prompts."""
        if provider.offers("list_templates"):
            self.routes.route(provider, [found.uri_template async for found in all_of(provider.list_templates)])
        if provider.tool_names is None and provider.offers("list_tools"):
            self._names["tool"][provider.name] = {tool.name: provider async for tool in all_of(provider.list_tools)}
        if provider.prompt_names is None and provider.offers("list_prompts"):
            prompts = {prompt.name: provider async for prompt in all_of(provider.list_prompts)}
            self._names["prompt"][provider.name] = prompts

    # Looking up

    def find_named(self, kind: Kind, name: str) -> Provider | None:
        """Return the provider of a tool or prompt, or None."""
        offering = self.offering(LISTS[kind])
        if len(offering) == 1:
            return offering[0]
        return next((provider for provider in offering if self._names_has(kind, provider, name)), None)

    def _names_has(self, kind: Kind, provider: Provider, name: str) -> bool:
        names = provider.tool_names if kind == "tool" else provider.prompt_names
        return name in (self._names[kind].get(provider.name, ()) if names is None else names)

    def _has(self, kind: Kind, name: str) -> bool:
        return any(self._names_has(kind, provider, name) for provider in self.offering(LISTS[kind]))

    # Resources

    def read_resource(self, uri: str, request: Request) -> MaybeAwaitable[ReadResourceResult | bytes]:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: no provider has it, or it is hidden from the caller.
            InvalidParams: it is not a URI.
        """
        if request.view is not None and not request.view.allows("read", uri):
            raise ResourceNotFound(uri)
        for provider in self.routes.exact:
            if uri in provider.exact:
                return provider.read_resource(uri, request)
        return self._read_other(uri, request)

    def _read_other(self, uri: str, request: Request) -> MaybeAwaitable[ReadResourceResult | bytes]:
        if self.stale:
            return self._read_fresh(uri, request)
        if len(uri) > MAX_URI:
            check_length(uri)
        if "%" in uri or not uri.isascii() or self.routes.prefixes:
            try:
                normal = normalize(uri)
            except UriError:
                normal = uri  # a template may take it all the same
            for provider in self.routes.exact:
                if normal in provider.exact:  # the same URI in another spelling
                    return provider.read_resource(normal, request)
            found = self.routes.find_by_prefix(normal)
            if found is not None:
                return found.read_resource(normal, request)
        found = self.routes.find_by_template(uri, request)
        if found is not None:
            return found.read_resource(uri, request)
        normal = valid_uri(uri)
        for provider in self.routes.exact:
            if normal in provider.exact:
                return provider.read_resource(normal, request)
        if self.routes.catch_all:
            return self._read_any(normal, request)
        raise ResourceNotFound(uri)

    async def _read_fresh(self, uri: str, request: Request) -> ReadResourceResult | bytes:
        await self.freshen()
        return await resolved(self._read_other(uri, request))

    async def _read_any(self, uri: str, request: Request) -> ReadResourceResult | bytes:
        """Ask the providers that take any URI, one after the other."""
        return await self._ask_any(uri, lambda provider: provider.read_resource(uri, request))

    async def _ask_any(self, uri: str, ask: Callable[[Provider], MaybeAwaitable[T]]) -> T:
        """Return the first answer of the providers that take any URI.

        Raises:
            MCPError: all of them refuse: the first error that says more than that there is no such resource.
        """
        refused: MCPError | None = None
        for provider in self.routes.catch_all:
            try:
                return await resolved(ask(provider))
            except MCPError as error:
                if refused is None or (isinstance(refused, ResourceNotFound) and not isinstance(error, ResourceError)):
                    refused = error
        raise refused or ResourceNotFound(uri)

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of all resources that are visible to the caller.

        A page may hold fewer entries than others, or none, and yet not be the last.

        Raises:
            InvalidCursor: the cursor was not given out here.
        """
        page = await self.merge("list_resources", request, lambda provider: provider.list_resources)
        return _page_shown(page, request, lambda item: item.uri)

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the resource templates that can name something visible to the caller.

        Raises:
            InvalidCursor: the cursor was not given out here.
        """
        page = await self.merge("list_resource_templates", request, lambda provider: provider.list_templates)
        return _page_shown(page, request, lambda item: UriTemplate(item.uri_template).place({}))

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the resources directly inside a directory-like resource.

        Raises:
            ResourceNotFound: there is no such resource, or it has nothing inside, or it is hidden from the caller.
            InvalidParams: it is not a URI.
            InvalidCursor: the cursor was not given out for this directory.
        """
        normal = valid_uri(uri)
        page = await self._ask_of("list_directory", uri, request, lambda each: each.list_directory(normal, request))
        return _page_shown(page, request, lambda item: item.uri)

    async def _ask_of(self, verb: Verb, uri: str, request: Request, ask: Callable[[Provider], MaybeAwaitable[T]]) -> T:
        """Return the answer of the provider of a URI, or of the first that has it of those that take any."""
        provider = await self._provider_of(verb, uri, request)
        if provider in self.routes.catch_all and not self.routes.owns(provider, valid_uri(uri)):
            return await self._ask_any(uri, ask)
        return await resolved(ask(provider))

    async def _provider_of(self, verb: Verb, uri: str, request: Request) -> Provider:
        """Return the provider of a client's URI.

        Raises:
            ResourceNotFound: there is none, or it is hidden from the caller.
            InvalidParams: it is not a URI.
        """
        if self.stale:
            await self.freshen()
        normal = valid_uri(uri)
        provider = self.routes.find(normal, request)
        if provider is None or not request.allows(verb, uri):
            raise ResourceNotFound(normal)
        return provider

    async def shows(self, uri: str, request: Request) -> bool:
        """Return whether the caller may subscribe to a resource, and what links at its URI lead to is visible."""
        if request.view is None:
            return True
        if not request.view.allows("subscribe", uri):
            return False
        try:
            normal = valid_uri(uri)
        except InvalidParams:
            return True  # not a URI, which is the error that every caller gets
        provider = self.routes.find(normal, request)
        return provider is None or await resolved(provider.shows(normal, request))

    async def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the resources that match a query and are visible to the caller, those of each provider best first."""
        hits: list[Hit] = []
        for provider in self.offering("search"):
            room = request.limit - len(hits)
            if room > 0:
                try:
                    page = await resolved(provider.search(query, request.page(None, room)))
                except ProviderUnavailable as error:
                    self._leave_out(error)
                    continue
                hits += _page_shown(page, request, lambda hit: hit.resource.uri).items
        return Page(hits)

    # Skills

    async def list_skills(self, request: Request) -> Page[Skill]:
        """Return a page of all skills, and of their files those that are visible to the caller.

        Raises:
            InvalidCursor: the cursor was not given out here.
        """
        page = await self.merge("list_skills", request, lambda provider: provider.list_skills)
        page = _page_shown(page, request, lambda skill: skill.uri)
        return msgspec.structs.replace(page, items=[_skill_shown(skill, request) for skill in page.items])

    async def get_skill(self, uri: str, request: Request) -> Skill:
        """Return the skill whose SKILL.md has this URI.

        Raises:
            ResourceNotFound: there is no such skill, or it is hidden from the caller.
            InvalidParams: it is not a URI.
        """
        normal = valid_uri(uri)
        skill = await self._ask_of("read", uri, request, lambda each: each.get_skill(normal, request))
        return _skill_shown(skill, request)

    # Tools, prompts and completion

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of all tools. Of several with one name, the first provider's is listed.

        Raises:
            InvalidCursor: the cursor was not given out here.
        """
        return await self._named("tool", request, lambda provider: provider.list_tools)

    async def list_prompts(self, request: Request) -> Page[Prompt]:
        """Return a page of all prompts. Of several with one name, the first provider's is listed.

        Raises:
            InvalidCursor: the cursor was not given out here.
        """
        return await self._named("prompt", request, lambda provider: provider.list_prompts)

    async def _named(self, kind: Kind, request: Request, method: Callable[[Provider], ListMethod[T]]) -> Page[T]:
        if self.stale:
            await self.freshen()

        def own(provider: Provider) -> ListMethod[T]:
            async def listed(part: Request) -> Page[T]:
                page = await resolved(method(provider)(part))
                items = [
                    item
                    for item in page.items
                    if self.find_named(kind, name := cast("Any", item).name) is provider
                    and request.allows(USES[kind], name)
                ]
                return msgspec.structs.replace(page, items=items)

            return listed

        return await self.merge(LISTS[kind], request, own)

    def call_tool(
        self, name: str, arguments: msgspec.Raw, request: Request
    ) -> MaybeAwaitable[CallToolResult | msgspec.Struct | bytes]:
        """Call a tool.

        Raises:
            InvalidParams: there is no such tool, or the arguments are not valid.
        """
        if request.view is not None and not request.view.allows("call", name):
            return self._none.call_tool(name, arguments, request)
        if self.only is not None:
            return self.only.call_tool(name, arguments, request)
        if self.stale:
            return self._when_fresh(lambda: self.call_tool(name, arguments, request))
        provider = self.find_named("tool", name)
        return (provider or self._none).call_tool(name, arguments, request)

    def get_prompt(
        self, name: str, arguments: Mapping[str, str], request: Request
    ) -> MaybeAwaitable[GetPromptResult | msgspec.Struct | bytes]:
        """Return the messages of a prompt.

        Raises:
            InvalidParams: there is no such prompt, or the arguments are not valid.
        """
        if self.stale:
            return self._when_fresh(lambda: self.get_prompt(name, arguments, request))
        provider = self.find_named("prompt", name) if request.allows("get", name) else None
        return (provider or self._none).get_prompt(name, arguments, request)

    _none = Provider()

    async def _when_fresh(self, ask: Callable[[], MaybeAwaitable[T]]) -> T:
        await self.freshen()
        return await resolved(ask())

    def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> MaybeAwaitable[Completion]:
        """Return suggestions for a variable of a template or an argument of a prompt. Some may name hidden resources.

        Raises:
            InvalidParams: there is no such template, prompt or argument.
        """
        if self.stale:
            return self._when_fresh(lambda: self.complete(reference, argument, value, context, request))
        if isinstance(reference, PromptReference):
            provider = self.find_named("prompt", reference.name)
            if provider is None or not request.allows("get", reference.name):
                raise InvalidParams(f"Invalid params: unknown prompt: {reference.name[:200]}", parameter="name")
        else:
            provider = self.routes.owner_of_template(reference.uri, request)
            if provider is None:
                return Completion([])  # a URI without variables: nothing is left to complete
        return provider.complete(reference, argument, value, context, request)

    # Lists of all providers

    async def merge(self, listing: str, request: Request, method: Callable[[Provider], ListMethod[T]]) -> Page[T]:
        """Return a page of a list across providers, in the order of their names.

        Providers that are not available are left out, and the page may then not be kept.

        Raises:
            InvalidCursor: the cursor was not given out for this list.
        """
        name, position = ("", None) if request.cursor is None else read_cursor(listing, request.cursor)
        found: list[T] = []
        ttl, scopes = list[float](), set[str | None]()
        providers = [provider for provider in self.providers if provider.name >= name]
        if position is not None and (not providers or providers[0].name != name):
            position = None  # its provider has left: the list goes on with the next one
        for provider in providers:
            if len(found) >= request.limit:
                return _page(found, write_cursor(listing, provider.name, None), ttl, scopes)
            part, position = request.page(position, request.limit - len(found)), None
            try:
                page = await resolved(method(provider)(part))
            except ProviderUnavailable as error:
                self._leave_out(error)
                ttl.append(0)
                continue
            self._away.discard(provider.name)
            found += page.items
            if page.ttl is not None:
                ttl.append(page.ttl)
            if page.items:
                scopes.add(page.scope)
            if page.next_cursor is not None:
                return _page(found, write_cursor(listing, provider.name, page.next_cursor), ttl, scopes)
        return _page(found, None, ttl, scopes)

    def _leave_out(self, error: ProviderUnavailable) -> None:
        """Log that a provider is not available, once until it is again."""
        if error.provider not in self._away:
            self._away.add(error.provider)
            log.warning("%s; lists are without what it offers", error)


def _page_shown(page: Page[T], request: Request, uri_of: Callable[[T], str]) -> Page[T]:
    """Return a page with those of its entries that the caller may list."""
    view = request.view
    if view is None or not view.hides:
        return page
    return msgspec.structs.replace(page, items=[item for item in page.items if view.allows("list", uri_of(item))])


def _page(found: list[T], cursor: str | None, ttl: list[float], scopes: set[str | None]) -> Page[T]:
    """Return a page that may be kept for as long as each of its parts, by those who may keep all of them."""
    scope: Literal["public", "private"] | None = None
    if "private" in scopes:
        scope = "private"
    elif scopes == {"public"}:
        scope = "public"
    return Page(found, cursor, min(ttl, default=None), scope)


def _skill_shown(skill: Skill, request: Request) -> Skill:
    """Return a skill with those of its files that are visible to the caller."""
    if request.view is None or isinstance(skill.resources, str):
        return skill
    return msgspec.structs.replace(
        skill, resources=[file for file in skill.resources if request.allows("read", file.uri)]
    )


async def resolved(result: MaybeAwaitable[T]) -> T:
    """Return a result, which may have to be waited for."""
    return cast("T", await result if hasattr(result, "__await__") else result)


async def all_of(method: ListMethod[T], request: Request | None = None) -> AsyncIterator[T]:
    """Yield all entries of a list of a provider, page by page.

    Raises:
        InvalidCursor: a cursor leads back to where the list has been.
    """
    request = request or Request()
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        page = await resolved(method(request.page(cursor, LEARNED)))
        for item in page.items:
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return
        if cursor in seen:
            raise InvalidCursor("The cursor of a list leads back to where it has been")
        seen.add(cursor)


def check_length(uri: str) -> None:
    """Check the length of a client's URI.

    Raises:
        InvalidParams: it is too long.
    """
    if len(uri) > MAX_URI:
        message = f"Invalid params: uri has more than {MAX_URI} characters"
        raise InvalidParams(message, {"uri": uri[:1000]}, parameter="uri")


def valid_uri(uri: str) -> str:
    """Return the normal form of a client's URI.

    Raises:
        InvalidParams: it is too long, or not a URI at all.
    """
    check_length(uri)
    try:
        return normalize(uri)
    except UriError as error:
        raise InvalidParams(f"Invalid params: uri: {error}", {"uri": uri[:1000]}, parameter="uri") from None
