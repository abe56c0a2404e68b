"""Provider of the resources, tools and prompts that an author registers with a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from carrel.catalog.cursor import key_of, position_of
from carrel.catalog.provider import Hit, MaybeAwaitable, Page, Provider, Request, Visible
from carrel.errors import InvalidParams, ResourceNotFound
from carrel.protocol.connection import Peer
from carrel.protocol.methods import READ_RESOURCE
from carrel.protocol.revisions import LATEST
from carrel.protocol.server import Call, Connection
from carrel.server.completion import limited, listed_values, search_names
from carrel.server.prompts import Prompts
from carrel.server.resources import Resources, Template
from carrel.server.tools import Tools
from carrel.server.views import suggested
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.prompts import Prompt
from carrel.wire.resources import ReadResourceParams, Resource, ResourceTemplate
from carrel.wire.tools import Tool

if TYPE_CHECKING:
    from carrel.catalog.listing import Listing
    from carrel.protocol.channel import Channel
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
    """Provider of what the decorators of a server register."""

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

    def _call(self, request: Request, params: Any) -> tuple[Call, Channel]:
        """Return the call and channel of a request, made up where it does not come from a client."""
        if request.call is not None and request.channel is not None:
            return request.call, request.channel
        connection = Connection(self._runtime.description, self._runtime.budget)
        return Call(connection, Peer(LATEST), 0, READ_RESOURCE, params, Raw(b"{}")), _Silence()

    # Resources

    def read_resource(self, uri: str, request: Request) -> Any:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: there is no such resource.
            InvalidParams: a variable of its template has a value that the function does not take.
        """
        call, channel = request.call, request.channel
        if call is None or channel is None:
            call, channel = self._call(request, ReadResourceParams(uri=uri))
        entry = self.resources.static.entries.get(uri)
        if entry is not None:
            return self.resources.read(entry, call, channel)
        template = None if request.template is None else self.resources.templates.entries.get(request.template)
        if template is None or request.values is None:
            for template in self.resources.templates:
                values = template.pattern.match(uri)
                if values is not None:
                    return self.resources.read_template(template, uri, values, call, channel)
            raise ResourceNotFound(uri)
        return self.resources.read_template(template, uri, request.values, call, channel)

    def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the resources, in the order of their URIs."""
        entries, more = _page(self.resources.static, request)
        return Page([entry.resource for entry in entries], more)

    def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the resource templates."""
        entries, more = _page(self.resources.templates, request)
        return Page([entry.template for entry in entries], more)

    def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the resources with the query in their title, name or URI; those that begin with it are first."""
        return search_names((entry.resource for entry in self.resources.static), query, request)

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
        call, _ = self._call(request, None)
        run = partial(self._runtime.run_in_thread, call)
        if isinstance(reference, PromptReference):
            suggestions, shown = self.prompts.suggest(reference.name, argument, value, context, run), listed_values
        else:
            template = self.resources.templates.get(reference.uri)
            if template is None:
                raise InvalidParams(
                    f"Invalid params: unknown resource template: {reference.uri[:1000]}", parameter="ref"
                )
            suggestions = self.resources.suggest(template, argument, value, context, run)
            allowed = None if request.view is None else partial(request.view.allows, "complete")
            shown = partial(_shown, template, argument, context, allowed)
        return _limited_later(suggestions, shown) if hasattr(suggestions, "__await__") else limited(shown(suggestions))

    # Tools and prompts

    def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of the tools, as the client of the request may see them."""
        _, describe = self.tools.describe(None if request.call is None else request.call.peer)
        entries, more = _page(self.tools.entries, request)
        return Page([tool for entry in entries if (tool := describe(entry)) is not None], more)

    def call_tool(self, name: str, arguments: Raw, request: Request) -> Any:
        """Call a tool.

        Raises:
            InvalidParams: there is no such tool, or the arguments are not valid.
        """
        call, channel = request.call, request.channel
        if call is None or channel is None:
            call, channel = self._call(request, None)
        return self.tools.call(name, arguments, call, channel)

    def list_prompts(self, request: Request) -> Page[Prompt]:
        """Return a page of the prompts."""
        entries, more = _page(self.prompts.entries, request)
        return Page([entry.prompt for entry in entries], more)

    def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> Any:
        """Return the messages of a prompt.

        Raises:
            InvalidParams: there is no such prompt, or the arguments are not valid.
        """
        call, channel = self._call(request, None)
        return self.prompts.get(name, arguments, call, channel)


def _page(listing: Listing[Any], request: Request) -> tuple[list[Any], str | None]:
    after = None if request.cursor is None else key_of(request.cursor)
    entries, more = listing.page(after, request.limit)
    return [entry for _, entry in entries], None if more is None else position_of(more)


async def _limited_later(pending: Any, shown: Callable[[Any], Completion | list[str]]) -> Completion:
    return limited(shown(await pending))


def _shown(
    template: Template, argument: str, context: Mapping[str, str], visible: Visible | None, suggestions: Any
) -> Completion | list[str]:
    """Return suggestions without those that name hidden resources, before they are limited."""
    values = listed_values(suggestions)
    return values if visible is None else suggested(values, template.pattern, argument, context, visible)
