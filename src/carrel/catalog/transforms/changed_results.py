"""ChangedResults: contexts of a tool call whose result a transform changes, also if the call becomes a task."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal

from carrel.awaitables import MaybeAwaitable
from carrel.catalog.provider import Contexts, Request, RequestContext

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.state.replica import Replica
    from carrel.wire.base import Result

__all__ = ["ChangedResults"]


class ChangedResults(Contexts):
    """Contexts of a call whose result is changed, also if the call becomes a task."""

    def __init__(self, contexts: Contexts, change: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
        self._contexts = contexts
        self._change = change

    @property
    def replica(self) -> Replica:
        """The server among its replicas."""
        return self._contexts.replica

    def open(self, request: Request, *, repeatable: bool) -> AbstractAsyncContextManager[RequestContext]:
        """Return the context of a request."""
        return self._contexts.open(request, repeatable=repeatable)

    def call_as_task(
        self,
        request: Request,
        support: Literal["forbidden", "optional", "required"],
        work: Callable[[Channel], Coroutine[Any, Any, Result]],
        *,
        detaches: bool,
    ) -> MaybeAwaitable[Result] | None:
        """Call a tool as a task, and change its result."""
        change = self._change
        return self._contexts.call_as_task(request, support, lambda channel: change(work(channel)), detaches=detaches)
