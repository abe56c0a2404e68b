"""Catalog of a mounted server inside the middleware of that server."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.provider import Page, Provider, Request
from carrel.catalog.transforms.transform import Transform
from carrel.protocol.extensions.skills import GET_SKILL, LIST_SKILLS, READ_DIRECTORY
from carrel.protocol.methods import (
    CALL_TOOL,
    COMPLETE,
    GET_PROMPT,
    LIST_PROMPTS,
    LIST_RESOURCE_TEMPLATES,
    LIST_RESOURCES,
    LIST_TOOLS,
    READ_RESOURCE,
    RequestType,
)
from carrel.protocol.server import Call
from carrel.server.middleware.composition import compose, functions_of
from carrel.wire.base import PageResult, Params, Result
from carrel.wire.completion import (
    CompleteParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from carrel.wire.prompts import ListPromptsResult, Prompt
from carrel.wire.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from carrel.wire.skills import GetSkillResult, ListSkillsResult, ReadDirectoryResult, Skill
from carrel.wire.tools import ListToolsResult, Tool

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.server.dispatch import Dispatch
    from carrel.server.runtime import Operation

__all__ = ["MiddlewareProvider"]

#: Results of lists, with the name of the field of their items, and the method of ``Provider``.
LISTS: Mapping[RequestType[Any, Any], tuple[type[PageResult], str, str]] = {
    LIST_PROMPTS: (ListPromptsResult, "prompts", "list_prompts"),
    LIST_RESOURCES: (ListResourcesResult, "resources", "list_resources"),
    LIST_RESOURCE_TEMPLATES: (ListResourceTemplatesResult, "resource_templates", "list_templates"),
    LIST_SKILLS: (ListSkillsResult, "skills", "list_skills"),
    LIST_TOOLS: (ListToolsResult, "tools", "list_tools"),
    READ_DIRECTORY: (ReadDirectoryResult, "resources", "list_directory"),
}


class ProviderCall(Call[Any]):
    """Call of an outer server's client with the names of the mounted server, and the request to its catalog."""

    to_provider: Request = msgspec.field(default_factory=Request)


