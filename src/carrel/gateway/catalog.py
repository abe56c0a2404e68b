"""GatewayCatalog: catalog of the servers of a gateway, which finds the server of a name or URI by an index."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw, Struct

from carrel.catalog.access import may_reach
from carrel.catalog.paging import resolved
from carrel.catalog.provider import ListChanges, ListName, MaybeAwaitable, Page, Provider, Request
from carrel.catalog.registry import Kind
from carrel.catalog.routes import valid_uri
from carrel.errors import InvalidParams, MCPError, MethodNotFound, ProviderUnavailable, ResourceError, ResourceNotFound
from carrel.gateway.list_ahead import ListAhead
from carrel.gateway.names import NameKind, Names
from carrel.gateway.upstream import MAX_URIS, Upstream, key_of
from carrel.host.catalog import HostCatalog
from carrel.host.remote import NEEDED
from carrel.log import Log
from carrel.protocol.methods import SUBSCRIBE
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.prompts import GetPromptResult
from carrel.wire.resources import ReadResourceResult, ResourceTemplate
from carrel.wire.tools import CallToolResult

if TYPE_CHECKING:
    from carrel.catalog.provider import Change, Recipients
    from carrel.protocol.methods import Verb

__all__ = ["GatewayCatalog"]

log = Log("carrel.gateway")

T = TypeVar("T")

#: Seconds that the servers have to answer for a URI that is not known.
ANY_PATIENCE = 15.0
#: Seconds that the other servers have to answer, after the first one has, for a URI that is not known.
OTHERS_PATIENCE = 2.0
#: What is offered to clients while it is not known what a server offers.
USUAL = NEEDED.keys() - {"complete", "search", "watch"}
#: The list that tells clients that names of a kind are others.
LIST_OF: Mapping[NameKind, ListName] = {
    "tool": "tools_list_changed",
    "prompt": "prompts_list_changed",
    "uri": "resources_list_changed",
    "template": "resources_list_changed",
}


class _Known(Container[str]):
    def __init__(self, knows: Callable[[str], bool]) -> None:
        self._knows = knows

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._knows(name)


class GatewayCatalog(HostCatalog):
    """Catalog of the servers of a gateway: ``Upstream`` is what it has of each.

    ``settle`` is awaited before names are looked up that are not known: it connects to servers that are idle.
    ``waits`` returns whether there are servers of which it is not known yet what they offer.
    """

    name = "gateway"
    catch_all = True
    guards = True
    """Subscriptions ask ``shows``, which knows what is ambiguous."""

    def __init__(self, names: Names, settle: Callable[[], Awaitable[None]], waits: Callable[[], bool]) -> None:
        super().__init__()
        self.names = names
        self.exact = ()
        self.tool_names = _Known(lambda name: self._knows("tool", name))
        self.prompt_names = _Known(lambda name: self._knows("prompt", name))
        self._settle = settle
        self._waits = waits
        self._templates: dict[str, Sequence[ResourceTemplate]] = {}
        self._patterns: dict[str, list[tuple[str, UriTemplate]]] = {}
        """Servers and their templates, by the scheme of the templates; "" for those that begin with a variable."""
        self._learning: dict[str, asyncio.Task[None]] = {}

    # What servers have

    def offers(self, method: str) -> bool:
        """Return whether a server offers what a method needs, or may turn out to."""
        return super().offers(method) or (method in USUAL and self._waits())

    def publish(
        self, provider: Provider, changes: Iterable[Change], lists: ListChanges, recipients: Recipients | None = None
    ) -> None:
        """Take over what a server has now, and pass on that its lists have changed."""
        if lists and recipients is None and isinstance(provider, Upstream):
            provider.learn(lists)
            if "resources_list_changed" in lists and self.get(provider.name) is provider:
                self._learn_later(provider)
        self._offering.clear()
        self._report(changes, lists, recipients=recipients)

    def announce(self, kind: NameKind) -> None:
        """Notify clients that names are not what they were."""
        self._report((), {LIST_OF[kind]: None})

    def take(self, name: str) -> Provider:
        """Remove a server.

        Raises:
            KeyError: there is none of that name.
        """
        learning = self._learning.pop(name, None)
        if learning is not None:
            learning.cancel()
        if self._templates.pop(name, None) is not None:
            self._index_templates()
        return super().take(name)

    def _learn_later(self, upstream: Upstream) -> None:
        before = self._learning.get(upstream.name)
        if before is not None:
            before.cancel()
        task = self._learning[upstream.name] = asyncio.ensure_future(self._learn(upstream))
        task.add_done_callback(
            lambda _: self._learning.get(upstream.name) is task and self._learning.pop(upstream.name)
        )

    async def _learn(self, upstream: Upstream) -> None:
        """Learn the templates of a server, by which its URIs are found, and its skills."""
        try:
            if upstream.offers("list_templates"):
                found = await upstream.templates()
                self.names.replace("template", upstream.name, [template.uri_template for template in found])
                self._templates[upstream.name] = found
                self._index_templates()
            if upstream.offers("list_skills"):
                await upstream.list_skills(Request(limit=1000))
        except MCPError as error:
            log.debug("%s: its templates are not known: %s", upstream.name, error)
        else:
            self._report((), {"resources_list_changed": None})

    async def settled(self) -> None:
        """Wait until what the connected servers have is known."""
        while self._learning:
            await asyncio.wait(list(self._learning.values()))

    # Looking up

    def _owner(self, kind: NameKind, name: str) -> Provider | None:
        """Return the server of a name; None if none is known to have it.

        Raises:
            InvalidParams: several have it.
            ProviderUnavailable: it is not connected.
        """
        found = self.names.find(kind, name)
        if found is not None:
            provider = self.get(found[0])
            if provider is None:
                raise ProviderUnavailable(found[0])
            return provider
        self._refuse(kind, name, self.names.candidates(kind, name))
        return None

    def _refuse(self, kind: NameKind, name: str, candidates: list[str]) -> None:
        if candidates:
            raise InvalidParams(
                f"Invalid params: {name[:200]} is not unique here; say which one: {', '.join(candidates[:20])}",
                {"candidates": candidates[:20]},
                parameter="uri" if kind in ("uri", "template") else "name",
            )

    def _knows(self, kind: NameKind, name: str) -> bool:
        return bool(self.names.holders(kind, name)) or self.names.find(kind, name) is not None or self._waits()

    def find_named(self, kind: Kind, name: str) -> Provider | None:
        """Return the server of a tool or prompt; None if there is none, or more than one."""
        found = self.names.find(kind, name)
        return None if found is None else self.get(found[0])

    def _index_templates(self) -> None:
        self._patterns = {}
        for server, templates in self._templates.items():
            for pattern in _parsed(server, templates):
                scheme = pattern.prefix.partition(":")[0] if ":" in pattern.prefix else ""
                self._patterns.setdefault(scheme, []).append((server, pattern))

    def matching(self, uri: str, *, plain: bool = False) -> set[str]:
        """Return the servers with a template that matches a URI; ``plain``: that clients see without a prefix."""
        if not self._patterns:
            return set()
        patterns = self._patterns.get(uri.partition(":")[0], []) + self._patterns.get("", [])
        return {
            server
            for server, pattern in patterns
            if uri.startswith(pattern.prefix)
            and pattern.match(uri) is not None
            and not (plain and not self.names.is_plain("template", server, pattern.template))
        }

    def find_uri(self, uri: str) -> Provider | None:
        """Return the server of a client's URI; None if any may have it.

        Raises:
            InvalidParams: it is not a URI, or several servers have it.
            ProviderUnavailable: its server is not connected.
        """
        normal = valid_uri(uri)
        owner = self._owner("uri", normal)
        if owner is not None and (self.names.mode == "never" or not self.names.has("uri", owner.name, normal)):
            return owner  # by its prefix
        if owner is not None:
            servers = {owner.name} | self.matching(uri, plain=True)
        else:
            servers = self.matching(uri) or (set() if normal == uri else self.matching(normal))
        if len(servers) == 1 and self.names.mode != "always":
            return self.get(next(iter(servers)))
        self._refuse("uri", uri, [self.names.prefixed("uri", server, uri) for server in sorted(servers)])
        return None

    def may_own(self, provider: Provider, uri: str) -> bool:
        """Return whether a URI in normal form may be one of a server.

        A URI that is not unique any more stays that of all its servers for those who have subscribed to it.
        """
        try:
            found = self.find_uri(uri)
        except MCPError:
            return provider.name in self.names.holders("uri", uri)
        return found is provider or (found is None and provider.catch_all)

    # Requests

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the resource templates. A server that learns them gets those that are known."""
        if request.call is not None:
            return await super().list_templates(request)
        known = [(self.get(server), templates) for server, templates in self._templates.items()]
        return Page([one for each, some in known if isinstance(each, Upstream) for one in each.shown(some)])

    def read_resource(self, uri: str, request: Request) -> MaybeAwaitable[ReadResourceResult | bytes]:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: no server has it, or it is hidden from the caller.
            InvalidParams: it is not a URI, or several servers have it.
        """
        if request.view is not None and not request.view.allows("read", uri):
            raise ResourceNotFound(uri)
        return self._ask_of("read", uri, request, lambda provider: provider.read_resource(uri, request))

    async def _ask_of(self, verb: Verb, uri: str, request: Request, ask: Callable[[Provider], MaybeAwaitable[T]]) -> T:
        if not request.allows(verb, uri):
            raise ResourceNotFound(uri)
        try:
            found = self.find_uri(uri)
        except ProviderUnavailable:
            found = None
        if found is None:
            await self._settle()
            found = self.find_uri(uri)
        if found is not None:
            return await resolved(ask(found))
        return await self._ask_any(uri, ask)

    async def _ask_any(self, uri: str, ask: Callable[[Provider], MaybeAwaitable[T]]) -> T:
        """Ask all servers for a URI that none of them has listed, and remember which one has it.

        Raises:
            InvalidParams: several have it.
            MCPError: all of them refuse: the first error that says more than that there is no such resource.
        """

        async def one(provider: Provider) -> T:
            return await resolved(ask(provider))

        able = [each for each in self.providers if each.catch_all and (not isinstance(each, Upstream) or each.answers)]
        asked = {asyncio.ensure_future(one(provider)): provider for provider in able}
        if not asked:
            raise ResourceNotFound(uri)
        try:
            waiting, has = set(asked), list[asyncio.Task[T]]()
            while waiting:
                done, waiting = await asyncio.wait(
                    waiting, timeout=OTHERS_PATIENCE if has else ANY_PATIENCE, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                has += [task for task in done if not task.cancelled() and task.exception() is None]
        finally:
            for task in asked:
                task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        if has:
            servers = sorted(asked[task].name for task in has)
            for server in servers:
                self.names.note("uri", server, (key_of(uri),), MAX_URIS)
            if len(servers) > 1:
                self._refuse("uri", uri, [self.names.prefixed("uri", server, uri) for server in servers])
            return has[0].result()
        errors = [error for task in asked if not task.cancelled() and (error := task.exception()) is not None]
        raise next(
            (error for error in errors if not isinstance(error, (ResourceError, ProviderUnavailable))), None
        ) or (ResourceNotFound(uri))

    async def shows(self, uri: str, request: Request) -> bool:
        """Return whether a resource can be subscribed to: the caller may, and it is of one server, which can tell.

        Raises:
            MCPError: it cannot be, where the request is for this one resource alone.
        """
        if request.view is not None and not request.view.allows("subscribe", uri):
            return False
        try:
            found = self.find_uri(uri)
            if isinstance(found, Upstream) and not found.tells:
                raise MethodNotFound(f"Method not found: {found.name} does not offer subscriptions")
        except MCPError:
            if request.call is not None and request.call.request.operation == SUBSCRIBE.operation:
                raise
            return False
        return found is None or await resolved(found.shows(uri, request))

    def call_tool(self, name: str, arguments: Raw, request: Request) -> MaybeAwaitable[CallToolResult | Struct | bytes]:
        """Call a tool.

        Raises:
            InvalidParams: there is no such tool, several servers have it, or the arguments are not valid.
        """
        if request.view is not None and not request.view.allows("call", name):
            return self._none.call_tool(name, arguments, request)
        found = self.names.find("tool", name)
        owner = None if found is None else self.get(found[0])
        if owner is not None:
            return owner.call_tool(name, arguments, request)
        return self._later("tool", name, lambda provider: provider.call_tool(name, arguments, request))

    def get_prompt(
        self, name: str, arguments: Mapping[str, str], request: Request
    ) -> MaybeAwaitable[GetPromptResult | Struct | bytes]:
        """Return the messages of a prompt.

        Raises:
            InvalidParams: there is no such prompt, several servers have it, or the arguments are not valid.
        """
        if not request.allows("get", name):
            return self._none.get_prompt(name, arguments, request)
        return self._later("prompt", name, lambda provider: provider.get_prompt(name, arguments, request))

    async def _later(self, kind: Kind, name: str, ask: Callable[[Provider], MaybeAwaitable[T]]) -> T:
        try:
            owner = self._owner(kind, name)
        except ProviderUnavailable:
            owner = None
        if owner is None:
            await self._settle()
            owner = self._owner(kind, name)
        return await resolved(ask(owner or self._none))

    async def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> Completion:
        """Return suggestions for a variable of a template or an argument of a prompt.

        Raises:
            InvalidParams: there is no such template, prompt or argument, or several servers have it.
        """
        await self._settle()
        prompt = isinstance(reference, PromptReference)
        kind: NameKind = "prompt" if prompt else "template"
        name: str = reference.name if isinstance(reference, PromptReference) else reference.uri
        owner = self._owner(kind, name)
        if owner is None and not prompt and self.names.find("uri", key_of(name)) is not None:
            return Completion([])  # a URI without variables: nothing is left to complete
        view = request.view
        if view is not None and owner is not None:
            shown = view.allows("get", name) if prompt else may_reach(view, "complete", UriTemplate(name))
            owner = owner if shown else None
        if owner is None:
            raise InvalidParams(f"Invalid params: unknown {kind}: {name[:200]}", parameter="ref")
        return await resolved(owner.complete(reference, argument, value, context, request))

    async def merge(self, listing: str, request: Request, method: Callable[[Provider], Any]) -> Page[Any]:
        """Return a page of a list across servers, in the order of their names. They are asked in parallel.

        Raises:
            InvalidCursor: the cursor was not given out for this list.
        """
        await self._settle()
        ahead = ListAhead(self.providers, request, method)
        try:
            return await super().merge(listing, request, ahead.list_of)
        finally:
            await ahead.close()


def _parsed(server: str, templates: Iterable[ResourceTemplate]) -> Iterable[UriTemplate]:
    for template in templates:
        try:
            yield UriTemplate(template.uri_template)
        except UriTemplateError as error:
            log.warning("%s: %s is not a URI template: %s", server, template.uri_template, error)
