"""Provider of the resources, tools and prompts that an author registers with a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from carrel.awaitables import MaybeAwaitable, is_awaitable
from carrel.catalog.provider import Hit, Page, Provider, Request
from carrel.errors import InvalidParams, ResourceNotFound
from carrel.protocol.channel import ConnectedClient
from carrel.protocol.connection import Peer
from carrel.protocol.methods import CALL_TOOL, COMPLETE, GET_PROMPT, READ_RESOURCE
from carrel.protocol.methods import RequestType as Row
from carrel.protocol.revisions import LATEST
from carrel.protocol.server import Call, ServerProtocol
from carrel.server.completion import Run, limited, listed_values, suggested
from carrel.server.context import Context
from carrel.server.prompts import Prompts, RegisteredPrompt, unknown_prompt
from carrel.server.registry import RegisteredItem, SilentChannel, is_permitted, run_if_permitted
from carrel.server.resources import Resources, StaticResource, Template
from carrel.server.tools import Tools
from carrel.wire.base import Params, Result
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
    from carrel.protocol.channel import Channel
    from carrel.protocol.principal import View
    from carrel.server.runtime import Runtime

__all__ = ["LocalProvider"]


class LocalProvider(Provider):
    """Provider of the items that a server's decorators register."""

    name = ""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.resources = Resources(runtime, self._route)
        self.tools = Tools(runtime)
        self.prompts = Prompts(runtime)
        self.exact: dict[str, StaticResource] = self.resources.static.entries.entries
        self.tool_names = self.tools.entries.entries
        self.prompt_names = self.prompts.entries.entries

    def _route(self) -> None:
        self._runtime.catalog.routes.route(self, sorted(self.resources.templates.entries.entries))

    def _call(self, request: Request, row: Row, params: Params) -> tuple[Call, Channel]:
        """Return the call and channel of a request, created if it does not come from a client."""
        if request.call is not None and request.channel is not None:
            return request.call, request.channel
        connection, client = ServerProtocol(self._runtime.description), ConnectedClient(self._runtime.budget)
        return Call(connection, Peer(LATEST), 0, row, params, Raw(b"{}"), client=client), SilentChannel()

    # Resources

    def read_resource(self, uri: str, request: Request) -> MaybeAwaitable[ReadResourceResult | bytes]:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: there is no such resource.
            InvalidParams: a variable of its template has a value that the function does not take.
        """
        call, channel = request.call, request.channel
        if call is None or channel is None:
            call, channel = self._call(request, READ_RESOURCE, ReadResourceParams(uri=uri))
        resources = self.resources
        entry = self.exact.get(uri)
        if entry is not None:
            if entry.when is not None:
                return self._read_if_permitted(entry, uri, partial(resources.read, entry, call, channel), call, channel)
            return resources.read(entry, call, channel)
        values, template = request.values, None
        if values is not None and request.template is not None:
            template = resources.templates.entries.entries.get(request.template)
        if template is None or values is None:
            template, values = self._template(uri)
        if template is None:
            raise ResourceNotFound(uri)
        if template.when is not None:
            read = partial(resources.read_template, template, uri, values, call, channel)
            return self._read_if_permitted(template, uri, read, call, channel)
        return resources.read_template(template, uri, values, call, channel)

    def _template(self, uri: str) -> tuple[Template | None, Any]:
        """Return the template that matches a URI, or None, and the values of its variables."""
        for template in self.resources.templates.entries:
            values = template.pattern.match(uri)
            if values is not None:
                return template, values
        return None, None

    async def _read_if_permitted(
        self,
        entry: RegisteredItem,
        uri: str,
        read: Callable[[], MaybeAwaitable[ReadResourceResult | bytes]],
        call: Call,
        channel: Channel,
    ) -> ReadResourceResult:
        """Read a resource if it exists for the caller; the result is for the caller alone."""
        context: Context[Any] = Context(self._runtime, call, channel)
        result: ReadResourceResult | bytes
        result = await run_if_permitted(f"resource {uri}", entry.when, context, read, ResourceNotFound(uri))
        return msgspec.structs.replace(decoded(result), cache_scope="private")

    @property
    def guards(self) -> bool:  # type: ignore[override]
        """Whether there are resources that only some callers may see."""
        return self.resources.guarded

    def _entry(self, uri: str) -> StaticResource | Template | None:
        return self.exact.get(uri) or self._template(uri)[0]

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
        context: Context[Any] = Context(self._runtime, request.call, request.channel or SilentChannel())
        return await is_permitted(f"resource {uri}", entry.when, context)

    def list_resources(self, request: Request) -> MaybeAwaitable[Page[Resource]]:
        """Return a page of the resources, in the order of their URIs."""
        return self.resources.static.page(request)

    def list_templates(self, request: Request) -> MaybeAwaitable[Page[ResourceTemplate]]:
        """Return a page of the resource templates."""
        return self.resources.templates.page(request)

    def search(self, query: str, request: Request) -> MaybeAwaitable[Page[Hit]]:
        """Return the resources with the query in their title, name or URI; resources that begin with it come first."""
        if self.resources.static.guarded:
            return self._search_guarded(query, request)
        from carrel.catalog.name_search import search_names  # loaded on first use

        return search_names((entry.item for entry in self.resources.static.entries), query, request)

    async def _search_guarded(self, query: str, request: Request) -> Page[Hit]:
        from carrel.catalog.name_search import search_names  # loaded on first use

        exists = await self.resources.static.existence(request)
        shown = (entry.item for key, entry in self.exact.items() if exists(key))
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
        entry: RegisteredPrompt | Template | None
        if isinstance(reference, PromptReference):
            entry, missing = self.prompts.entries.get(reference.name), unknown_prompt(reference.name)
        else:
            entry, missing = self.resources.templates.entries.get(reference.uri), unknown_template(reference.uri)
        if entry is None:
            raise missing
        shown = listed_values
        if isinstance(entry, Template) and request.view is not None:
            shown = partial(_shown, entry, argument, context, request.view)
        run = Run(self._runtime, call, channel)
        suggest = partial(entry.completers.suggest, argument, value, dict(context), run)
        if entry.when is not None:
            own: Context[Any] = Context(self._runtime, call, channel)
            return _limited_later(run_if_permitted(f"{reference}", entry.when, own, suggest, missing), shown)
        suggestions = suggest()
        return _limited_later(suggestions, shown) if is_awaitable(suggestions) else limited(shown(suggestions))

    # Tools and prompts

    def list_tools(self, request: Request) -> MaybeAwaitable[Page[Tool]]:
        """Return a page of the tools, as the client of the request may see them."""
        return self.tools.page(request)

    def call_tool(self, name: str, arguments: Raw, request: Request) -> MaybeAwaitable[Result | bytes]:
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
        return self.prompts.page(request)

    def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> MaybeAwaitable[Result]:
        """Return the messages of a prompt.

        Raises:
            InvalidParams: there is no such prompt, or the arguments are not valid.
        """
        call, channel = self._call(request, GET_PROMPT, GetPromptParams(name=name, arguments=dict(arguments)))
        entry = self.prompts.known(name)
        get = partial(self.prompts.get, entry, arguments, call, channel)
        if entry.when is None:
            return get()
        context: Context[Any] = Context(self._runtime, call, channel)
        return run_if_permitted(f"prompt {name}", entry.when, context, get, unknown_prompt(name))


def unknown_template(uri: str) -> InvalidParams:
    """Return the error for a resource template that does not exist."""
    return InvalidParams(f"Invalid params: unknown resource template: {uri[:1000]}", parameter="ref")


async def _limited_later(pending: Any, shown: Callable[[Any], Completion | list[str]]) -> Completion:
    return limited(shown(await pending))


def _shown(
    template: Template, argument: str, context: Mapping[str, str], view: View, suggestions: Any
) -> Completion | list[str]:
    """Remove suggestions that name hidden resources, before the limit applies."""
    return suggested(listed_values(suggestions), template.pattern, argument, context, view)
