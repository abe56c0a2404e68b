"""Context of a request, for its handler: client, progress, log messages, elicitation, sampling and roots."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast

import msgspec

from carrel.awaitables import resolved
from carrel.catalog.access import visible_to
from carrel.catalog.provider import Request
from carrel.catalog.request import InputRequired
from carrel.catalog.task_channel import TaskChannel, task_of
from carrel.errors import ResourceForbidden, TransportError, URLElicitationRequired
from carrel.protocol.encoding import encode_event
from carrel.protocol.methods import LIST_CAPABILITIES, READ_RESOURCE, ListCapability
from carrel.server.elicitation.input_required import Round, ask, begin
from carrel.wire.base import ClientCapabilities, Id, Implementation, LoggingLevel
from carrel.wire.client_features import (
    CreateMessageResult,
    ElicitationCompleteParams,
    ListRootsResult,
    Root,
    SamplingDetails,
    SamplingMessage,
)
from carrel.wire.resources import ReadResourceParams, ReadResourceResult, decoded
from carrel.wire.utilities import SEVERITY, LoggingMessageParams, ProgressParams

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from carrel.protocol.channel import Channel
    from carrel.protocol.headers import RequestHeaders
    from carrel.protocol.methods import Verb
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call
    from carrel.server.elicitation.client_requests import ClientRequest, Elicited
    from carrel.server.runtime import Runtime
    from carrel.server.session_state import SessionState
    from carrel.server.task_interface import RunningTask

    State = DefaultTypeVar("State", default=Any)
else:
    State = TypeVar("State")

__all__ = ["Context"]


class Sent:
    """A message that was sent. Awaiting it waits for a slow reader (backpressure); not awaiting it is fine too."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel | None) -> None:
        self._channel = channel

    def __await__(self) -> Generator[Any, None, None]:
        if self._channel is not None:
            yield from self._channel.drain().__await__()


class InnerRead(ReadResourceParams, kw_only=True):
    """Parameters of a resource read within a handler: its requests belong to the round of that handler."""

    round: Round


