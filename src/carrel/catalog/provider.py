"""Provider: the interface for sources of resources, tools and prompts.

A folder, a database, a remote server behind a client, another ``Server`` and the functions that an author decorates
are providers. Implement the methods that apply; the defaults return nothing.

    class Notes(Provider):
        name = "notes"
        prefixes = ("note://",)

        async def list_resources(self, request):
            return Page([Resource("note://1", "first")])

        async def read_resource(self, uri, request):
            return ReadResourceResult(contents=[TextResourceContents(uri, "Hello")])

    app.add_provider(Notes())

``carrel.testing.ProviderContract`` tests that a provider follows this interface.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from carrel.awaitables import MaybeAwaitable
from carrel.catalog.request import Contexts, Request, RequestContext, Visible
from carrel.errors import InvalidParams, MCPError, ResourceNotFound
from carrel.protocol.methods import COMPLETE, GET_PROMPT, ListName
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.prompts import Prompt
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate
from carrel.wire.tools import Tool

if TYPE_CHECKING:
    from carrel.protocol.channel import ConnectedClient
    from carrel.protocol.extension import Extension
    from carrel.protocol.methods import RequestType
    from carrel.wire.base import Result
    from carrel.wire.skills import Skill

__all__ = [
    "Change",
    "Contexts",
    "Events",
    "Hit",
    "Interest",
    "ListChanges",
    "ListName",
    "Page",
    "Provider",
    "ProviderInterest",
    "Recipients",
    "ReportedEvents",
    "Request",
    "RequestContext",
    "UriChanges",
    "Visible",
    "arguments_of",
    "forwarding",
    "list_changes",
    "result_of",
    "uri_changes",
]

T = TypeVar("T")
P = TypeVar("P", bound="type[Provider]")


ListChanges: TypeAlias = Mapping[ListName, Collection[str] | None]
"""Lists that have changed, each with the URIs, templates or names that are new, gone or different; None: not known."""
UriChanges: TypeAlias = Mapping[str, Collection[str] | None]
"""Changed resources by URI. A value has the changed entries of a directory; None: the resource itself has changed."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Page of a list. ``next_cursor`` is the cursor of the next page; None at the end.

    ``ttl`` (seconds) and ``scope`` ("public" or "private") are its cache hints. None leaves
    them to the server's defaults.
    """

    items: Sequence[T]
    next_cursor: str | None = None
    ttl: float | None = None
    scope: Literal["public", "private"] | None = None


class Hit(msgspec.Struct, frozen=True):
    """Search result: a resource with its ``score`` (0 to 1), the highest for the best."""

    resource: Resource
    score: float
    snippet: str | None = None


class Change(msgspec.Struct, frozen=True):
    """Change of a resource. A rename is one ``removed`` and one ``created``.

    ``entries`` are the changed entries of a directory: only callers who may list one of them are notified.
    """

    kind: Literal["created", "changed", "removed"]
    uri: str
    entries: tuple[str, ...] = ()


class Recipients(Protocol):
    """Recipients of a change, if it is not for all clients. Hashable: equal ones are notified together."""

    def include(self, client: ConnectedClient) -> bool:
        """Return whether a client is one of them."""


class Interest:
    """URIs with subscribers, kept up to date while a provider is watched."""

    def __init__(self, uris: Collection[str] = ()) -> None:
        self.uris = uris
        """URIs with a subscription, in normal form. Do not change them."""
        self._changed = asyncio.Event()

    def of(self, recipients: Recipients) -> Collection[str]:
        """Return the URIs to which some clients have subscribed; all URIs if the subscribers are unknown."""
        return self.uris

    def notify(self) -> None:
        """Wake up the tasks that wait for a change of ``uris``."""
        self._changed.set()

    async def wait(self) -> None:
        """Wait until ``uris`` have changed since the last call."""
        await self._changed.wait()
        self._changed.clear()


class Subscribed(Protocol):
    """Subscriptions to resources: an ``Interest``, or the watches of a server."""

    @property
    def uris(self) -> Collection[str]:
        """URIs with a subscription, in normal form."""

    def of(self, recipients: Recipients) -> Collection[str]:
        """Return the URIs to which some clients have subscribed."""


class ProviderInterest(Interest):
    """The subscribed resources that one provider of a catalog may own: ``owns`` returns whether it may own a URI."""

    def __init__(self, outer: Subscribed, owns: Callable[[str], bool]) -> None:
        super().__init__()
        self._outer = outer
        self._owns = owns

    @property
    def uris(self) -> Collection[str]:
        """URIs with a subscription, in normal form."""
        return list(filter(self._owns, self._outer.uris))

    @uris.setter
    def uris(self, _: Collection[str]) -> None:
        """No-op: the catalog sets the URIs."""

    def of(self, recipients: Recipients) -> Collection[str]:
        """Return the URIs to which some clients have subscribed, in normal form."""
        return list(filter(self._owns, self._outer.of(recipients)))


class Events(Protocol):
    """Receiver of the changes of a provider. Its methods may be called from any thread, between start and stop."""

    def publish(
        self,
        changes: Iterable[Change] = (),
        lists: Iterable[ListName] | ListChanges = (),
        recipients: Recipients | None = None,
    ) -> None:
        """Report changed resources and changed lists (the list of resources follows from the changes).

        If ``lists`` names the changed entries, only callers who may see one of them are notified; with ``recipients``,
        only these clients.
        """


def uri_changes(uris: Iterable[str] | UriChanges) -> UriChanges:
    """Return changed resources by URI, each with its changed entries; None if the resource itself has changed."""
    return uris if isinstance(uris, Mapping) else dict.fromkeys(uris)


def list_changes(lists: Iterable[ListName] | ListChanges) -> ListChanges:
    """Return the changed lists with the names of their changed entries, None if unknown."""
    return lists if isinstance(lists, Mapping) else dict.fromkeys(lists)


class ReportedEvents:
    """Events of a provider, passed to a function, with the changed lists as a mapping."""

    def __init__(self, report: Callable[[Iterable[Change], ListChanges, Recipients | None], None]) -> None:
        self._report = report

    def publish(
        self,
        changes: Iterable[Change] = (),
        lists: Iterable[ListName] | ListChanges = (),
        recipients: Recipients | None = None,
    ) -> None:
        """Report changes of resources, and which lists have changed."""
        self._report(changes, list_changes(lists), recipients)


class Provider:
    """Provider of resources, tools, prompts and skills. The default of every method returns nothing.

    ``name`` is stable, and unique in a catalog: cursors name it. Methods may be called concurrently, between ``start``
    and ``stop``, and are cancelled when the client cancels its request or disconnects. Methods only get URIs that
    belong to the provider, in normal form.
    """

    name: str = ""
    prefixes: Sequence[str] = ()
    """Prefixes of the URIs that belong to this provider, in normal form, known after ``start``. A prefix ends where a
    segment, the scheme or the path ends: ``file:///notes`` has ``file:///notes/a`` in it, not ``file:///notes2``.
    The URIs that match its templates belong to it too."""
    exact: Container[str] = ()
    """URIs that belong to this provider outside its prefixes, in normal form; it keeps them up to date."""
    guards: bool = False
    """Whether ``shows`` hides resources from callers for whom there are no access rules."""
    catch_all: bool = False
    """Whether this provider is tried, last, for URIs that belong to no other provider."""
    tool_names: Container[str] | None = None
    """Names of its tools, if the provider keeps them up to date; None: the catalog reads ``list_tools``."""
    prompt_names: Container[str] | None = None
    """Names of its prompts, if the provider keeps them up to date; None: the catalog reads ``list_prompts``."""
    extensions: Collection[Extension] = ()
    """Extensions of the protocol that it uses, which its server declares: tasks and apps."""
    changes: Literal["here", "machine", "everywhere"] = "everywhere"
    """Which replicas of a server see its changes: the one where they are made, all on the same machine, or all."""
    shares_watch: bool = False
    """Whether one replica may watch for all that see its changes: ``watch`` has no effect on requests then, and
    ``outdated`` is called on the others."""
    naming: str = ""
    """How to rename it, for the error about a duplicate name."""

    def offers(self, method: str) -> bool:
        """Return whether a method of this interface is implemented, by its name."""
        return getattr(type(self), method) is not getattr(Provider, method)

    def join(self, other: Provider) -> bool:
        """Merge another provider into this one, and return whether it was possible. Both have not been started.

        A server calls this for earlier providers, so that several sources of one kind can be one provider.
        """
        return False

    async def start(self, events: Events) -> None:
        """Start the provider. Called once, before all other methods; ``name`` and ``prefixes`` are final then.

        Raises:
            ConfigError: the provider cannot start; the message gives the reason.
        """

    async def stop(self) -> None:
        """Stop the provider: release the resources of ``start`` and ``watch``."""

    # Resources

    def list_resources(self, request: Request) -> MaybeAwaitable[Page[Resource]]:
        """Return a page of the resources, in a stable order.

        A cursor is a position in this order that stays valid when resources are added and removed, in every replica and
        after a restart: the key of the last entry, not a number. The catalog removes entries that are not ``visible``.

        Raises:
            InvalidCursor: the cursor did not come from this provider.
        """
        return Page(())

    def list_searchable(self, request: Request) -> MaybeAwaitable[Page[Resource]]:
        """Return a page of the resources to index: the listed resources, or more.

        If this is implemented, a change of any listed resource makes the index check all of them again.

        Raises:
            InvalidCursor: the cursor did not come from this method.
        """
        return self.list_resources(request)

    def list_templates(self, request: Request) -> MaybeAwaitable[Page[ResourceTemplate]]:
        """Return a page of the resource templates.

        Raises:
            InvalidCursor: the cursor did not come from this provider.
        """
        return Page(())

    def read_resource(self, uri: str, request: Request) -> MaybeAwaitable[ReadResourceResult | bytes]:
        """Return the contents of a resource, or of the window in ``uri``; or the encoded result.

        Raises:
            ResourceNotFound: there is no such resource.
            ResourceForbidden: it may not be read.
            ResourceTooLarge: it is over the limit; the message names the window to use.
            InvalidParams: the URI or its window is not valid.
        """
        raise ResourceNotFound(uri)

    def read_searchable(
        self, uris: Sequence[str], request: Request
    ) -> MaybeAwaitable[Sequence[ReadResourceResult | bytes | MCPError]]:
        """Return what ``read_resource`` returns for each of some URIs of ``list_searchable``, or the error it raises.

        Implement it if reading many small resources together is faster; an index then uses it.
        """
        raise NotImplementedError

    def list_directory(self, uri: str, request: Request) -> MaybeAwaitable[Page[Resource]]:
        """Return a page of the resources directly inside a directory-like resource.

        Raises:
            ResourceNotFound: there is no such resource, or it is not a directory.
            InvalidCursor: this provider did not issue the cursor for this directory.
        """
        raise ResourceNotFound(uri)

    def shows(self, uri: str, request: Request) -> MaybeAwaitable[bool]:
        """Return whether a URI leads to no resource that is hidden from the caller, for example by a link."""
        return True

    def accepts(self, uri: str, request: Request) -> MaybeAwaitable[bool]:
        """Return whether a caller may subscribe to a URI.

        A provider that accepts URIs of absent resources also accepts URIs that lead to hidden resources, because
        callers could tell them apart otherwise. ``is_guarded`` is then true for both: changes are not notified.
        """
        return self.shows(uri, request)

    def is_guarded(self, uri: str) -> bool:
        """Return whether a resource exists only for some callers, so that ``shows`` is called at each change."""
        return False

    def search(self, query: str, request: Request) -> MaybeAwaitable[Page[Hit]]:
        """Return the resources that match a query, best first. Words are separated by white space; case is ignored."""
        return Page(())

    def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> MaybeAwaitable[Completion]:
        """Return suggestions for a variable of a template or an argument of a prompt, best first.

        ``value`` is the typed text; ``context`` has the known values of other arguments.

        Raises:
            InvalidParams: the template, prompt or argument does not exist.
        """
        return Completion([])

    # Skills

    def list_skills(self, request: Request) -> MaybeAwaitable[Page[Skill]]:
        """Return a page of the skills.

        Raises:
            InvalidCursor: the cursor did not come from this provider.
        """
        return Page(())

    def get_skill(self, uri: str, request: Request) -> MaybeAwaitable[Skill]:
        """Return the skill whose SKILL.md has this URI.

        Raises:
            ResourceNotFound: there is no such skill.
        """
        raise ResourceNotFound(uri)

    # Tools and prompts

    def list_tools(self, request: Request) -> MaybeAwaitable[Page[Tool]]:
        """Return a page of the tools.

        Raises:
            InvalidCursor: the cursor did not come from this provider.
        """
        return Page(())

    def call_tool(self, name: str, arguments: msgspec.Raw, request: Request) -> MaybeAwaitable[Result | bytes]:
        """Call a tool; ``arguments`` are a JSON object as the client sent it.

        Raises:
            InvalidParams: there is no such tool, or the arguments are not valid.
            ToolError: the tool failed, with a message for the model.
        """
        raise InvalidParams(f"Invalid params: unknown tool: {name[:200]}", parameter="name")

    def list_prompts(self, request: Request) -> MaybeAwaitable[Page[Prompt]]:
        """Return a page of the prompts.

        Raises:
            InvalidCursor: the cursor did not come from this provider.
        """
        return Page(())

    def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> MaybeAwaitable[Result | bytes]:
        """Return the messages of a prompt.

        Raises:
            InvalidParams: there is no such prompt, or the arguments are not valid.
        """
        raise InvalidParams(f"Invalid params: unknown prompt: {name[:200]}", parameter="name")

    # Changes

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield changes of resources, in batches, until the iterator is closed.

        The first batch is empty, and is sent once all later changes are reported: subscriptions wait for it, for some
        seconds. Listen for changes if possible; otherwise, poll the URIs of ``interest``.
        """
        return
        yield ()

    def outdated(self, uris: Collection[str]) -> None:
        """Drop caches of resources that have changed, as another replica reports that watches for this one."""


