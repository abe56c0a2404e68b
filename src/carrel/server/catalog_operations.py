"""Request handlers that are answered from the catalog: lists, reads, completion, tools, prompts, skills."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, Raw

from carrel.awaitables import MaybeAwaitable, is_awaitable, resolved
from carrel.catalog.access import request_of
from carrel.catalog.provider import Request, arguments_of, result_of
from carrel.errors import InvalidParams, MethodNotFound, ResourceForbidden, ResourceNotFound
from carrel.protocol.methods import LIST_PROMPTS, LIST_RESOURCE_TEMPLATES, LIST_RESOURCES, LIST_TOOLS, PROVIDER_REQUESTS
from carrel.server.completion import limited, suggested
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.base import CacheableResult, PageParams, Result
from carrel.wire.completion import CompleteResult, Completion, ResourceTemplateReference
from carrel.wire.resources import ReadResourceResult

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.methods import RequestType
    from carrel.protocol.principal import View
    from carrel.protocol.server import Call
    from carrel.server.local import LocalProvider
    from carrel.server.registry import ItemRegistry
    from carrel.server.runtime import Operation, Runtime
    from carrel.server.watching import Watches

__all__ = ["CatalogOperations"]

R = TypeVar("R", bound=CacheableResult)
NO_ARGUMENTS = Raw(b"{}")


class CatalogOperations:
    """Request handlers over the catalog of a server."""

    def __init__(self, runtime: Runtime, local: LocalProvider, watches: Watches) -> None:
        self._runtime = runtime
        self._catalog = runtime.catalog
        self._local = local
        self._watches = watches
        self._contexts = runtime.contexts

    def handlers(self) -> dict[str, Operation]:
        """Return the handlers by operation name, without handlers of extensions."""
        handlers: dict[str, Operation] = {
            "call_tool": self.call_tool,
            "complete": self.complete,
            "read_resource": self.read_resource,
        }
        local = self._local
        registries: dict[RequestType, ItemRegistry[Any]] = {
            LIST_PROMPTS: local.prompts,
            LIST_RESOURCES: local.resources.static,
            LIST_RESOURCE_TEMPLATES: local.resources.templates,
            LIST_TOOLS: local.tools,
        }
        handlers |= {row.operation: partial(self.list_items, row, registry) for row, registry in registries.items()}
        for row in PROVIDER_REQUESTS:
            handlers.setdefault(row.operation, partial(self.forward, row))
        return handlers

    def forward(self, row: RequestType, call: Call, channel: Channel) -> MaybeAwaitable[Result | bytes]:
        """Answer a request with the result of the provider's method."""
        params = call.params
        if isinstance(params, PageParams):
            request = request_of(call, channel, params.cursor, self._runtime.settings.page_size)
        else:
            request = request_of(call, channel, contexts=self._contexts)
        pending: MaybeAwaitable[Any] = getattr(self._catalog, row.provider_method)(*arguments_of(row, params), request)
        return self._result(row, pending, call) if row.result_field else pending

    @staticmethod
    async def _result(row: RequestType, pending: MaybeAwaitable[Any], call: Call) -> Result:
        result: Result = result_of(row, await resolved(pending))
        return private(result, call) if row.cacheable and isinstance(result, CacheableResult) else result

    # Lists

    def _is_local(self, method: str) -> bool:
        """Return whether a list contains only items that the author registered."""
        return len(self._catalog.offering(method)) == 1

    def list_items(
        self, row: RequestType, registry: ItemRegistry[Any], call: Call, channel: Channel
    ) -> MaybeAwaitable[Result | bytes]:
        """Answer a list request: from the registry if the list has only items that the author registered."""
        if (self._catalog.only is not None or self._is_local(row.provider_method)) and not registry.guarded:
            return registry.answer(call)
        if row is LIST_RESOURCES and self._watches.forming and call.connection in self._runtime.hub.sessions:
            return self._list_later(call, channel)
        return self.forward(row, call, channel)

    async def _list_later(self, call: Call, channel: Channel) -> Result | bytes:
        """Answer resources/list for a session once the providers listen, so that it is notified of later changes."""
        await self._watches.wait_for_list()
        return await resolved(self.forward(call.request, call, channel))

    # Reading

    def read_resource(self, call: Call, channel: Channel) -> MaybeAwaitable[Result | bytes]:
        """Answer resources/read."""
        if call.view is not None:
            return self._read_view(call.view, call, channel)
        return self._catalog.read_resource(call.params.uri, Request(call, channel, contexts=self._contexts))

    def _read_view(self, view: View, call: Call, channel: Channel) -> MaybeAwaitable[ReadResourceResult | bytes]:
        """Answer resources/read under access rules; ``cacheScope`` is private unless all may read it for certain."""
        uri: str = call.params.uri
        result = self._catalog.read_resource(uri, request_of(call, channel, contexts=self._contexts))
        if view.everybody or (not view.differs(uri) and self._is_local("read_resource")):
            return result  # elsewhere, a link may have led anywhere
        return private(result, call) if isinstance(result, ReadResourceResult) else _private_later(result, call)

    async def read_directory(self, call: Call, channel: Channel) -> Result | bytes:
        """Answer resources/directory/read."""
        uri: str = call.params.uri
        try:
            return await resolved(self.forward(call.request, call, channel))
        except (ResourceNotFound, ResourceForbidden):
            raise InvalidParams(f"{uri[:1000]} is not a directory", {"uri": uri[:1000]}, parameter="uri") from None

    async def get_skill(self, call: Call, channel: Channel) -> Result | bytes:
        """Answer skills/get."""
        uri: str = call.params.uri
        try:
            return await resolved(self.forward(call.request, call, channel))
        except (ResourceNotFound, ResourceForbidden):
            raise InvalidParams(f"No skill is served at {uri[:1000]}", {"uri": uri[:1000]}, parameter="uri") from None

    # Tools, prompts and completion

    def call_tool(self, call: Call, channel: Channel) -> MaybeAwaitable[Result | bytes]:
        """Answer tools/call."""
        raw = call.params.arguments
        if raw is UNSET or (len(memoryview(raw)) == 4 and bytes(raw) == b"null"):
            raw = NO_ARGUMENTS
        if call.view is None:
            request = Request(call, channel, contexts=self._contexts)
        else:
            request = request_of(call, channel, contexts=self._contexts)
        return self._catalog.call_tool(call.params.name, raw, request)

    def complete(self, call: Call, channel: Channel) -> MaybeAwaitable[Result | bytes]:
        """Answer completion/complete."""
        if not self.completes:
            raise MethodNotFound("Method not found: this server has nothing to complete")
        request = request_of(call, channel)
        reference, argument, value, context = arguments_of(call.request, call.params)
        found = self._catalog.complete(reference, argument, value, context, request)
        if is_awaitable(found):
            return self._complete_later(found, request)
        return self._completed(found, request)

    @property
    def completes(self) -> bool:
        """Whether anything can be completed."""
        local = self._local
        return local.resources.completes or local.prompts.completes or not self._is_local("complete")

    async def _complete_later(self, pending: Awaitable[Completion], request: Request) -> Result:
        return self._completed(await pending, request)

    @staticmethod
    def _completed(completion: Completion, request: Request) -> Result:
        assert request.call is not None
        params = request.call.params
        if request.view is not None and isinstance(params.ref, ResourceTemplateReference):
            context = {} if params.context is None or params.context.arguments is None else params.context.arguments
            try:
                template = UriTemplate(params.ref.uri)
            except UriTemplateError:
                return CompleteResult(completion=limited([]))  # a resource without variables
            shown = suggested(completion, template, params.argument.name, context, request.view)
            return CompleteResult(completion=limited(shown))
        return CompleteResult(completion=limited(completion))


def private(result: R, call: Call) -> R:
    """Return a result with ``cacheScope`` private, where it depends on the caller."""
    if call.view is None or call.view.everybody:
        return result
    return msgspec.structs.replace(result, cache_scope="private")


async def _private_later(pending: MaybeAwaitable[ReadResourceResult | bytes], call: Call) -> ReadResourceResult | bytes:
    result: ReadResourceResult | bytes = await resolved(pending)
    if isinstance(result, bytes):
        from carrel.protocol.passed_results import with_members

        everybody = call.view is None or call.view.everybody or not call.peer.revision.stateless
        return result if everybody else with_members(result, {"cacheScope": "private"})
    return private(result, call)
