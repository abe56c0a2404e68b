"""UpstreamTransform: one server of a gateway, with the names and URIs that clients of the gateway see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.provider import Change, Hit, Interest, ListName, Page, Provider, Recipients, Request
from carrel.catalog.transforms.changed_uris import change_uris
from carrel.catalog.transforms.transform import Kind, Transform
from carrel.errors import InvalidCursor, ProviderUnavailable, TransportError
from carrel.gateway.isolation import IsolatedProvider
from carrel.gateway.names import NameKind, Names
from carrel.host.hosted_server import HostedServer
from carrel.host.processor_limiter import SLICE
from carrel.host.remote import RemoteProvider
from carrel.host.remote_tools import for_peer
from carrel.protocol.methods import RequestType
from carrel.uri.parse import normal_form
from carrel.uri.template import UriTemplateError, shared_template
from carrel.wire.prompts import Prompt
from carrel.wire.resources import ReadResourceResult, ResourceTemplate
from carrel.wire.tools import Tool

__all__ = ["UpstreamTransform"]

T = TypeVar("T")

#: Maximum number of URIs to remember per server.
MAX_URIS = 100_000
#: Schemes of links that clients can open directly.
WEB = ("http://", "https://")


class TemplateMatcher(Protocol):
    """Function that returns servers with a template that matches a URI; ``plain``: only templates without a prefix."""

    def __call__(self, uri: str, *, plain: bool = False) -> set[str]: ...


def item_key(item: Tool | Prompt | ResourceTemplate) -> str:
    """Return the name of a tool or prompt, or the text of a template."""
    return item.uri_template if isinstance(item, ResourceTemplate) else item.name


class UpstreamTransform(Transform):
    """Transform that adds a prefix to names and URIs of a gateway's server if they collide, see ``Names``.

    ``provider`` handles the requests: the server's ``RemoteProvider``, or a provider with one session per client.
    ``matching`` returns the servers with a template that matches a URI. Requests have the server's own names of tools
    and prompts: ``GatewayCatalog`` looks the names up.
    """

    def __init__(self, server: HostedServer, provider: Provider, names: Names, matching: TemplateMatcher) -> None:
        super().__init__(provider)
        self.name = server.name
        self.server = server
        self._names = names
        self.entries = server.entries
        self._wanted: _Wanted | None = None
        self._matching = matching

    # Names

    def uri_out(self, uri: str) -> str:
        """Return a URI or URI template of the server as clients see it."""
        names, name = self._names, self.name
        if "{" in uri:
            return names.outer("template", name, uri)
        key = normal_form(uri)
        if not names.has("uri", name, key):
            if uri.startswith(WEB) and not names.holders("uri", key):
                return uri  # a link, which may not be a resource of the server
            matching = self._matching(uri)
            if matching:
                alone = names.mode == "never" or (names.mode == "auto" and matching == {name})
                return uri if alone else names.prefixed("uri", name, uri)
            names.note("uri", name, (key,), MAX_URIS)
        plain = names.has("uri", name, key) and names.is_plain("uri", name, key)
        plain = plain and self._matching(uri, plain=True) <= {name}
        return uri if names.mode == "never" or plain else names.prefixed("uri", name, uri)

    def uri_in(self, uri: str) -> str | None:
        """Return the server's URI or URI template, or None if it belongs to another server."""
        kind: NameKind = "template" if "{" in uri else "uri"
        found = self._names.find(kind, uri) or self._names.find(kind, normal_form(uri))
        if found is None:
            return uri
        if found[0] != self.name:
            return None
        if kind == "template":
            return found[1]
        key = normal_form(found[1])
        return key if self._names.has("uri", self.name, key) else found[1]

    def name_out(self, kind: Kind, name: str) -> str:
        """Return the name that clients see for a tool or prompt."""
        return self._names.outer("tool" if kind == "tool" else "prompt", self.name, name)

    @property
    def prefixes(self) -> Sequence[str]:  # type: ignore[override]
        """None: the gateway finds the server of a URI."""
        return ()

    @property
    def exact(self) -> Container[str]:  # type: ignore[override]
        """None: the gateway finds the server of a URI."""
        return ()

    @property
    def supports_subscriptions(self) -> bool:
        """Whether the server supports resource subscriptions. True if it has not connected yet."""
        if self.server.revision is None:
            return True
        resources = self.server.client.capabilities.resources
        return resources is not None and bool(resources.subscribe)

    # Lists

    async def learn(self, lists: Collection[ListName]) -> None:
        """Copy the server's names into ``Names``, as far as they are known without a request."""
        provider = self.server.provider
        if provider is None:
            return
        work, name = self._work(), self.name
        if "tools_list_changed" in lists and not isinstance(provider.tool_names, tuple):
            await work(self._names.replacing("tool", name, _listed(provider.tool_names)))
        if "prompts_list_changed" in lists and not isinstance(provider.prompt_names, tuple):
            await work(self._names.replacing("prompt", name, _listed(provider.prompt_names)))
        if "resources_list_changed" in lists:
            await work(self._names.noting("uri", name, _listed(provider.exact), MAX_URIS))

    async def learn_from(self, provider: RemoteProvider) -> None:
        """Add the names that the server has in one of its sessions."""
        work, name = self._work(), self.name
        await work(self._names.noting("tool", name, _listed(provider.tool_names), MAX_URIS))
        await work(self._names.noting("prompt", name, _listed(provider.prompt_names), MAX_URIS))
        await work(self._names.noting("uri", name, _listed(provider.exact), MAX_URIS))

    async def learn_templates(self, used: Iterable[ResourceTemplate], all: Iterable[ResourceTemplate]) -> None:
        """Replace the names of the server's templates. Compile the templates in ``used``, with and without a prefix."""
        await self._work()(self._names.replacing("template", self.name, [template.uri_template for template in all]))
        texts = [text for each in used for text in {each.uri_template, self.uri_out(each.uri_template)}]
        await self.entries.limiter.each(texts, _prepare, lambda _: SLICE)

    def _work(self) -> Callable[[Iterable[None]], Awaitable[object]]:
        """Return a function that runs the steps of an iterator in the server's share of processor time."""
        limiter = self.entries.limiter
        return lambda steps: limiter.each(steps, lambda _: None)

    def _note_uris(self, keys: Iterable[str]) -> None:
        self._names.note("uri", self.name, keys, MAX_URIS)

    async def templates(self) -> Sequence[ResourceTemplate]:
        """Return the server's resource templates, without prefixes."""
        return (await self._whole("template")).items

    def shown(self, templates: Iterable[ResourceTemplate]) -> list[ResourceTemplate]:
        """Return templates of the server as clients see them."""
        return [self.outer_item("template", template) for template in templates]

    def _shown(self, kind: Kind, page: Page[Any]) -> Page[Any]:
        """Return a page as clients see it. Leave out items that cannot be converted."""
        items: list[Any] = []
        for item in page.items:
            try:
                items.append(self.outer_item(kind, item))
            except Exception as error:  # an invalid item must not break the list
                self.entries.leave_out("resource_templates" if kind == "template" else f"{kind}s", error)
        return msgspec.structs.replace(page, items=items)

    async def _whole(self, kind: Kind) -> Page[Any]:
        try:
            return await self.server.page(kind)
        except TransportError as error:
            raise ProviderUnavailable(self.name) from error

    @property
    def answers(self) -> bool:
        """Whether the server can handle requests now. Requests do not wait for servers that are still connecting."""
        separate = isinstance(self.provider, IsolatedProvider) and self.provider.separate_credentials
        return separate or self.server.state == "ready"

    def _check(self) -> None:
        if not self.answers:
            raise ProviderUnavailable(self.name)

    def _keeps(self, kind: Kind, capability: str) -> bool:
        """Return whether a list is cached: the server notifies of changes, and the list is shared and not long."""
        self._check()
        if kind in self.server.long:
            return False
        shared = isinstance(self.provider, IsolatedProvider) and self.provider.mode == "shared"
        if not shared and self.provider is not self.server.provider:
            return False
        declared = getattr(self.server.client.capabilities, capability)
        return declared is not None and bool(declared.list_changed)

    async def _listed_page(self, kind: Kind, request: Request, key: Callable[[Any], str]) -> Page[Any]:
        whole = await self._whole(kind)
        page = page_of(whole.items, request, key)
        scope = "private" if whole.scope == "public" and request.caller is not None else whole.scope
        return Page(page.items, page.next_cursor, whole.ttl, scope)

    def forward(self, row: RequestType, request: Request, *arguments: Any) -> MaybeAwaitable[Any]:
        """Pass a request on; list requests may be answered from the cache."""
        if row.item_verb is None:
            return super().forward(row, request, *arguments)
        return self._list(row, request)

    async def _list(self, row: RequestType, request: Request) -> Page[Any]:
        """Return a page of a list. Remember the names or URIs of its items."""
        kind = row.item
        assert kind is not None
        page: Page[Any]
        if row.cached_whole and self._keeps(kind, row.capability or ""):
            page = await self._listed_page(kind, request, item_key)
        else:
            self._check()
            page = await resolved(getattr(self.provider, row.provider_method)(self._inner(request)))
        if kind == "tool" or kind == "prompt":
            self._names.note(kind, self.name, [item.name for item in page.items], MAX_URIS)
        elif kind == "resource":
            self._note_uris([normal_form(resource.uri) for resource in page.items])
        elif kind == "skill":
            for skill in page.items:
                files = () if isinstance(skill.resources, str) else skill.resources
                self._note_uris([normal_form(skill.uri), *(normal_form(file.uri) for file in files)])
        return self._shown(kind, for_peer(page, request) if kind == "tool" else page)

    async def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the resources that match a query, best first."""
        self._check()
        return await super().search(query, request)

    def _read(self, uri: str, own: str, result: ReadResourceResult | bytes) -> ReadResourceResult | bytes:
        """Return the contents of a resource, under the requested URI."""

        def out(part: str) -> str:
            return uri if part == own or normal_form(part) == normal_form(own) else self.uri_out(part)

        if isinstance(result, bytes):
            return change_uris(result, out)
        if own == uri and all(part.uri == uri for part in result.contents):
            return result
        contents = [msgspec.structs.replace(part, uri=out(part.uri)) for part in result.contents]
        return msgspec.structs.replace(result, contents=contents)

    def _required(self, kind: Kind, name: str) -> str:
        return name

    # Changes

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield batches of resource changes, under the URIs that clients subscribed to."""
        self._wanted = _Wanted(interest, self)
        async for batch in self.provider.watch(self._wanted):
            yield self.changed(batch)

    def changed(self, changes: Iterable[Change]) -> list[Change]:
        """Return resource changes under the URIs that clients subscribed to."""
        wanted = self._wanted
        if wanted is None:
            return [Change(change.kind, self.uri_out(change.uri)) for change in changes]
        return [Change(change.kind, uri) for change in changes for uri in wanted.outer(change.uri)]


