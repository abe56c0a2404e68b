"""Request: the last argument of every method of a provider, and the context to reach the client."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Unpack

import msgspec

if TYPE_CHECKING:
    from carrel.awaitables import MaybeAwaitable
    from carrel.protocol.channel import Channel
    from carrel.protocol.methods import Verb
    from carrel.protocol.principal import Principal, View
    from carrel.protocol.server import Call
    from carrel.state.replica import Replica
    from carrel.wire.base import LoggingLevel, Result
    from carrel.wire.client_features import (
        CreateMessageResult,
        Root,
        SamplingDetails,
        SamplingMessage,
        ServerRequestParams,
    )

__all__ = ["Contexts", "InputRequired", "Request", "RequestContext", "TaskSupport", "Visible"]

Visible: TypeAlias = Callable[[str], bool]
"""Predicate: whether the resource that a URI names is visible to a caller."""

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether a call of a tool cannot, may or must be a task."""


class InputRequired(BaseException):
    """Raised to end a handler until a stateless client has answered its requests. Not an error: do not catch it."""

    def __init__(self, context: Any) -> None:
        super().__init__("more input is required")
        self.context = context


class RequestContext(Protocol):
    """Interface to the client of a request while it is handled. ``Context`` implements it.

    A server request (elicitation, sampling, roots) to a stateless client (2026-07-28) raises ``InputRequired``, which
    is not an ``Exception``: the client repeats its request with the response, and the same server request then returns
    this response at once.
    """

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> object:
        """Send a progress notification, if the client requested progress."""

    def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> object:
        """Send a log message, if the client wants that level."""

    def elicitation_completed(self, id: str | None) -> object:
        """Notify the client that a URL mode elicitation is complete."""

    async def elicit(self, message: str, form: Any = str, *, key: str | None = None) -> Any:
        """Ask the user to fill in a form."""

    async def elicit_url(self, message: str, url: str, *, key: str | None = None, required: bool = False) -> Any:
        """Ask the user to visit a URL. ``required``: where there is an error for that, the request ends with it."""

    async def sample(
        self,
        messages: str | SamplingMessage | Sequence[str | SamplingMessage],
        max_tokens: int,
        *,
        key: str | None = None,
        **details: Unpack[SamplingDetails],
    ) -> CreateMessageResult:
        """Request a message from the client's model."""

    async def list_roots(self, *, key: str | None = None) -> list[Root]:
        """Request the client's roots."""

    async def pass_on(self, params: ServerRequestParams, *, key: str | None = None) -> Any:
        """Forward a request of another server to the client unchanged, and return its whole result.

        Members that are not known here are passed on both ways, see ``carrel.protocol.unknown``.
        """

    async def detach(self) -> bool:
        """Turn the call into a task, if it may become one, and return whether it is one now."""

    @property
    def kept(self) -> dict[str, Any]:
        """JSON values by name, kept encrypted in the ``requestState`` of a stateless client."""

    async def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what ``make`` returned when the request came for the first time."""


class Contexts(Protocol):
    """Interface of the server that received a request, for providers."""

    @property
    def replica(self) -> Replica:
        """The server among its replicas."""

    def open(self, request: Request, *, repeatable: bool) -> AbstractAsyncContextManager[RequestContext]:
        """Return the context of a request; ``repeatable`` says that handling it twice does no harm."""

    def call_as_task(
        self,
        request: Request,
        support: TaskSupport,
        work: Callable[[Channel], Coroutine[Any, Any, Result]],
        *,
        detaches: bool,
    ) -> MaybeAwaitable[Result] | None:
        """Call a tool as a task and return the ``CreateTaskResult``, or None if the call cannot be a task.

        ``work`` is the call with the channel of its messages, ``support`` says whether it may or must be a task. With
        ``detaches``, it becomes a task only by ``RequestContext.detach``; without ``detach``, the result is the tool's.

        Raises:
            MethodNotFound: the client requested a task from a tool without tasks, or requested none from a tool that
                requires one (2025-11-25).
            MissingCapability: it can only be a task, and the client did not declare the extension (2026-07-28).
        """


class Request(msgspec.Struct):
    """Request to a provider: the caller, the part of a list, and the deadline.

    ``visible`` returns whether the caller may see a resource; None if all resources are visible. ``cursor`` is the
    position in a list, None for its start; ``limit`` is the maximum number of entries to return. ``deadline`` is a time
    of the event loop's clock. ``call`` and ``channel`` are the client's request and its outgoing channel, if a client
    sent it. If a template matched the URI, ``template`` is the template, and ``values`` are its variables. ``view`` has
    the rights of the caller, None without access control. ``contexts`` opens the ``RequestContext``; None if no
    requests can be sent to the client.
    """

    call: Call | None = None
    channel: Channel | None = None
    visible: Visible | None = None
    cursor: str | None = None
    limit: int = 100
    deadline: float | None = None
    template: str | None = None
    values: Mapping[str, object] | None = None
    view: View | None = None
    contexts: Contexts | None = None

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether the caller may use a resource, tool or prompt; ``verb`` says how."""
        return self.view is None or self.view.allows(verb, target)

    @property
    def caller(self) -> Principal | None:
        """Authenticated caller; None without authorization."""
        return None if self.call is None else self.call.principal

    @property
    def client(self) -> str:
        """Key of the client whose limits apply; empty if there is only one client."""
        return "" if self.call is None else self.call.client.key

    def page(self, cursor: str | None, limit: int) -> Request:
        """Return the request for another part of a list."""
        return Request(
            self.call,
            self.channel,
            self.visible,
            cursor,
            limit,
            self.deadline,
            view=self.view,
            contexts=self.contexts,
        )
