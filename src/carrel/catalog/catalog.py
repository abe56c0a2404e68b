"""Catalog of providers: merges their lists, and routes requests to the provider of a URI, a tool or a prompt.

``routes`` finds the provider of a URI. Names of tools and prompts belong to the first provider that has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import msgspec

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.paging import ListMethod, read_cursor, write_cursor
from carrel.catalog.provider import Hit, Page, Provider, Request, forwarding
from carrel.catalog.registry import Registry
from carrel.catalog.routes import check_length, valid_uri
from carrel.catalog.view_filter import filter_page, filter_skill, list_filter
from carrel.errors import (
    InvalidParams,
    MCPError,
    ProviderUnavailable,
    ResourceError,
    ResourceNotFound,
)
from carrel.protocol.methods import LIST_PROMPTS, LIST_RESOURCE_TEMPLATES, LIST_TOOLS, PROVIDER_REQUESTS, RequestType
from carrel.uri.parse import UriError, normalize
from carrel.uri.template import MAX_URI
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.prompts import Prompt
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate
from carrel.wire.tools import Tool

if TYPE_CHECKING:
    from carrel.catalog.registry import Kind
    from carrel.protocol.methods import Verb
    from carrel.wire.base import Result
    from carrel.wire.skills import Skill

__all__ = ["Catalog"]

T = TypeVar("T")


@forwarding(*PROVIDER_REQUESTS)
class Catalog(Registry):
    """Catalog of providers, itself a provider."""

    name = "catalog"

    # Resources

    def read_resource(self, uri: str, request: Request) -> MaybeAwaitable[ReadResourceResult | bytes]:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: no provider has it, or it is hidden from the caller.
            InvalidParams: the text is not a URI.
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
        if "%" in uri or not uri.isascii() or uri.partition(":")[0].lower() in self.routes.schemes:
            try:
                normal = normalize(uri)
            except UriError:
                normal = uri  # a template may match it anyway
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
        """Try the catch-all providers, one after the other."""
        return await self._ask_any(uri, lambda provider: provider.read_resource(uri, request))

    async def _ask_any(self, uri: str, ask: Callable[[Provider], MaybeAwaitable[T]]) -> T:
        """Return the first response of the catch-all providers.

        Raises:
            MCPError: all of them fail: the first error other than "not found".
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

        A page before the last may have fewer entries than the limit, or none.

        Raises:
            InvalidCursor: the cursor did not come from this catalog.
        """
        page = await self.merge("list_resources", request, lambda provider: provider.list_resources)
        return filter_page(page, request, lambda item: item.uri)

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the resource templates that can name something visible to the caller.

        Raises:
            InvalidCursor: the cursor did not come from this catalog.
        """
        page = await self.merge("list_resource_templates", request, lambda provider: provider.list_templates)
        shown = None if request.view is None else list_filter(request.view, LIST_RESOURCE_TEMPLATES).shown
        if shown is None:
            return page
        return msgspec.structs.replace(page, items=[item for item in page.items if shown(item.uri_template)])

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the resources directly inside a directory-like resource.

        Raises:
            ResourceNotFound: there is no such resource, or it has nothing inside, or it is hidden from the caller.
            InvalidParams: the text is not a URI.
            InvalidCursor: the cursor was not issued for this directory.
        """
        normal = valid_uri(uri)
        page = await self._ask_of("list_directory", uri, request, lambda each: each.list_directory(normal, request))
        return filter_page(page, request, lambda item: item.uri)

    async def _ask_of(self, verb: Verb, uri: str, request: Request, ask: Callable[[Provider], MaybeAwaitable[T]]) -> T:
        """Return the answer of the provider of a URI, or of the first catch-all provider that has it."""
        provider = await self._provider_of(verb, uri, request)
        if provider in self.routes.catch_all and not self.routes.owns(provider, valid_uri(uri)):
            return await self._ask_any(uri, ask)
        return await resolved(ask(provider))

    async def _provider_of(self, verb: Verb, uri: str, request: Request) -> Provider:
        """Return the provider of a client's URI.

        Raises:
            ResourceNotFound: no provider has the URI, or it is hidden from the caller.
            InvalidParams: the text is not a URI.
        """
        if self.stale:
            await self.freshen()
        normal = valid_uri(uri)
        provider = self.routes.find(normal, request)
        if provider is None or not request.allows(verb, uri):
            raise ResourceNotFound(normal)
        return provider

    @property
    def guards(self) -> bool:  # type: ignore[override]
        """Whether a provider hides resources from callers for whom there are no access rules."""
        return any(provider.guards for provider in self.providers)

    async def shows(self, uri: str, request: Request) -> bool:
        """Return whether the caller may subscribe to a resource, and what links at its URI lead to is visible."""
        if request.view is None and not self.guards:
            return True
        if request.view is not None and not request.view.allows("subscribe", uri):
            return False
        try:
            normal = valid_uri(uri)
        except InvalidParams:
            return True  # not a URI, which is the error that every caller gets
        provider = self.routes.find(normal, request)
        return provider is None or await resolved(provider.shows(normal, request))

    async def accepts(self, uri: str, request: Request) -> bool:
        """Return whether a request to subscribe succeeds. A hidden resource is treated like an absent one."""
        view = request.view
        if view is None and not self.guards:
            return True
        hidden = None if view is None or view.allows("subscribe", uri) else view
        if hidden is not None and hidden.allows("read", uri):
            return False
        try:
            normal = valid_uri(uri)
        except InvalidParams:
            return True  # not a URI, which is the error that every caller gets
        routes = self.routes
        provider = routes.find(normal, request) if hidden is None else routes.find_absent(normal, hidden)
        return provider is not None and await resolved(provider.accepts(normal, request))

    def is_guarded(self, uri: str) -> bool:
        """Return whether a resource exists for some callers alone."""
        provider = self.routes.find(uri)
        return provider is not None and provider.is_guarded(uri)

    async def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the resources that match a query and are visible to the caller, grouped by provider, best first."""
        hits: list[Hit] = []
        for provider in self.offering("search"):
            room = request.limit - len(hits)
            if room > 0:
                try:
                    page = await resolved(provider.search(query, request.page(None, room)))
                except ProviderUnavailable as error:
                    self.leave_out(error)
                    continue
                hits += filter_page(page, request, lambda hit: hit.resource.uri).items
        return Page(hits)

    # Skills

    async def list_skills(self, request: Request) -> Page[Skill]:
        """Return a page of all skills, with the files that are visible to the caller.

        Raises:
            InvalidCursor: the cursor did not come from this catalog.
        """
        page = await self.merge("list_skills", request, lambda provider: provider.list_skills)
        page = filter_page(page, request, lambda skill: skill.uri)
        return msgspec.structs.replace(page, items=[filter_skill(skill, request) for skill in page.items])

    async def get_skill(self, uri: str, request: Request) -> Skill:
        """Return the skill whose SKILL.md has this URI.

        Raises:
            ResourceNotFound: there is no such skill, or it is hidden from the caller.
            InvalidParams: the text is not a URI.
        """
        normal = valid_uri(uri)
        skill = await self._ask_of("read", uri, request, lambda each: each.get_skill(normal, request))
        return filter_skill(skill, request)

    # Tools, prompts and completion

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of all tools. Of several with one name, the first provider's is listed.

        Raises:
            InvalidCursor: the cursor did not come from this catalog.
        """
        return await self._named(LIST_TOOLS, request)

    async def list_prompts(self, request: Request) -> Page[Prompt]:
        """Return a page of all prompts. Of several with one name, the first provider's is listed.

        Raises:
            InvalidCursor: the cursor did not come from this catalog.
        """
        return await self._named(LIST_PROMPTS, request)

    async def _named(self, row: RequestType, request: Request) -> Page[Any]:
        if self.stale:
            await self.freshen()
        kind, verb = cast("Kind", row.item), row.item_verb
        assert verb is not None

        def own(provider: Provider) -> ListMethod[Any]:
            async def listed(part: Request) -> Page[Any]:
                page: Page[Any] = await resolved(getattr(provider, row.provider_method)(part))
                items = [
                    item
                    for item in page.items
                    if self.find_named(kind, item.name) is provider and request.allows(verb, item.name)
                ]
                return msgspec.structs.replace(page, items=items)

            return listed

        return await self.merge(row.operation, request, own)

    def call_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> MaybeAwaitable[Result | bytes]:
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
        offering = self._offering.get("list_tools") or self.offering("list_tools")
        if len(offering) == 1:
            return offering[0].call_tool(name, arguments, request)
        for provider in offering:  # as in find_named, without its function calls
            names = provider.tool_names
            if name in (self._names["tool"].get(provider.name, ()) if names is None else names):
                return provider.call_tool(name, arguments, request)
        return self._none.call_tool(name, arguments, request)

    def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> MaybeAwaitable[Result | bytes]:
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

    # Requests that need no special handling

    async def forward(self, row: RequestType, request: Request, *arguments: Any) -> Any:
        """Pass a request on to the provider of the resource, tool or prompt that its row names as the target.

        Raises:
            ResourceNotFound: no provider has the resource, or it is hidden from the caller.
            InvalidParams: there is no such tool or prompt.
        """
        method = row.provider_method
        target, *others = arguments
        if row.target == "uri":
            normal = valid_uri(target)
            ask = lambda each: getattr(each, method)(normal, *others, request)  # noqa: E731
            return await self._ask_of(cast("Verb", row.verb), target, request, ask)
        if self.stale:
            await self.freshen()
        allowed = row.verb is not None and request.allows(row.verb, target)
        provider = self.find_named(cast("Kind", row.item), target) if allowed else None
        return await resolved(getattr(provider or self._none, method)(*arguments, request))

    # Lists of all providers

    async def merge(self, listing: str, request: Request, method: Callable[[Provider], ListMethod[T]]) -> Page[T]:
        """Return a page of a list across providers, in the order of their names.

        Unavailable providers are left out; the page is then not cacheable.

        Raises:
            InvalidCursor: the cursor was not issued for this list.
        """
        name, position = ("", None) if request.cursor is None else read_cursor(listing, request.cursor)
        found: list[T] = []
        ttl, scopes = list[float](), set[str | None]()
        providers = [provider for provider in self.providers if provider.name >= name]
        if position is not None and (not providers or providers[0].name != name):
            position = None  # its provider was removed: continue with the next one
        for provider in providers:
            if len(found) >= request.limit:
                return _page(found, write_cursor(listing, provider.name, None), ttl, scopes)
            part, position = request.page(position, request.limit - len(found)), None
            try:
                page = await resolved(method(provider)(part))
            except ProviderUnavailable as error:
                self.leave_out(error)
                ttl.append(0)
                continue
            self.away.discard(provider.name)
            found += page.items
            if page.ttl is not None:
                ttl.append(page.ttl)
            if page.items or page.scope == "private":  # an empty page may depend on the caller too
                scopes.add(page.scope)
            if page.next_cursor is not None:
                return _page(found, write_cursor(listing, provider.name, page.next_cursor), ttl, scopes)
        return _page(found, None, ttl, scopes)


def _page(found: list[T], cursor: str | None, ttl: list[float], scopes: set[str | None]) -> Page[T]:
    """Return a page with the shortest TTL and the narrowest cache scope of its parts."""
    scope: Literal["public", "private"] | None = None
    if "private" in scopes:
        scope = "private"
    elif scopes == {"public"}:
        scope = "public"
    return Page(found, cursor, min(ttl, default=None), scope)