class _Wanted(Interest):
    """Resources with subscribers, by the server's URIs."""

    def __init__(self, outer: Interest, upstream: UpstreamTransform) -> None:
        super().__init__()
        self._outer = outer
        self._upstream = upstream
        self._spelled: dict[str, list[str]] = {}

    @property
    def uris(self) -> Collection[str]:
        """Server URIs with at least one subscription."""
        self._spelled = self._own(self._outer.uris)
        return list(self._spelled)

    @uris.setter
    def uris(self, _: Collection[str]) -> None:
        """No-op: the gateway sets the URIs."""

    def of(self, recipients: Recipients) -> Collection[str]:
        """Return the server URIs to which ``recipients`` have subscribed."""
        spelled = self._own(self._outer.of(recipients))
        for own, uris in spelled.items():
            known = self._spelled.setdefault(own, [])
            known += [uri for uri in uris if uri not in known]
        return list(spelled)

    def _own(self, uris: Collection[str]) -> dict[str, list[str]]:
        """Return the server URIs, each with the URIs that clients subscribed to."""
        spelled: dict[str, list[str]] = {}
        for uri in uris:
            own = self._upstream.uri_in(uri)
            if own is not None:
                spelled.setdefault(own, []).append(uri)
        return spelled

    async def wait(self) -> None:
        """Wait until ``uris`` may have changed."""
        await self._outer.wait()

    def outer(self, uri: str) -> Sequence[str]:
        """Return the URIs under which clients subscribed to a resource, or ``uri_out`` if no client did."""
        return self._spelled.get(uri) or (self._upstream.uri_out(uri),)


def _prepare(template: str) -> None:
    try:
        shared_template(template).prepare()
    except UriTemplateError:
        pass  # the catalog logs it


def _listed(names: Container[str] | None) -> Iterable[str]:
    return list(names) if isinstance(names, Collection) else ()


def page_of(items: Sequence[T], request: Request, key: Callable[[T], str]) -> Page[T]:
    """Return a page of a list in memory. A cursor holds the number and the key of the last entry on the previous page.

    Raises:
        InvalidCursor: the cursor is not from this list.
    """
    start = 0
    if request.cursor is not None:
        number, mark, after = request.cursor.partition(":")
        if not mark or not number.isascii() or not number.isdigit() or len(number) > 9:
            raise InvalidCursor
        start = min(int(number), len(items))
        if start == 0 or key(items[start - 1]) != after:  # the list has changed, so the entry may have moved
            start = next((at + 1 for at, item in enumerate(items) if key(item) == after), start)
    part = items[start : start + request.limit]
    end = start + len(part)
    return Page(part, f"{end}:{key(part[-1])}" if part and end < len(items) else None)
