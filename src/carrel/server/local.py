"""Provider of the resources, tools and prompts that an author registers with a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from carrel.awaitables import MaybeAwaitable, is_awaitable, resolved
from carrel.catalog.paging import key_of, position_of
from carrel.catalog.provider import Hit, Page, Provider, Request
from carrel.catalog.view_filter import (
    UNFILTERED,
    FilterOf,
    prompt_filter,
    resource_filter,
    template_filter,
    tool_filter,
)
from carrel.errors import InvalidParams, ResourceNotFound
from carrel.protocol.connection import Peer
from carrel.protocol.methods import CALL_TOOL, COMPLETE, GET_PROMPT, READ_RESOURCE
from carrel.protocol.methods import RequestType as Row
from carrel.protocol.revisions import LATEST
from carrel.protocol.server import Call, Connection
from carrel.server.completion import Run, limited, listed_values, suggested
from carrel.server.context import Context
from carrel.server.options import When
from carrel.server.prompts import Prompts, unknown_prompt
from carrel.server.resources import Resources, StaticResource, Template
from carrel.server.tools import Tools
from carrel.wire.base import Params
from carrel.wire.completion import (
    CompleteParams,
    Completion,
    CompletionArgument,
    PromptReference,
    ResourceTemplateReference,
)
from carrel.wire.prompts import GetPromptParams, Prompt
from carrel.wire.resources import ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate, decoded
from carrel.wire.tools import CallToolParams, Tool

if TYPE_CHECKING:
    from carrel.catalog.ordered_list import OrderedList
    from carrel.protocol.channel import Channel
    from carrel.protocol.principal import View
    from carrel.server.runtime import Runtime

__all__ = ["LocalProvider"]


class _Silence:
    """Channel of a call that no client has made: notifications are dropped."""

    muted = True

    def send(self, message: bytes, key: object = None) -> None:
        """Drop a message."""

    async def drain(self) -> None:
        """Return at once."""

    def pause(self, retry: int | None = None) -> None:
        """Do nothing."""


class LocalProvider(Provider):
    """Provider of the items that a server's decorators register."""

    name = ""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.resources = Resources(runtime, self._route)
        self.tools = Tools(runtime)
        self.prompts = Prompts(runtime)
        self.exact = self.resources.static.entries
        self.tool_names = self.tools.entries.entries
        self.prompt_names = self.prompts.entries.entries

    def _route(self) -> None:
        self._runtime.catalog.routes.route(self, [entry.template.uri_template for entry in self.resources.templates])

    def _call(self, request: Request, row: Row[Any, Any], params: Params) -> tuple[Call, Channel]:
        """Return the call and channel of a request, made up where it does not come from a client."""
        if request.call is not None and request.channel is not None:
            return request.call, request.channel
        connection = Connection(self._runtime.description)
        return Call(connection, Peer(LATEST), 0, row, params, Raw(b"{}")), _Silence()

    # Resources

    def read_resource(self, uri: str, request: Request) -> Any:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: there is no such resource.
            InvalidParams: a variable of its template has a value that the function does not take.
        """
        call, channel = request.call, request.channel
        if call is None or channel is None:
            call, channel = self._call(request, READ_RESOURCE, ReadResourceParams(uri=uri))
        resources = self.resources
        entry = resources.static.entries.get(uri)
        if entry is not None:
            if entry.when is not None:
                return self._if_permitted(entry.when, uri, partial(resources.read, entry, call, channel), call, channel)
            return resources.read(entry, call, channel)
        values, template = request.values, None
        if values is not None and request.template is not None:
            template = resources.templates.entries.get(request.template)
        if template is None or values is None:
            template, values = self._template(uri)
        if template is None:
            raise ResourceNotFound(uri)
        if template.when is not None:
            read = partial(resources.read_template, template, uri, values, call, channel)
            return self._if_permitted(template.when, uri, read, call, channel)
        return resources.read_template(template, uri, values, call, channel)

    def _template(self, uri: str) -> tuple[Template | None, Any]:
        """Return the template that matches a URI, or None, and the values of its variables."""
        for template in self.resources.templates:
            values = template.pattern.match(uri)
            if values is not None:
                return template, values
        return None, None

    async def _if_permitted(
        self, when: When, uri: str, read: Callable[[], Any], call: Call, channel: Channel
    ) -> ReadResourceResult | bytes:
        """Read a resource if it exists for the caller; the result is for the caller alone."""
        from carrel.server.visibility import is_permitted

        if not await is_permitted(f"resource {uri}", when, Context(self._runtime, call, channel)):
            raise ResourceNotFound(uri)
        result: ReadResourceResult | bytes = await resolved(read())
        return msgspec.structs.replace(decoded(result), cache_scope="private")

    @property
    def guards(self) -> bool:  # type: ignore[override]
        """Whether there are resources that only some callers may see."""
        return self.resources.guarded

    def _entry(self, uri: str) -> StaticResource | Template | None:
        found: StaticResource | Template | None = self.resources.static.entries.get(uri)
        return self._template(uri)[0] if found is None else found

    def is_guarded(self, uri: str) -> bool:
        """Return whether a resource exists for some callers alone."""
        entry = self._entry(uri) if self.guards else None
        return entry is not None and entry.when is not None

    async def shows(self, uri: str, request: Request) -> bool:
        """Return whether a resource exists for the caller of a request."""
        entry = self._entry(uri)
        if entry is None or entry.when is None:
            return True
        if request.call is None:
            return False
        from carrel.server.visibility import is_permitted

        context: Context[Any] = Context(self._runtime, request.call, request.channel or _Silence())
        return await is_permitted(f"resource {uri}", entry.when, context)

    async def _hidden(self, listing: OrderedList[Any], request: Request) -> frozenset[str]:
        """Return the keys of the entries of a list that do not exist for the caller."""
        if request.call is None:
            return frozenset([key for key, entry in listing.entries.items() if entry.when is not None])
        from carrel.server.visibility import hidden

        return await hidden(listing, self._runtime, request.call, request.channel or _Silence())

    async def _guarded_page(
        self, listing: OrderedList[Any], request: Request, cut: FilterOf, describe: Callable[[Any], Any]
    ) -> Page[Any]:
        """Return a page of a list that depends on the caller."""
        entries, more = _page(listing, request, cut, await self._hidden(listing, request))
        return Page([item for entry in entries if (item := describe(entry)) is not None], more, scope="private")

    def list_resources(self, request: Request) -> MaybeAwaitable[Page[Resource]]:
        """Return a page of the resources, in the order of their URIs."""
        if self.resources.guarded:
            return self._guarded_page(self.resources.static, request, resource_filter, lambda entry: entry.resource)
        entries, more = _page(self.resources.static, request, resource_filter)
        return Page([entry.resource for entry in entries], more)

    def list_templates(self, request: Request) -> MaybeAwaitable[Page[ResourceTemplate]]:
        """Return a page of the resource templates."""
        if self.resources.guarded:
            return self._guarded_page(self.resources.templates, request, template_filter, lambda entry: entry.template)
        entries, more = _page(self.resources.templates, request, template_filter)
        return Page([entry.template for entry in entries], more)

    def search(self, query: str, request: Request) -> MaybeAwaitable[Page[Hit]]:
        """Return the resources with the query in their title, name or URI; resources that begin with it come first."""
        if self.resources.guarded:
            return self._search_guarded(query, request)
        from carrel.catalog.name_search import search_names  # loaded on first use

        return search_names((entry.resource for entry in self.resources.static), query, request)

    async def _search_guarded(self, query: str, request: Request) -> Page[Hit]:
        from carrel.catalog.name_search import search_names  # loaded on first use

        hidden = await self._hidden(self.resources.static, request)
        shown = (entry.resource for key, entry in self.resources.static.entries.items() if key not in hidden)
        return msgspec.structs.replace(search_names(shown, query, request), scope="private")

    def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> MaybeAwaitable[Completion]:
        """Return suggestions for a variable of a template or an argument of a prompt.

        Raises:
            InvalidParams: there is no such template, prompt or argument.
        """
        params = CompleteParams(ref=reference, argument=CompletionArgument(argument, value))
        call, channel = self._call(request, COMPLETE, params)
        when = self._condition(reference)
        if when is not None:
            return self._complete_if_permitted(when, reference, argument, value, context, request, call, channel)
        return self._suggest(reference, argument, value, context, request, Run(self._runtime, call, channel))

    def _condition(self, reference: ResourceTemplateReference | PromptReference) -> When | None:
        if isinstance(reference, PromptReference):
            prompt = self.prompts.entries.get(reference.name)
            return None if prompt is None else prompt.when
        template = self.resources.templates.get(reference.uri)
        return None if template is None else template.when

    async def _complete_if_permitted(
        self,
        when: When,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
        call: Call,
        channel: Channel,
    ) -> Completion:
        from carrel.server.visibility import is_permitted

        if not await is_permitted(f"{reference}", when, Context(self._runtime, call, channel)):
            if isinstance(reference, PromptReference):
                raise unknown_prompt(reference.name)
            raise unknown_template(reference.uri)
        run = Run(self._runtime, call, channel)
        return await resolved(self._suggest(reference, argument, value, context, request, run))

    def _suggest(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
        run: Run,
    ) -> MaybeAwaitable[Completion]:
        if isinstance(reference, PromptReference):
            suggestions, shown = self.prompts.suggest(reference.name, argument, value, context, run), listed_values
        else:
            template = self.resources.templates.get(reference.uri)
            if template is None:
                raise unknown_template(reference.uri)
            suggestions = self.resources.suggest(template, argument, value, context, run)
            shown = partial(_shown, template, argument, context, request.view)
        return _limited_later(suggestions, shown) if is_awaitable(suggestions) else limited(shown(suggestions))

    # Tools and prompts

    def list_tools(self, request: Request) -> MaybeAwaitable[Page[Tool]]:
        """Return a page of the tools, as the client of the request may see them."""
        _, describe = self.tools.describe(None if request.call is None else request.call.peer)
        if self.tools.guarded:
            return self._guarded_page(self.tools.entries, request, tool_filter, describe)
        entries, more = _page(self.tools.entries, request, tool_filter)
        return Page([tool for entry in entries if (tool := describe(entry)) is not None], more)

    def call_tool(self, name: str, arguments: Raw, request: Request) -> Any:
        """Call a tool.

        Raises:
            InvalidParams: there is no such tool, or the arguments are not valid.
        """
        call, channel = request.call, request.channel
        if call is None or channel is None:
            call, channel = self._call(request, CALL_TOOL, CallToolParams(name=name, arguments=arguments))
        return self.tools.call(name, arguments, call, channel)

    def list_prompts(self, request: Request) -> MaybeAwaitable[Page[Prompt]]:
        """Return a page of the prompts."""
        if self.prompts.guarded:
            return self._guarded_page(self.prompts.entries, request, prompt_filter, lambda entry: entry.prompt)
        entries, more = _page(self.prompts.entries, request, prompt_filter)
        return Page([entry.prompt for entry in entries], more)

    def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> Any:
        """Return the messages of a prompt.

        Raises:
            InvalidParams: there is no such prompt, or the arguments are not valid.
        """
        call, channel = self._call(request, GET_PROMPT, GetPromptParams(name=name, arguments=dict(arguments)))
        if self.prompts.guarded:
            return self._get_if_permitted(name, arguments, call, channel)
        return self.prompts.get(name, arguments, call, channel)

    async def _get_if_permitted(self, name: str, arguments: Mapping[str, str], call: Call, channel: Channel) -> Any:
        from carrel.server.visibility import is_permitted

        entry = self.prompts.find(name)
        if not await is_permitted(f"prompt {name}", entry.when, Context(self._runtime, call, channel)):
            raise unknown_prompt(name)
        return await resolved(self.prompts.get(name, arguments, call, channel))


def unknown_template(uri: str) -> InvalidParams:
    """Return the error for a resource template that does not exist."""
    return InvalidParams(f"Invalid params: unknown resource template: {uri[:1000]}", parameter="ref")


def _page(
    listing: OrderedList[Any], request: Request, cut: FilterOf, hidden: frozenset[str] = frozenset()
) -> tuple[list[Any], str | None]:
    after = None if request.cursor is None else key_of(request.cursor)
    part = UNFILTERED if request.view is None else cut(request.view)
    shown = part.shown
    if hidden:

        def shown(key: str) -> bool:
            return key not in hidden and (part.shown is None or part.shown(key))

    entries, more = listing.page(after, request.limit, part.within, shown)
    return [entry for _, entry in entries], None if more is None else position_of(more)


async def _limited_later(pending: Any, shown: Callable[[Any], Completion | list[str]]) -> Completion:
    return limited(shown(await pending))


def _shown(
    template: Template, argument: str, context: Mapping[str, str], view: View | None, suggestions: Any
) -> Completion | list[str]:
    """Remove suggestions that name hidden resources, before the limit applies."""
    values = listed_values(suggestions)
    return values if view is None else suggested(values, template.pattern, argument, context, view)
