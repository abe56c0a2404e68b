"""Transform: base class of the providers that show another provider differently."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import msgspec

from carrel.awaitables import MaybeAwaitable, is_awaitable, resolved
from carrel.catalog.access import NAME_VERBS, RenamedView
from carrel.catalog.forwarding import ForwardingProvider
from carrel.catalog.provider import (
    Change,
    Events,
    Hit,
    Interest,
    ListChanges,
    ListName,
    Page,
    Provider,
    Recipients,
    ReportedEvents,
    Request,
)
from carrel.catalog.tool_pages import PAGE_KEYS, with_page_uris
from carrel.catalog.transforms.changed_results import ChangedResults
from carrel.catalog.transforms.changed_uris import change_uris
from carrel.errors import ConfigError, InvalidParams, MCPError, ResourceError, ResourceNotFound
from carrel.protocol.methods import COMPLETE, LIST_NOTIFICATIONS, ItemKind, RequestType
from carrel.wire.completion import PromptReference, ResourceTemplateReference
from carrel.wire.content import EmbeddedResource, ResourceLink
from carrel.wire.prompts import GetPromptResult, Prompt
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate, decoded
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.protocol.extension import Extension
    from carrel.protocol.methods import Verb
    from carrel.uri.intervals import Intervals
    from carrel.wire.skills import Skill

__all__ = ["Kind", "OuterNames", "Transform"]

T = TypeVar("T")
ItemT = TypeVar("ItemT", bound="Resource | ResourceTemplate | Tool | Prompt | Skill")
Kind: TypeAlias = ItemKind


class OuterNames(Container[str]):
    """Names of a provider as they are seen from outside."""

    def __init__(self, inner: Container[str], inward: Callable[[str], str | None]) -> None:
        self._inner = inner
        self._inward = inward

    def __contains__(self, name: object) -> bool:
        inner = self._inward(cast("str", name))
        return inner is not None and inner in self._inner


class Transform(ForwardingProvider):
    """Provider over another one, unchanged: base class of transforms, which change names or leave things out.

    ``uri_out`` and ``uri_in`` translate URIs to the names seen from outside and back; ``name_out`` and ``name_in`` do
    that for tools and prompts. ``uri_in`` and ``name_in`` return None if a URI or name does not belong to the provider.
    ``change_item`` changes an item of a list, and ``keeps`` returns whether it is shown. ``forward`` is called for each
    request.

    Raises:
        ConfigError: ``provider`` is not a Provider.
    """

    def __init__(self, provider: Provider) -> None:
        if not isinstance(provider, Provider):
            raise ConfigError(f"{type(self).__name__} takes a Provider, not a {type(provider).__name__}")
        self.provider = provider
        self.name = provider.name
        self.changes = provider.changes
        self.shares_watch = provider.shares_watch
        self.naming = provider.naming

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.provider!r})"

    # What subclasses change

    def uri_out(self, uri: str) -> str:
        """Return the URI or URI template of the provider as it is seen from outside."""
        return uri

    def uri_in(self, uri: str) -> str | None:
        """Return the provider's original URI or URI template, or None if it does not belong to the provider."""
        return uri

    def name_out(self, kind: Kind, name: str) -> str:
        """Return the name of a tool or prompt as it is seen from outside."""
        return name

    def name_in(self, kind: Kind, name: str) -> str | None:
        """Return the provider's own name of a tool or prompt; None if it has none of that name."""
        return name

    def keeps(self, kind: Kind, item: Resource | ResourceTemplate | Tool | Prompt | Skill) -> bool:
        """Return whether an entry of the provider is shown."""
        return True

    def keeps_uri(self, uri: str) -> bool:
        """Return whether the resource of a provider's own URI may be read."""
        return True

    def keeps_name(self, kind: Kind, name: str) -> bool:
        """Return whether a tool or prompt with a provider's own name may be used."""
        return True

    def keeps_template(self, uri_template: str) -> bool:
        """Return whether variables of a provider's own resource template may be completed."""
        return True

    def change_item(self, kind: Kind, item: ItemT) -> ItemT:
        """Return a resource, template, tool, prompt or skill of the provider with other details for lists.

        For example, another title, description, icons or input schema. The name or the URI stays: ``name_out`` and
        ``uri_out`` change it.
        """
        return item

    def intervals_in(self, verb: Verb, intervals: Intervals) -> Intervals | None:
        """Convert intervals of client names or URIs to the provider's names or URIs; return None if unknown."""
        mine, plain = (
            (type(self).name_out, Transform.name_out) if verb in NAME_VERBS else (type(self).uri_out, Transform.uri_out)
        )
        return intervals if mine is plain else None

    # Plumbing

    @property
    def prefixes(self) -> Sequence[str]:  # type: ignore[override]
        """Prefixes of its URIs, as they are seen from outside."""
        return tuple(self.uri_out(prefix) for prefix in self.provider.prefixes)

    @property
    def exact(self) -> Container[str]:  # type: ignore[override]
        """URIs outside its prefixes, as they are seen from outside."""
        inner = self.provider.exact
        return () if isinstance(inner, tuple) and not inner else OuterNames(inner, self.uri_in)

    @property
    def extensions(self) -> Collection[Extension]:  # type: ignore[override]
        """Extensions of the protocol that it uses."""
        return self.provider.extensions

    @property
    def guards(self) -> bool:  # type: ignore[override]
        """Whether it hides resources from callers for whom there are no access rules."""
        return self.provider.guards

    @property
    def catch_all(self) -> bool:  # type: ignore[override]
        """Whether the provider is tried for URIs of no other provider."""
        return self.provider.catch_all

    @property
    def tool_names(self) -> Container[str] | None:  # type: ignore[override]
        """Names of its tools, if they are kept up to date."""
        names = self.provider.tool_names
        return None if names is None else OuterNames(names, lambda name: self._own_name("tool", name))

    @property
    def prompt_names(self) -> Container[str] | None:  # type: ignore[override]
        """Names of its prompts, if they are kept up to date."""
        names = self.provider.prompt_names
        return None if names is None else OuterNames(names, lambda name: self._own_name("prompt", name))

    def offers(self, method: str) -> bool:
        """Return whether the provider implements a method."""
        return self.provider.offers(method)

    async def start(self, events: Events) -> None:
        """Start the provider."""
        await self.provider.start(self.inner_events(events))

    def inner_events(self, events: Events) -> Events:
        """Return the events of the provider. They are reported to ``events`` with the names and URIs from outside."""
        return ReportedEvents(
            lambda changes, lists, recipients: events.publish(
                self.changed(changes), self.changed_lists(lists), recipients
            )
        )

    async def stop(self) -> None:
        """Stop the provider."""
        await self.provider.stop()

    def _own_name(self, kind: Kind, name: str) -> str | None:
        own = self.name_in(kind, name)
        return own if own is not None and self.keeps_name(kind, own) else None

    def _own_uri(self, uri: str) -> str:
        own = self.uri_in(uri)
        if own is None or not self.keeps_uri(own):
            raise ResourceNotFound(uri)
        return own

    def _inner(self, request: Request) -> Request:
        visible = request.visible
        inner = request.page(request.cursor, request.limit)
        if visible is not None:
            inner.visible = lambda uri: visible(self.uri_out(uri))
        if request.view is not None:
            inner.view = RenamedView(request.view, self)
        if request.template is not None:
            inner.template, inner.values = self.uri_in(request.template), request.values
        return inner

    # Requests

    def forward(self, row: RequestType, request: Request, *arguments: Any) -> MaybeAwaitable[Any]:
        """Pass a request on with the provider's own URI or name, and return its result as it is seen from outside.

        Raises:
            ResourceNotFound: there is no such resource or skill, or it is not shown.
            InvalidParams: there is no such tool, prompt or template, or it is not shown.
        """
        inner = self._inner(request)
        if row.target == "uri":
            return self._forward_uri(row, inner, *arguments)
        if arguments:
            target, *others = arguments
            own = self._own_reference(target) if row is COMPLETE else self._required(cast("Kind", row.item), target)
            arguments = (own, *others)
            if row is COMPLETE or type(self).uri_out is Transform.uri_out:
                return super().forward(row, inner, *arguments)
        if row.deferred and inner.contexts is not None:
            inner.contexts = ChangedResults(inner.contexts, lambda pending: self._result(row, pending))
        return self._result(row, super().forward(row, inner, *arguments))

    async def _forward_uri(self, row: RequestType, inner: Request, uri: str, *arguments: Any) -> Any:
        """Pass a request about a URI on; errors name the URI as it was given."""
        own = self._own_uri(uri)
        try:
            result = await resolved(super().forward(row, inner, own, *arguments))
        except ResourceError as error:
            if error.uri == own and own != uri:
                error.uri = uri
            raise
        if row.result is ReadResourceResult:
            return self._read(uri, own, result)
        return self.outer(row.item, result)

    async def _result(self, row: RequestType, pending: MaybeAwaitable[Any]) -> Any:
        return self.outer(row.item, await pending if is_awaitable(pending) else pending)

    def outer(self, kind: Kind | None, result: Any) -> Any:
        """Return a result as it is seen from outside; ``kind`` is the kind of its items."""
        if isinstance(result, bytes):
            return change_uris(result, self.uri_out)
        if isinstance(result, Page) and kind is not None:
            items = [self.outer_item(kind, item) for item in result.items if self.keeps(kind, item)]
            return msgspec.structs.replace(result, items=items)
        if isinstance(result, CallToolResult):
            return msgspec.structs.replace(result, content=[self._block(block) for block in result.content])
        if isinstance(result, GetPromptResult):
            messages = [msgspec.structs.replace(each, content=self._block(each.content)) for each in result.messages]
            return msgspec.structs.replace(result, messages=messages)
        return self.outer_item("skill", result) if kind == "skill" else result

    def outer_item(self, kind: Kind, item: Any) -> Any:
        """Return a resource, template, tool, prompt or skill as it is seen from outside."""
        changed: Any = self.change_item(kind, item)
        if kind == "tool":
            meta = changed.meta
            if meta is not None and not PAGE_KEYS.isdisjoint(meta):
                meta = with_page_uris(meta, self.uri_out)
            return msgspec.structs.replace(changed, name=self.name_out(kind, item.name), meta=meta)
        if kind == "prompt":
            return msgspec.structs.replace(changed, name=self.name_out(kind, item.name))
        if kind == "template":
            return msgspec.structs.replace(changed, uri_template=self.uri_out(item.uri_template))
        uri = self.uri_out(item.uri)
        if kind == "skill" and not isinstance(changed.resources, str):
            files = [msgspec.structs.replace(file, uri=self.uri_out(file.uri)) for file in changed.resources]
            changed = msgspec.structs.replace(changed, resources=files)
        return changed if uri == changed.uri else msgspec.structs.replace(changed, uri=uri)

    def _block(self, block: Any) -> Any:
        if isinstance(block, ResourceLink):
            return msgspec.structs.replace(block, uri=self.uri_out(block.uri))
        if isinstance(block, EmbeddedResource):
            resource = msgspec.structs.replace(block.resource, uri=self.uri_out(block.resource.uri))
            return msgspec.structs.replace(block, resource=resource)
        return block

    def _required(self, kind: Kind, name: str) -> str:
        own = self._own_name(kind, name)
        if own is None:
            raise InvalidParams(f"Invalid params: unknown {kind}: {name[:200]}", parameter="name")
        return own

    def _own_reference(
        self, reference: ResourceTemplateReference | PromptReference
    ) -> ResourceTemplateReference | PromptReference:
        if isinstance(reference, PromptReference):
            return PromptReference(name=self._required("prompt", reference.name))
        own = self.uri_in(reference.uri)
        if own is None or not self.keeps_template(own):
            unknown = f"Invalid params: unknown resource template: {reference.uri[:1000]}"
            raise InvalidParams(unknown, parameter="ref")
        return ResourceTemplateReference(uri=own)

    # Resources

    async def list_searchable(self, request: Request) -> Page[Resource]:
        """Return a page of the shown resources to index."""
        page: Page[Resource] = await resolved(self.provider.list_searchable(self._inner(request)))
        return cast("Page[Resource]", self.outer("resource", page))

    def _read(self, uri: str, own: str, result: ReadResourceResult | bytes) -> ReadResourceResult | bytes:
        if own == uri:
            return result
        if isinstance(result, bytes):
            return change_uris(result, self.uri_out)
        whole = decoded(result)
        contents = [msgspec.structs.replace(part, uri=self.uri_out(part.uri)) for part in whole.contents]
        return msgspec.structs.replace(whole, contents=contents)

    async def read_searchable(
        self, uris: Sequence[str], request: Request
    ) -> Sequence[ReadResourceResult | bytes | MCPError]:
        """Return the contents of shown resources to index."""
        owns = {uri: own for uri in uris if (own := self.uri_in(uri)) is not None and self.keeps_uri(own)}
        pending = self.provider.read_searchable(tuple(owns.values()), self._inner(request))
        found = dict(zip(owns, await resolved(pending), strict=True))
        return [
            self._own_or_error(uri, owns[uri], found[uri]) if uri in owns else ResourceNotFound(uri) for uri in uris
        ]

    def _own_or_error(
        self, uri: str, own: str, found: ReadResourceResult | bytes | MCPError
    ) -> ReadResourceResult | bytes | MCPError:
        if not isinstance(found, MCPError):
            return self._read(uri, own, found)
        if isinstance(found, ResourceError) and found.uri == own:
            found.uri = uri
        return found

    async def shows(self, uri: str, request: Request) -> bool:
        """Return whether a URI leads to nothing hidden from the caller."""
        own = self.uri_in(uri)
        return own is None or await resolved(self.provider.shows(own, self._inner(request)))

    async def accepts(self, uri: str, request: Request) -> bool:
        """Return whether a caller may subscribe to a URI."""
        own = self.uri_in(uri)
        return own is None or await resolved(self.provider.accepts(own, self._inner(request)))

    def is_guarded(self, uri: str) -> bool:
        """Return whether ``shows`` is called at each change for subscribers who do not see everything."""
        own = self.uri_in(uri)
        return own is not None and self.provider.is_guarded(own)

    async def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the resources that match a query and are shown, best first."""
        page = await resolved(self.provider.search(query, self._inner(request)))
        hits = [
            msgspec.structs.replace(hit, resource=self.outer_item("resource", hit.resource))
            for hit in page.items
            if self.keeps("resource", hit.resource)
        ]
        return msgspec.structs.replace(page, items=hits)

    # Changes

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield changes of resources that are shown, in batches."""
        async for batch in self.provider.watch(_Interest(interest, self)):
            yield self.changed(batch)

    def outdated(self, uris: Collection[str]) -> None:
        """Drop caches of resources that have changed."""
        self.provider.outdated([own for uri in uris if (own := self.uri_in(uri)) is not None])

    def changed(self, changes: Iterable[Change]) -> list[Change]:
        """Return changes as they are seen from outside."""
        seen: list[Change] = []
        for change in changes:
            entries = tuple(self.uri_out(entry) for entry in change.entries if self.keeps_uri(entry))
            if self.keeps_uri(change.uri) and (entries or not change.entries):
                seen.append(Change(change.kind, self.uri_out(change.uri), entries))
        return seen

    def changed_lists(self, lists: ListChanges) -> ListChanges:
        """Return lists that have changed as they are seen from outside."""
        seen: dict[ListName, Collection[str] | None] = {}
        for name, keys in lists.items():
            kind = LIST_NOTIFICATIONS[name].items[0]
            if keys is None:
                seen[name] = None
            elif kind in ("tool", "prompt"):
                seen[name] = [self.name_out(kind, key) for key in keys if self.keeps_name(kind, key)]
            else:
                seen[name] = [self.uri_out(key) for key in keys if "{" in key or self.keeps_uri(key)]
        return seen


class _Interest(Interest):
    """Interest in the resources of a provider, by its own URIs."""

    def __init__(self, outer: Interest, transform: Transform) -> None:
        self._outer = outer
        self._transform = transform

    @property
    def uris(self) -> Collection[str]:  # type: ignore[override]
        """URIs with a subscription."""
        return self._own(self._outer.uris)

    def of(self, recipients: Recipients) -> Collection[str]:
        """Return the URIs to which some clients have subscribed."""
        return self._own(self._outer.of(recipients))

    def _own(self, uris: Collection[str]) -> Collection[str]:
        inward = self._transform.uri_in
        return [own for uri in uris if (own := inward(uri)) is not None]

    async def wait(self) -> None:
        """Wait until ``uris`` may have changed."""
        await self._outer.wait()
