"""Contexts of requests, for providers that ask or notify the client of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from carrel.errors import InvalidParams
from carrel.server.context import Context
from carrel.server.elicitation.input_required import use_state

if TYPE_CHECKING:
    from carrel.awaitables import MaybeAwaitable
    from carrel.catalog.provider import Request, RequestContext
    from carrel.catalog.request import TaskSupport
    from carrel.protocol.channel import Channel
    from carrel.server.runtime import Runtime
    from carrel.server.tasks.tasks import Tasks
    from carrel.wire.base import Result
    from carrel.wire.client_features import ServerRequestParams

__all__ = ["ServerContexts"]


class ProviderContext(Context):
    """Context of a request that a provider answers, which may have requests of another server."""

    __slots__ = ()

    async def pass_on(self, params: ServerRequestParams, *, key: str | None = None) -> Any:
        """Forward a request of another server to the client unchanged, and return its whole result, unchecked.

        Members that are not known here are passed on both ways, see ``carrel.protocol.unknown``.

        Raises:
            InvalidParams: the request makes no sense.
            MissingCapability: the client did not declare that it can answer it.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or went away.
        """
        from carrel.server.elicitation.forwarded_requests import forwarded_request  # loaded on first use

        try:
            request = forwarded_request(params, self._call.peer.revision)
        except ValueError as error:
            raise InvalidParams(f"Invalid params: {error}") from None
        return await self._ask(request, key)


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
        context = ProviderContext(self._runtime, call, channel, repeatable=repeatable)
        if getattr(call.params, "request_state", None) is not None:
            await use_state(context)
        try:
            yield context
        finally:
            context._over = True
        context._insist()

    def call_as_task(
        self,
        request: Request,
        support: TaskSupport,
        work: Callable[[Channel], Coroutine[Any, Any, Result]],
        *,
        detaches: bool,
    ) -> MaybeAwaitable[Result] | None:
        """Call a tool as a task and return the ``CreateTaskResult``, or None if the call cannot be a task.

        Raises:
            MethodNotFound: the client requested a task from a tool without tasks, or requested none from a tool that
                requires one (2025-11-25).
            MissingCapability: it can only be a task, and the client did not declare the extension (2026-07-28).
        """
        call, channel = request.call, request.channel
        if call is None or channel is None or not self._runtime.has_tasks:
            return None
        from carrel.server.tasks.calls import call_as_task

        tasks = cast("Tasks", self._runtime.tasks)
        return call_as_task(tasks, call, channel, call.params.name, support, work, detaches=detaches)
