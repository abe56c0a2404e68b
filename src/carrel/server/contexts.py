"""Contexts of requests, for providers that ask or notify the client of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from carrel.server.context import Context
from carrel.server.elicitation.input_required import use_state

if TYPE_CHECKING:
    from carrel.catalog.provider import Request, RequestContext
    from carrel.server.runtime import Runtime

__all__ = ["ServerContexts"]


class ServerContexts:
    """Contexts of the requests to one server."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @asynccontextmanager
    async def open(self, request: Request, *, repeatable: bool) -> AsyncIterator[RequestContext]:
        """Give the context of a request that comes from a client, and end it.

        Raises:
            InvalidParams: the ``requestState`` of the request was used before, or is not valid.
        """
        call, channel = request.call, request.channel
        assert call is not None
        assert channel is not None
        context: Context = Context(self._runtime, call, channel, repeatable=repeatable)
        if getattr(call.params, "request_state", None) is not None:
            await use_state(context)
        try:
            yield context
        finally:
            context.over = True
        context.insist()