class MiddlewareProvider(Transform):
    """Provider inside the middleware of a dispatcher, which runs around requests that clients make themselves."""

    def __init__(self, provider: Provider, dispatch: Dispatch) -> None:
        super().__init__(provider)
        handlers: dict[RequestType[Any, Any], Operation] = {
            CALL_TOOL: self._call_tool,
            COMPLETE: self._complete,
            GET_PROMPT: self._get_prompt,
            READ_RESOURCE: self._read_resource,
            GET_SKILL: self._get_skill,
            **dict.fromkeys(LISTS, self._list),
        }
        self._composed: dict[str, Operation] = {}
        for row, handler in handlers.items():
            around = dispatch.around(row.method)
            functions = [function for each in around for function in functions_of(each, row.operation)]
            if functions:
                self._composed[row.method] = compose(functions, handler)

    def _runs(self, row: RequestType[Any, Any], request: Request) -> bool:
        """Return whether middleware runs around a request."""
        return (
            row.method in self._composed
            and request.channel is not None
            and request.call is not None
            and request.call.request is row
        )

    async def _run(self, row: RequestType[Any, Any], request: Request, params: Params) -> Result:
        """Answer a request inside the middleware, with other parameters than those of the client."""
        call, channel = request.call, request.channel
        assert call is not None
        assert channel is not None
        fields = {name: getattr(call, name) for name in Call.__struct_fields__}
        inner = ProviderCall(**{**fields, "params": params, "outer": call, "to_provider": request})
        result: Any = await resolved(self._composed[row.method](inner, channel))
        return result  # type: ignore[no-any-return]

    # Handlers, at the end of the middleware

    def _call_tool(self, call: Call, channel: Channel) -> MaybeAwaitable[Result | bytes]:
        return self.provider.call_tool(call.params.name, call.params.arguments, _request(call))

    def _get_prompt(self, call: Call, channel: Channel) -> MaybeAwaitable[Result | bytes]:
        return self.provider.get_prompt(call.params.name, call.params.arguments or {}, _request(call))

    def _read_resource(self, call: Call, channel: Channel) -> MaybeAwaitable[ReadResourceResult | bytes]:
        return self.provider.read_resource(call.params.uri, _request(call))

    async def _complete(self, call: Call, channel: Channel) -> Result:
        params: CompleteParams = call.params
        context = {} if params.context is None or params.context.arguments is None else params.context.arguments
        found = self.provider.complete(params.ref, params.argument.name, params.argument.value, context, _request(call))
        return CompleteResult(completion=await resolved(found))

    async def _list(self, call: Call, channel: Channel) -> Result:
        kind, field, method = LISTS[call.request]
        request = _request(call)
        request.cursor = call.params.cursor
        arguments = [getattr(call.params, name) for name in call.request.arguments]
        page: Page[Any] = await resolved(getattr(self.provider, method)(*arguments, request))
        make: Any = kind
        result = make(next_cursor=page.next_cursor, **{field: list(page.items)})
        if page.ttl is not None and call.request.cacheable:
            result.ttl_ms = round(page.ttl * 1000)
        if page.scope is not None and call.request.cacheable:
            result.cache_scope = page.scope
        return result  # type: ignore[no-any-return]

    async def _get_skill(self, call: Call, channel: Channel) -> Result:
        return GetSkillResult(skill=await resolved(self.provider.get_skill(call.params.uri, _request(call))))

    # The interface of providers

    def call_tool(self, name: str, arguments: Raw, request: Request) -> MaybeAwaitable[Result | bytes]:
        """Call a tool inside the middleware."""
        if not self._runs(CALL_TOOL, request):
            return self.provider.call_tool(name, arguments, request)
        assert request.call is not None
        params = msgspec.structs.replace(request.call.params, name=name, arguments=arguments)
        return self._run(CALL_TOOL, request, params)

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> Result | bytes:
        """Return the messages of a prompt, inside the middleware."""
        if not self._runs(GET_PROMPT, request):
            return await resolved(self.provider.get_prompt(name, arguments, request))
        assert request.call is not None
        params = msgspec.structs.replace(request.call.params, name=name, arguments=dict(arguments))
        return await self._run(GET_PROMPT, request, params)

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult | bytes:
        """Return the contents of a resource, inside the middleware."""
        if not self._runs(READ_RESOURCE, request):
            return await resolved(self.provider.read_resource(uri, request))
        assert request.call is not None
        result: Any = await self._run(READ_RESOURCE, request, msgspec.structs.replace(request.call.params, uri=uri))
        return result  # type: ignore[no-any-return]

    async def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> Completion:
        """Return suggestions, inside the middleware."""
        if not self._runs(COMPLETE, request):
            return await resolved(self.provider.complete(reference, argument, value, context, request))
        params = CompleteParams(
            ref=reference,
            argument=CompletionArgument(argument, value),
            context=CompletionContext(arguments=dict(context)),
        )
        result: Any = await self._run(COMPLETE, request, params)
        return result.completion  # type: ignore[no-any-return]

    async def _page_of(self, row: RequestType[Any, Any], request: Request, **changed: str) -> Page[Any]:
        _, field, method = LISTS[row]
        if not self._runs(row, request):
            page: Page[Any] = await resolved(getattr(self.provider, method)(*changed.values(), request))
            return page
        assert request.call is not None
        params = msgspec.structs.replace(request.call.params, cursor=request.cursor, **changed)
        result: Any = await self._run(row, request, params)
        if not row.cacheable:
            return Page(getattr(result, field), result.next_cursor)
        ttl = None if result.ttl_ms is None else result.ttl_ms / 1000
        return Page(getattr(result, field), result.next_cursor, ttl, result.cache_scope)

    async def get_skill(self, uri: str, request: Request) -> Skill:
        """Return a skill, inside the middleware."""
        if not self._runs(GET_SKILL, request):
            return await resolved(self.provider.get_skill(uri, request))
        assert request.call is not None
        result: Any = await self._run(GET_SKILL, request, msgspec.structs.replace(request.call.params, uri=uri))
        return result.skill  # type: ignore[no-any-return]

    async def list_skills(self, request: Request) -> Page[Skill]:
        """Return a page of the skills, inside the middleware."""
        return await self._page_of(LIST_SKILLS, request)

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the resources in a directory, inside the middleware."""
        return await self._page_of(READ_DIRECTORY, request, uri=uri)

    async def list_prompts(self, request: Request) -> Page[Prompt]:
        """Return a page of the prompts, inside the middleware."""
        return await self._page_of(LIST_PROMPTS, request)

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the resources, inside the middleware."""
        return await self._page_of(LIST_RESOURCES, request)

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the resource templates, inside the middleware."""
        return await self._page_of(LIST_RESOURCE_TEMPLATES, request)

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of the tools, inside the middleware."""
        return await self._page_of(LIST_TOOLS, request)


def _request(call: Call) -> Request:
    """Return the request to the mounted server's catalog that belongs to a call."""
    assert isinstance(call, ProviderCall)
    request = copy.copy(call.to_provider)
    request.call = call
    return request
