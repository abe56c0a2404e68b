"""GatewayCatalog: catalog of a gateway's servers, with an index that maps names and URIs to servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.access import may_reach
from carrel.catalog.provider import ListChanges, Page, Provider, Request
from carrel.catalog.registry import Kind
from carrel.catalog.routes import valid_uri
from carrel.errors import InvalidParams, MCPError, MethodNotFound, ProviderUnavailable, ResourceError, ResourceNotFound
from carrel.gateway.learning import NameLearning
from carrel.gateway.list_ahead import ListAhead
from carrel.gateway.names import NameKind, Names
from carrel.gateway.upstream import MAX_URIS, UpstreamTransform
from carrel.host.catalog import HostCatalog
from carrel.host.remote import RemoteProvider
from carrel.log import Log
from carrel.policy.server_view import GatewayTarget
from carrel.protocol.methods import COMPLETE, LIST_NAMES, PROVIDER_REQUESTS, SUBSCRIBE
from carrel.uri.parse import normal_form
from carrel.uri.template import UriTemplate
from carrel.wire.base import Result
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.resources import ReadResourceResult, ResourceTemplate

if TYPE_CHECKING:
    from carrel.catalog.provider import Change, Recipients
    from carrel.protocol.methods import Verb

__all__ = ["GatewayCatalog"]

log = Log("carrel.gateway")

T = TypeVar("T")

#: Seconds to wait for the first response to a request for an unknown URI, which goes to all servers.
ANY_PATIENCE = 15.0
#: Seconds to wait for the other servers after the first response to a request for an unknown URI.
OTHERS_PATIENCE = 2.0
#: Seconds that a request waits while changed lists are read.
NAMES_PATIENCE = 3.0
#: Methods that are offered to clients while a server is not connected yet.
USUAL = {row.provider_method for row in PROVIDER_REQUESTS if row is not COMPLETE}


class _UpstreamNames(Container[str]):
    """Names of one kind that servers of a gateway have, or may have once they are connected."""

    def __init__(self, kind: NameKind, names: Names, waits: Callable[[], bool]) -> None:
        self._kind = kind
        self._names = names
        self._waits = waits

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        names, kind = self._names, self._kind
        if name in names.found[kind]:
            return True
        return names.find(kind, name) is not None or bool(names.holders(kind, name)) or self._waits()


class GatewayCatalog(HostCatalog):
    """Catalog of the servers of a gateway, with one ``UpstreamTransform`` per server.

    ``settle`` connects to idle servers; it is awaited before an unknown name is looked up.
    ``waits`` returns whether some server has not connected yet, so that its names are unknown.
    """

    name = "gateway"
    catch_all = True
    guards = True
    """``shows`` is called before each subscription, as it rejects ambiguous URIs."""

    def __init__(self, names: Names, settle: Callable[[], Awaitable[None]], waits: Callable[[], bool]) -> None:
        super().__init__()
        self.names = names
        self.own: frozenset[str] = frozenset()
        """Names of tools and URIs of the gateway itself."""
        self.exact = ()
        self.tool_names = _UpstreamNames("tool", names, waits)
        self.prompt_names = _UpstreamNames("prompt", names, waits)
        self._settle = settle
        self._waits = waits
        self.learning = NameLearning(names, lambda: self._report((), {"resources_list_changed": None}))

    # What servers have

    def offers(self, method: str) -> bool:
        """Return whether a server implements a method, or might implement it once connected."""
        return super().offers(method) or (method in USUAL and self._waits())

    def publish(
        self, provider: Provider, changes: Iterable[Change], lists: ListChanges, recipients: Recipients | None = None
    ) -> None:
        """Schedule reading a server's changed lists, and report the changes."""
        if (
            lists
            and recipients is None
            and isinstance(provider, UpstreamTransform)
            and self.get(provider.name) is provider
        ):
            self.learning.schedule(provider, lists)
        self._offering.clear()
        self._report(changes, lists, recipients=recipients)

    def notify_renamed(self, kind: NameKind) -> None:
        """Notify clients that names have changed."""
        self._report((), {LIST_NAMES["resource" if kind == "uri" else kind]: None})

    def take(self, name: str) -> Provider:
        """Remove a server.

        Raises:
            KeyError: there is no such server.
        """
        self.learning.forget(name)
        return super().take(name)

    def learn_session(self, upstream: UpstreamTransform, provider: RemoteProvider) -> None:
        """Schedule reading the names that a server has in one of its sessions."""
        self.learning.schedule(upstream, (), provider)

    # Looking up

    def _owner(self, kind: NameKind, name: str) -> tuple[Provider | None, str]:
        """Return the server of a name, and the server's own name; None if no server is known to have it.

        Raises:
            InvalidParams: several servers have it.
            ProviderUnavailable: its server is not connected.
        """
        found = self.names.find(kind, name)
        if found is not None:
            provider = self.get(found[0])
            if provider is None:
                raise ProviderUnavailable(found[0])
            return provider, found[1]
        self._refuse(kind, name, self.names.candidates(kind, name))
        return None, name

    def _refuse(self, kind: NameKind, name: str, candidates: list[str]) -> None:
        if candidates:
            raise InvalidParams(
                f"Invalid params: {name[:200]} is not unique here; say which one: {', '.join(candidates[:20])}",
                {"candidates": candidates[:20]},
                parameter="uri" if kind in ("uri", "template") else "name",
            )

    def find_named(self, kind: Kind, name: str) -> Provider | None:
        """Return the server of a tool or prompt, or None if no server or several servers have it."""
        found = self.names.find(kind, name)
        return None if found is None else self.get(found[0])

    def find_target(self, verb: Verb, target: str) -> GatewayTarget | None:
        """Return the server of a tool, prompt or URI, and its spellings; None if the server is not known.

        The entries of the gateway itself have no server, unless a server has the same name.
        """
        kind: NameKind = "tool" if verb == "call" else "prompt" if verb == "get" else "uri"
        try:
            if kind == "uri":
                provider, own = self._owner(kind, valid_uri(target))
                provider = provider or self.find_uri(target)
            else:
                provider, own = self._owner(kind, target)
        except MCPError:
            return None
        if provider is None:
            return GatewayTarget("", target) if target in self.own else None
        server = provider.name
        listed = self.names.outer(kind, server, own)
        return GatewayTarget(server, listed, (own, self.names.prefixed(kind, server, own)))

    def find_uri(self, uri: str) -> Provider | None:
        """Return the server of a client's URI, or None if any server might have it.

        Raises:
            InvalidParams: the URI is not valid, or several servers have it.
            ProviderUnavailable: its server is not connected.
        """
        normal = valid_uri(uri)
        owner, _ = self._owner("uri", normal)
        if owner is not None and (self.names.mode == "never" or not self.names.has("uri", owner.name, normal)):
            return owner  # by its prefix
        if owner is not None:
            servers = {owner.name} | self.learning.matching(uri, plain=True)
        else:
            servers = self.learning.matching(uri) or (set() if normal == uri else self.learning.matching(normal))
        if len(servers) == 1 and self.names.mode != "always":
            return self.get(next(iter(servers)))
        self._refuse("uri", uri, [self.names.prefixed("uri", server, uri) for server in sorted(servers)])
        return None

    def may_own(self, provider: Provider, uri: str) -> bool:
        """Return whether a normalized URI may belong to a server.

        A URI that several servers have by now belongs to each of them, so that existing subscriptions keep working.
        """
        try:
            found = self.find_uri(uri)
        except MCPError:
            return provider.name in self.names.holders("uri", uri)
        return found is provider or (found is None and provider.catch_all)

    # Requests

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the resource templates. Requests without a client get the templates read so far."""
        if request.call is not None:
            return await super().list_templates(request)
        known = [(self.get(server), templates) for server, templates in self.learning.templates.items()]
        return Page([one for each, some in known if isinstance(each, UpstreamTransform) for one in each.shown(some)])

    def read_resource(self, uri: str, request: Request) -> MaybeAwaitable[ReadResourceResult | bytes]:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: no server has it, or it is hidden from the caller.
            InvalidParams: the URI is not valid, or several servers have it.
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
        """Send a request for an unlisted URI to all servers, and remember which server has it.

        Raises:
            InvalidParams: several servers have it.
            ResourceNotFound: no server has it.
            MCPError: every server failed: the first error that is not a ``ResourceError`` or ``ProviderUnavailable``.
        """

        async def one(provider: Provider) -> T:
            return await resolved(ask(provider))

        able = [
            each
            for each in self.providers
            if each.catch_all and (not isinstance(each, UpstreamTransform) or each.answers)
        ]
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
                self.names.note("uri", server, (normal_form(uri),), MAX_URIS)
            if len(servers) > 1:
                self._refuse("uri", uri, [self.names.prefixed("uri", server, uri) for server in servers])
            return has[0].result()
        errors = [error for task in asked if not task.cancelled() and (error := task.exception()) is not None]
        raise next(
            (error for error in errors if not isinstance(error, (ResourceError, ProviderUnavailable))), None
        ) or (ResourceNotFound(uri))

    async def shows(self, uri: str, request: Request) -> bool:
        """Return whether the caller may subscribe to a resource, and its server supports subscriptions.

        Raises:
            MCPError: subscribing is not possible, and the request is a subscription to this resource only.
        """
        if request.view is not None and not request.view.allows("subscribe", uri):
            return False
        try:
            found = self.find_uri(uri)
            if isinstance(found, UpstreamTransform) and not found.supports_subscriptions:
                raise MethodNotFound(f"Method not found: {found.name} does not offer subscriptions")
        except MCPError:
            if request.call is not None and request.call.request.operation == SUBSCRIBE.operation:
                raise
            return False
        return found is None or await resolved(found.shows(uri, request))

    async def accepts(self, uri: str, request: Request) -> bool:
        """Return whether a request to subscribe succeeds. A hidden resource is treated like an absent one.

        Raises:
            MCPError: subscribing is not possible, and the request is a subscription to this resource only.
        """
        view = request.view
        if view is None or view.allows("subscribe", uri):
            return await self.shows(uri, request)
        return not view.allows("read", uri)

    def call_tool(self, name: str, arguments: Raw, request: Request) -> MaybeAwaitable[Result | bytes]:
        """Call a tool.

        Raises:
            InvalidParams: there is no such tool, several servers have it, or the arguments are not valid.
        """
        if request.view is not None and not request.view.allows("call", name):
            return self._none.call_tool(name, arguments, request)
        found = self.names.find("tool", name)
        if found is not None and found[0] in self._providers:
            return self._providers[found[0]].call_tool(found[1], arguments, request)
        return self._later("tool", name, lambda provider, own: provider.call_tool(own, arguments, request))

    def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> MaybeAwaitable[Result | bytes]:
        """Return the messages of a prompt.

        Raises:
            InvalidParams: there is no such prompt, several servers have it, or the arguments are not valid.
        """
        if not request.allows("get", name):
            return self._none.get_prompt(name, arguments, request)
        return self._later("prompt", name, lambda provider, own: provider.get_prompt(own, arguments, request))

    async def _later(self, kind: Kind, name: str, ask: Callable[[Provider, str], MaybeAwaitable[T]]) -> T:
        try:
            owner, own = self._owner(kind, name)
        except ProviderUnavailable:
            owner = None
        if owner is None:
            await self._settle()
            await self.learning.settled(NAMES_PATIENCE)
            owner, own = self._owner(kind, name)
        return await resolved(ask(owner or self._none, own))

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
        owner, own = self._owner(kind, name)
        if owner is None and not prompt and self.names.find("uri", normal_form(name)) is not None:
            return Completion([])  # a URI without variables has nothing to complete
        view = request.view
        if view is not None and owner is not None:
            shown = view.allows("get", name) if prompt else may_reach(view, "complete", UriTemplate(name))
            owner = owner if shown else None
        if owner is None:
            raise InvalidParams(f"Invalid params: unknown {kind}: {name[:200]}", parameter="ref")
        mapped = PromptReference(name=own) if prompt else reference
        return await resolved(owner.complete(mapped, argument, value, context, request))

    async def merge(self, listing: str, request: Request, method: Callable[[Provider], Any]) -> Page[Any]:
        """Return a page of a list across servers, in the order of their names. The servers are queried in parallel.

        Raises:
            InvalidCursor: the cursor is not from this list.
        """
        await self._settle()
        ahead = ListAhead(self.providers, request, method, self.away)
        try:
            return await super().merge(listing, request, ahead.list_of)
        finally:
            await ahead.close()