def forwarding(*rows: RequestType) -> Callable[[P], P]:
    """Add the provider methods of requests to a class that does not define them, each with a call of ``forward``.

    ``forward`` is called with the row of the request, the ``Request``, and the other arguments of the method.
    """

    def add(cls: P) -> P:
        for row in rows:
            if row.provider_method not in vars(cls):
                setattr(cls, row.provider_method, _forward(row))
        return cls

    return add


def _forward(row: RequestType) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any) -> Any:
        return self.forward(row, arguments[-1], *arguments[:-1])

    method.__name__ = method.__qualname__ = row.provider_method
    method.__doc__ = getattr(Provider, row.provider_method).__doc__
    return method


def arguments_of(row: RequestType, params: Any) -> list[Any]:
    """Return the arguments of the provider's method from the parameters of a request."""
    if row is COMPLETE:
        context = {} if params.context is None else params.context.arguments or {}
        return [params.ref, params.argument.name, params.argument.value, context]
    if row is GET_PROMPT:
        return [params.name, params.arguments or {}]
    return [getattr(params, name) for name in row.arguments]


def result_of(row: RequestType, found: Any) -> Any:
    """Return the result of a request from the return value of the provider's method."""
    if not row.result_field:
        return found
    if not isinstance(found, Page):
        return row.result(**{row.result_field: found})
    items = {row.result_field: list(found.items), "next_cursor": found.next_cursor}
    if not row.cacheable:
        return row.result(**items)
    ttl = None if found.ttl is None else round(found.ttl * 1000)
    return row.result(**items, ttl_ms=ttl, cache_scope=found.scope)
