"""Catalog of a mounted server inside the middleware of that server."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.forwarding import FORWARDED, ForwardingProvider
from carrel.catalog.provider import Page, Provider, Request, arguments_of, result_of
from carrel.catalog.transforms.transform import Transform
from carrel.protocol.methods import COMPLETE, RequestType
from carrel.protocol.server import Call
from carrel.server.middleware.composition import compose, functions_of
from carrel.wire.base import PageParams, PageResult, Result
from carrel.wire.completion import CompleteParams, CompletionArgument, CompletionContext

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.server.dispatch import Dispatch
    from carrel.server.runtime import Operation

__all__ = ["MiddlewareProvider"]


class ProviderCall(Call[Any]):
    """Call of an outer server's client with the names of the mounted server, and the request to its catalog."""

    to_provider: Request = msgspec.field(default_factory=Request)


class MiddlewareProvider(Transform):
    """Provider inside the middleware of a dispatcher, which runs around requests that clients make themselves."""

    def __init__(self, provider: Provider, dispatch: Dispatch) -> None:
        super().__init__(provider)
        self._composed: dict[str, Operation] = {}
        for row in FORWARDED.values():
            around = dispatch.around(row.method)
            functions = [function for each in around for function in functions_of(each, row.operation)]
            if functions:
                self._composed[row.method] = compose(functions, self._handle)

    def forward(self, row: RequestType, request: Request, *arguments: Any) -> MaybeAwaitable[Any]:
        """Pass a request on, inside the middleware if it is the request of a client."""
        call, channel = request.call, request.channel
        if call is None or channel is None or call.request is not row or row.method not in self._composed:
            return ForwardingProvider.forward(self, row, request, *arguments)
        return self._run(row, request, call, channel, *arguments)

    async def _run(self, row: RequestType, request: Request, call: Call, channel: Channel, *arguments: Any) -> Any:
        """Answer a request inside the middleware, with the names and URIs of the mounted server."""
        params: Any
        if row is COMPLETE:
            reference, argument, value, context = arguments
            known = CompletionContext(arguments=dict(context))
            params = CompleteParams(ref=reference, argument=CompletionArgument(argument, value), context=known)
        else:
            given = (dict(each) if isinstance(each, Mapping) else each for each in arguments)
            params = msgspec.structs.replace(call.params, **dict(zip(row.arguments, given, strict=True)))
            if isinstance(params, PageParams):
                params.cursor = request.cursor
        fields = {name: getattr(call, name) for name in Call.__struct_fields__}
        inner = ProviderCall(**{**fields, "params": params, "outer": call, "to_provider": request})
        result: Any = await resolved(self._composed[row.method](inner, channel))
        if not row.result_field:
            return result
        value = getattr(result, row.result_field)
        if not isinstance(result, PageResult):
            return value
        return Page(
            value, result.next_cursor, None if result.ttl_ms is None else result.ttl_ms / 1000, result.cache_scope
        )

    async def _handle(self, call: Call, channel: Channel) -> Result | bytes:
        """Call the provider, at the end of the middleware."""
        assert isinstance(call, ProviderCall)
        row, request = call.request, copy.copy(call.to_provider)
        request.call = call
        if isinstance(call.params, PageParams):
            request.cursor = call.params.cursor
        pending = getattr(self.provider, row.provider_method)(*arguments_of(row, call.params), request)
        result: Result | bytes = result_of(row, await resolved(pending))
        return result