class Context(Generic[State]):
    """Context of a request, passed to the handler's parameter of this type.

    ``Context[State]`` gives the type of ``state``, the value that the server's lifespan yielded.

    Messages may be sent from the event loop and from the threads in which sync functions run. Elicitation, sampling
    and roots need an async function.
    """

    __slots__ = (
        "_call",
        "_channel",
        "_lacking",
        "_loop",
        "_over",
        "_progress",
        "_repeatable",
        "_round",
        "_runtime",
        "_thread",
    )

    def __init__(self, runtime: Runtime, call: Call, channel: Channel, *, repeatable: bool = True) -> None:
        self._runtime = runtime
        self._repeatable = repeatable
        """Whether the handler may be run twice for one request: it reads, or declares that it is idempotent."""
        self._call = call
        self._channel = channel
        self._over = False
        """Whether the handler has ended, or was cancelled: then no more messages are sent."""
        self._lacking: dict[str, Any] | None = None
        """Capabilities that concurrent requests need, and the client did not declare."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._progress: float | None = None
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
        """The session of the client, with a small store of the handlers' own; None for a stateless request."""
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
            ResourceError: it cannot be had, or the caller may not read it.
            InvalidParams: the URI is not one.
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
            TransportError: it did not answer in time, or went away.
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
            TransportError: it did not answer in time, or went away.
            ValueError: the URL is neither https: nor, on this machine, http:; or it hides its real host.
        """
        from carrel.server.elicitation.client_requests import check, url_elicitation

        revision = self._call.peer.revision
        request = url_elicitation(message, url, revision)
        if required and "elicitation_complete" in revision.events:
            await check(self, [request])
            raise URLElicitationRequired(msgspec.to_builtins(revision.project(request.params)))
        return await self._ask(request, key)  # type: ignore[no-any-return]

    def elicitation_completed(self, id: str | None) -> Sent:
        """Notify the client that a URL mode elicitation is complete, even after the response to the call.

        ``id`` is the ``id`` of the ``Elicited``. For clients of other revisions than 2025-11-25 this is a no-op.
        https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation
        """
        call = self._call
        if id is None or "elicitation_complete" not in call.peer.revision.events:
            return Sent(None)
        message = encode_event(call.peer.revision, "elicitation_complete", ElicitationCompleteParams(elicitation_id=id))
        return self._send(message, call.client.channel if self._over and self.task is None else self._channel)

    async def sample(
        self,
        messages: str | SamplingMessage | Sequence[str | SamplingMessage],
        max_tokens: int,
        *,
        key: str | None = None,
        **details: Unpack[SamplingDetails],
    ) -> CreateMessageResult:
        """Ask the client's model for a message (sampling).

        Text becomes a user message; ``details`` are the other fields of ``CreateMessageParams``: system_prompt,
        temperature, model_preferences, stop_sequences, metadata, tools, tool_choice, include_context.

        Raises:
            MissingCapability: the client has no model for us, or not with tools.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or went away.
        """
        from carrel.server.elicitation.client_requests import sampling_request

        request = sampling_request(messages, max_tokens, details, self._call.peer.revision)
        return await self._ask(request, key)  # type: ignore[no-any-return]

    async def list_roots(self, *, key: str | None = None) -> list[Root]:
        """Ask for the client's roots: the directories and files that servers may work on.

        Raises:
            MissingCapability: the client has none.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or went away.
        """
        from carrel.server.elicitation.client_requests import roots_request

        found: ListRootsResult = await self._ask(roots_request(), key)
        return found.roots

    async def _ask(self, request: ClientRequest, key: str | None) -> Any:
        if threading.get_ident() != self._thread:
            raise RuntimeError("Only functions with async def can send requests to the client, on the event loop")
        if self._over:
            raise TransportError("the client cannot be asked: the call has ended")
        return (await ask(self, {key: request}))[0]

    async def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what ``make`` returns, and do not call it again when this handler is run again for the same request.

        For side effects that must not happen twice, and values that must stay the same over several rounds.
        The value is kept encrypted in the client's ``requestState``, so it should be small. It is returned as decoded
        from JSON, in the first run already.

        Raises:
            TypeError: JSON cannot hold the value.
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

    @property
    def task(self) -> RunningTask | None:
        """The task that the call has become."""
        return cast("RunningTask | None", task_of(self._channel))

    @property
    def _related(self) -> dict[str, Any] | None:
        """``_meta`` that names the task of a message; None without a task, and for stateless clients."""
        task = self.task
        if task is None or self._call.peer.revision.stateless:
            return None
        return {"io.modelcontextprotocol/related-task": {"taskId": task.id}}

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

    def _send(self, message: bytes, channel: Channel | None = None) -> Sent:
        channel = channel or self._channel
        if threading.get_ident() == self._thread:
            channel.send(message)
            return Sent(channel)
        self._loop.call_soon_threadsafe(channel.send, message)
        return Sent(None)

    def pause_stream(self, retry: float | None = None) -> None:
        """Close the SSE stream of this call without ending the call: the client reconnects for its response.

        For long calls over HTTP from clients of 2025-11-25 with a session; otherwise nothing happens. ``retry`` is in
        seconds. https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
        """
        milliseconds = None if retry is None else round(retry * 1000)
        if threading.get_ident() == self._thread:
            self._channel.pause(milliseconds)
        else:
            self._loop.call_soon_threadsafe(self._channel.pause, milliseconds)

    @property
    def _is_silent(self) -> bool:
        """Whether messages of the call are dropped: its handler or its task has ended."""
        task = self.task
        return self._over or (task is not None and task.over)

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> Sent:
        """Send a progress notification, if the client requested progress.

        ``progress`` must increase from call to call, in the unit of ``total``. Reports that do not increase, are not
        finite or arrive after the end of the call are dropped.
        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
        """
        if self._is_silent or not isfinite(progress):
            return Sent(None)
        if total is not None and not isfinite(total):
            total = None
        task = self.task
        if task is not None and self._call.peer.revision.stateless:
            share = "" if total is None else f" of {total:g}"
            self._loop.call_soon_threadsafe(task.update, task.status, message or f"{progress:g}{share}")
            return Sent(None)
        token = self._call.progress_token
        if token is None or (self._progress is not None and progress <= self._progress):
            return Sent(None)
        self._progress = progress
        params = ProgressParams(
            progress_token=token,
            progress=progress,
            meta=self._related,
            total=total,
            message=message,
        )
        return self._send(encode_event(self._call.peer.revision, "progress", params))

    def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> Sent:
        """Send a log message, if the client wants that level. ``data`` is any value that JSON can hold.

        Messages after the end of the call are dropped.
        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging

        Raises:
            ValueError: there is no such level.
        """
        severity = SEVERITY.get(level)
        if severity is None:
            raise ValueError(f"{level!r} is not a log level; they are {', '.join(SEVERITY)}")
        threshold = self._call.peer.log_level
        if self._is_silent or threshold is None or severity < threshold:
            return Sent(None)
        params = LoggingMessageParams(meta=self._related, level=level, logger=logger, data=data)
        return self._send(encode_event(self._call.peer.revision, "message", params))

    def debug(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level debug: details for debugging."""
        return self.log("debug", data, logger)

    def info(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level info: normal operation."""
        return self.log("info", data, logger)

    def notice(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level notice: normal but significant events."""
        return self.log("notice", data, logger)

    def warning(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level warning: conditions that may become errors."""
        return self.log("warning", data, logger)

    def error(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level error: failed operations."""
        return self.log("error", data, logger)

    def critical(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level critical: failed components."""
        return self.log("critical", data, logger)

    def alert(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level alert: action must be taken at once."""
        return self.log("alert", data, logger)

    def emergency(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level emergency: the system is unusable."""
        return self.log("emergency", data, logger)
