"""Context of a request, for its handler: client, progress, log messages, elicitation, sampling and roots."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast

import msgspec

from carrel.awaitables import resolved
from carrel.catalog.access import visible_to
from carrel.catalog.provider import Request
from carrel.catalog.request import InputRequired
from carrel.catalog.task_channel import TaskChannel
from carrel.errors import InvalidParams, ResourceForbidden, TransportError, URLElicitationRequired
from carrel.protocol.methods import LIST_CAPABILITIES, READ_RESOURCE, ListCapability
from carrel.server.elicitation.input_required import Round, ask, begin, use_state
from carrel.server.messages import ClientMessages
from carrel.wire.base import ClientCapabilities, Id, Implementation
from carrel.wire.client_features import (
    CreateMessageResult,
    ListRootsResult,
    Root,
    SamplingDetails,
    SamplingMessage,
)
from carrel.wire.resources import ReadResourceParams, ReadResourceResult, decoded

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from carrel.awaitables import MaybeAwaitable
    from carrel.catalog.provider import RequestContext
    from carrel.catalog.request import TaskSupport
    from carrel.protocol.channel import Channel
    from carrel.protocol.headers import RequestHeaders
    from carrel.protocol.methods import Verb
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call
    from carrel.server.elicitation.client_requests import ClientRequest, Elicited
    from carrel.server.runtime import Runtime
    from carrel.server.session_state import SessionState
    from carrel.state.replica import Replica
    from carrel.wire.base import Result
    from carrel.wire.client_features import ServerRequestParams

    State = DefaultTypeVar("State", default=Any)
else:
    State = TypeVar("State")

__all__ = ["Context", "ServerContexts"]


class InnerRead(ReadResourceParams, kw_only=True):
    """Parameters of a resource read within a handler: its requests belong to the round of that handler."""

    round: Round


class Context(ClientMessages, Generic[State]):
    """Context of a request, passed to the handler's parameter of this type.

    ``Context[State]`` gives the type of ``state``, the value that the server's lifespan yielded.

    Messages may be sent from the event loop and from the threads in which sync functions run. Elicitation, sampling
    and roots need an async function.
    """

    __slots__ = ("_lacking", "_repeatable", "_round", "_runtime")

    def __init__(self, runtime: Runtime, call: Call, channel: Channel, *, repeatable: bool = True) -> None:
        super().__init__(call, channel)
        self._runtime = runtime
        self._repeatable = repeatable
        """Whether the handler may be run twice for one request: it reads, or declares that it is idempotent."""
        self._lacking: dict[str, Any] | None = None
        """Capabilities that concurrent requests need, and the client did not declare."""
        self._round: Round | None = None

    @property
    def request_id(self) -> Id:
        """The JSON-RPC id of the request."""
        return self._call.id

    @property
    def revision(self) -> str:
        """The protocol revision that the client speaks, such as its date."""
        return self._call.peer.revision.name

    @property
    def client(self) -> Implementation | None:
        """Name and version that the client declares. Not verified: for display and logs only."""
        return self._call.peer.client

    @property
    def capabilities(self) -> ClientCapabilities:
        """Capabilities that the client declared."""
        return self._call.peer.capabilities or ClientCapabilities()

    @property
    def principal(self) -> Principal | None:
        """Principal of the access token: subject, scopes, claims. None without authorization."""
        return self._call.principal

    @property
    def state(self) -> State:
        """Value that the lifespan of the server has yielded."""
        return cast("State", self._runtime.state)

    @property
    def session(self) -> SessionState | None:
        """The session of the client, with a small store for handlers; None for a stateless request."""
        if self._call.peer.revision.stateless:
            return None
        return self._runtime.session_of(self._call)

    @property
    def headers(self) -> RequestHeaders:
        """HTTP headers of the request, by name in any case, without credentials; empty on other transports."""
        return self._call.headers

    @property
    def meta(self) -> dict[str, Any]:
        """The request's ``_meta``, with all of its keys."""
        return self._call.meta

    @property
    def cancelled(self) -> bool:
        """Whether the request was cancelled: for functions in threads, which cannot be stopped."""
        return self._call.is_cancelled

    def list_changed(self, *kinds: ListCapability) -> None:
        """Notify the client of the caller that lists have changed for it, because ``when`` decides otherwise now.

        Other clients are notified only if they have the same principal. Without arguments, all lists have changed.
        """
        from carrel.server.audience import SameCaller

        principal = self.principal
        caller = SameCaller(self._call.client, None if principal is None else principal.id)
        lists = [name for name, kind in LIST_CAPABILITIES.items() if not kinds or kind in kinds]
        self._runtime.notify(lists=lists, recipients=caller)

    @property
    def shows_pages(self) -> bool:
        """Whether the client shows the pages of tools (MCP Apps)."""
        from carrel.catalog.tool_pages import shows_pages  # loaded on first use

        return shows_pages(self._call.peer)

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether the caller may use a resource (by its URI), a tool ("call") or a prompt ("get": by its name).

        The other verbs are "read", "list", "list_directory", "complete" and "subscribe".
        """
        view = self._runtime.view_of(self._call)
        if view is None:
            return True
        return view.allows(verb, target) and (verb != "read" or view.permits(READ_RESOURCE.method))

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read a resource of this server, on behalf of the caller.

        Raises:
            ResourceError: it is not available, or the caller may not read it.
            InvalidParams: the URI is not valid.
        """
        view = self._runtime.view_of(self._call)
        if view is not None and not view.permits(READ_RESOURCE.method):
            raise ResourceForbidden(uri, "Reading this requires a scope that the access token lacks")
        contexts = self._runtime.contexts
        request = Request(self._call_for(uri), self._channel, visible_to(view), view=view, contexts=contexts)
        result: ReadResourceResult | bytes = await resolved(self._runtime.catalog.read_resource(uri, request))
        return decoded(result)

    # Elicitation, sampling and roots

    async def elicit(self, message: str, form: Any = str, *, key: str | None = None) -> Elicited[Any]:
        """Ask the user to fill in a form (form mode elicitation).

        ``form`` is a class with simple fields (dataclass, TypedDict, struct, pydantic model), one simple type, a flat
        JSON Schema, or None for a confirmation without fields. Returns an ``Elicited``, whose ``data`` has that type.
        If an answer does not match the form, the user is prompted again. ``key`` identifies the request if several
        requests are made in an order that may change.

        For a stateless client (2026-07-28) this call ends the handler. The handler runs again from its beginning when
        the answer arrives. See ``once`` for side effects that must not happen twice.

        Raises:
            MissingCapability: the client cannot show such a form.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or disconnected.
            ConfigError: the form has fields that a form cannot have.
        """
        from carrel.server.elicitation.client_requests import form_elicitation  # here and below: loaded on first use

        return await self._ask(form_elicitation(message, form), key)  # type: ignore[no-any-return]

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None, required: bool = False
    ) -> Elicited[None]:
        """Ask the user to visit a URL (URL mode elicitation): for credentials, payments, consent, not for the client.

        "accept" means that the user agreed to open the page, not that the task on the page is complete. With
        ``required``, the request cannot continue before it is: a client of 2025-11-25 gets an error and repeats its
        request later; other revisions have no such error, and the client gets an elicitation request.

        Raises:
            URLElicitationRequired: the ``required`` elicitation must be completed first. Pass its ``id`` to
                ``elicitation_completed``.
            MissingCapability: the client cannot open pages.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or disconnected.
            ValueError: the URL is neither https: nor, on this machine, http:; or it hides its real host.
        """
        from carrel.server.elicitation.client_requests import check, url_elicitation

        revision = self._call.peer.revision
        request = url_elicitation(message, url, revision)
        if required and "elicitation_complete" in revision.events:
            await check(self, [request])
            raise URLElicitationRequired(msgspec.to_builtins(revision.project(request.params)))
        return await self._ask(request, key)  # type: ignore[no-any-return]

    async def sample(
        self,
        messages: str | SamplingMessage | Sequence[str | SamplingMessage],
        max_tokens: int,
        *,
        key: str | None = None,
        **details: Unpack[SamplingDetails],
    ) -> CreateMessageResult:
        """Request a message from the client's model (sampling).

        Text becomes a user message; ``details`` are the other fields of ``CreateMessageParams``: system_prompt,
        temperature, model_preferences, stop_sequences, metadata, tools, tool_choice, include_context.

        Raises:
            MissingCapability: the client does not support sampling, or not with tools.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or disconnected.
        """
        from carrel.server.elicitation.client_requests import sampling_request

        request = sampling_request(messages, max_tokens, details, self._call.peer.revision)
        return await self._ask(request, key)  # type: ignore[no-any-return]

    async def list_roots(self, *, key: str | None = None) -> list[Root]:
        """Request the client's roots: the directories and files that servers may work on.

        Raises:
            MissingCapability: the client does not support roots.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or disconnected.
        """
        from carrel.server.elicitation.client_requests import roots_request

        found: ListRootsResult = await self._ask(roots_request(), key)
        return found.roots

    async def _ask(self, request: ClientRequest, key: str | None) -> Any:
        if threading.get_ident() != self._thread:
            raise RuntimeError("Only functions with async def can send requests to the client, on the event loop")
        if self._over:
            raise TransportError("nothing can be requested from the client: the call has ended")
        return (await ask(self, {key: request}))[0]

    async def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what ``make`` returns, and do not call it again when this handler is run again for the same request.

        For side effects that must not happen twice, and values that must stay the same over several rounds.
        The value is kept encrypted in the client's ``requestState``, so it should be small. It is returned as decoded
        from JSON, in the first run already.

        Raises:
            TypeError: the value cannot be encoded as JSON.
        """
        kept = self._this_round.kept
        if name not in kept:
            from carrel.protocol.json_values import to_json

            value = await resolved(make())
            kept[name] = msgspec.json.decode(to_json(value))
        return kept[name]

    def _insist(self) -> None:
        """Check that the handler did not swallow ``InputRequired``, such as by ``gather(…, return_exceptions=True)``.

        Raises:
            InputRequired: it did.
        """
        if self._round is not None and self._round.needed:
            raise InputRequired(self)

    @property
    def _this_round(self) -> Round:
        """State of this run of the handler: answers, open requests, and values of ``once``."""
        if self._round is None:
            if isinstance(self._call.params, InnerRead):
                self._round = self._call.params.round
            else:
                self._round = begin(self) if self._call.peer.revision.stateless else Round()
        return self._round

    async def detach(self) -> bool:
        """Turn the call into a task: the client gets its response now, and fetches the result later.

        For tools that are registered with ``detaches=True``; a no-op if the client does not support tasks. Elicitation
        and sampling work before and after it. Returns whether the call is a task now.
        """
        if type(self._channel) is TaskChannel:
            self._channel.detach()
        return self.task is not None

    def _call_for(self, uri: str) -> Call:
        """Return a call that reads ``uri`` for the same client."""
        params = InnerRead(uri=uri, meta=self._call.params.meta, round=self._this_round)
        return msgspec.structs.replace(self._call, params=params, outer=self._call)


class ProviderContext(Context):
    """Context of a request that a provider answers, which may have requests of another server."""

    __slots__ = ()

    @property
    def kept(self) -> dict[str, Any]:
        """JSON values by name, kept encrypted in the ``requestState`` of a stateless client."""
        return self._this_round.kept

    async def pass_on(self, params: ServerRequestParams, *, key: str | None = None) -> Any:
        """Forward a request of another server to the client unchanged, and return its whole result, unchecked.

        Members that are not known here are passed on both ways, see ``carrel.protocol.unknown``.

        Raises:
            InvalidParams: the request is not valid.
            MissingCapability: the client did not declare that it can answer it.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or disconnected.
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

    @property
    def replica(self) -> Replica:
        """The server among its replicas."""
        return self._runtime.outer_replica

    @asynccontextmanager
    async def open(self, request: Request, *, repeatable: bool) -> AsyncIterator[RequestContext]:
        """Yield the context of a request that comes from a client, and end it.

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
        return self._runtime.tasks.call_tool(call, channel, support, work, detaches=detaches)
