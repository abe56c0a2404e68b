"""The call that a handler works on: who asks, and ways to say how it is going."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from carrel.errors import TransportError, URLElicitationRequired
from carrel.protocol.encoding import encode_event
from carrel.server.elicitation.input_required import InputRequired, Round, ask, begin
from carrel.wire.base import ClientCapabilities, Id, Implementation, LoggingLevel
from carrel.wire.client_features import (
    CreateMessageResult,
    ElicitationCompleteParams,
    ListRootsResult,
    Root,
    SamplingMessage,
)
from carrel.wire.resources import ReadResourceParams
from carrel.wire.utilities import SEVERITY, LoggingMessageParams, ProgressParams

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call
    from carrel.server.app import Server
    from carrel.server.elicitation.questions import Elicited, Question

__all__ = ["CLIENT", "Context"]

#: The client whose request is being answered, as ``Connection.client`` has it. The server sets it before it answers,
#: so that sources can share what they have fairly; "" where there is one client only, and for the server's own work.
CLIENT: ContextVar[str] = ContextVar("carrel_client", default="")


class Sent:
    """A message on its way. Awaiting it waits for a reader that is behind; not awaiting it is fine too."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel | None) -> None:
        self._channel = channel

    def __await__(self) -> Generator[Any, None, None]:
        if self._channel is not None:
            yield from self._channel.drain().__await__()


class InnerRead(ReadResourceParams, kw_only=True):
    """A read within a handler: what it asks belongs to the round of that handler."""

    round: Round


class Context:
    """A parameter of this type gets the context of the call. Its name is up to you.

    Messages may be sent from the event loop and from the threads in which sync functions run. To ask takes an async
    function.
    """

    __slots__ = ("_loop", "_progress", "_round", "_thread", "app", "call", "channel", "lacking", "over")

    def __init__(self, app: Server, call: Call, channel: Channel) -> None:
        self.app = app
        self.call = call
        self.channel = channel
        self.over = False
        """Whether the handler has ended, or was cancelled: then nothing more is said about it."""
        self.lacking: dict[str, Any] | None = None
        """The capabilities that questions asked side by side need, and the client did not declare."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._progress: float | None = None
        self._round: Round | None = None

    @property
    def request_id(self) -> Id:
        """The JSON-RPC id of the request."""
        return self.call.id

    @property
    def revision(self) -> str:
        """The protocol revision that the client speaks, such as its date."""
        return self.call.peer.revision.name

    @property
    def client(self) -> Implementation | None:
        """The name and version that the client gives itself. Not verified: for display and logs only."""
        return self.call.peer.client

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the client declared that it can do."""
        return self.call.peer.capabilities or ClientCapabilities()

    @property
    def principal(self) -> Principal | None:
        """Who calls, as their access token says: subject, scopes, claims. None without authorization."""
        return self.call.principal

    @property
    def meta(self) -> dict[str, Any]:
        """The request's ``_meta``, with every key that came."""
        return self.call.meta

    @property
    def cancelled(self) -> bool:
        """Whether the answer is not wanted any more: for functions in threads, which cannot be stopped."""
        return self.call.cancelled

    @property
    def shows_pages(self) -> bool:
        """Whether the client shows the pages of tools (MCP Apps)."""
        from carrel.server.apps import shows_pages  # only those who have pages ask

        return shows_pages(self.call.peer)

    # Asking

    async def elicit(self, message: str, form: Any = str, *, key: str | None = None) -> Elicited[Any]:
        """Ask the user to fill in a form.

        ``form`` is a class with simple fields (dataclass, TypedDict, struct, pydantic model), one simple type, a flat
        JSON Schema, or None to ask for no more than agreement. What comes back is an ``Elicited``, whose ``content`` is
        of that type. An answer that does not fit is asked for again. ``key`` names the question where several are asked
        in an order that may change.

        To a stateless client (2026-07-28) this ends the handler; it is run again, from its beginning, once there is an
        answer. See ``once`` for what must not happen twice.

        Raises:
            MissingCapability: the client cannot show such a form.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or went away.
            ConfigError: the form has fields that a form cannot have.
        """
        from carrel.server.elicitation.questions import form_question  # here and below: who never asks does without

        return await self._ask(form_question(message, form), key)  # type: ignore[no-any-return]

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None, required: bool = False
    ) -> Elicited[None]:
        """Ask the user to visit a page, for what must not pass through the client: credentials, payments, consent.

        "accept" means that the user agreed to go there, not that anything has been done there. With ``required``, the
        request cannot go on before it has: a client of 2025-11-25 is answered with an error that says so and makes its
        request again later; others, who have no such error, are asked.

        Raises:
            URLElicitationRequired: what is ``required`` has to be done first. Its ``id`` is for
                ``elicitation_completed``.
            MissingCapability: the client cannot open pages.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or went away.
            ValueError: the URL is neither https: nor, on this machine, http:; or it is not what it looks like.
        """
        from carrel.server.elicitation.questions import check, page_question

        revision = self.call.peer.revision
        question = page_question(message, url, revision)
        if required and "elicitation_complete" in revision.events:
            await check(self, [question])
            raise URLElicitationRequired(msgspec.to_builtins(revision.project(question.params)))
        return await self._ask(question, key)  # type: ignore[no-any-return]

    def elicitation_completed(self, id: str | None) -> Sent:
        """Tell the client that what was to be done on a page is done, even after the call that asked has been answered.

        ``id`` is that of the ``Elicited``. Only clients of 2025-11-25 can be told; nothing happens for others.
        https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation
        """
        call = self.call
        if id is None or "elicitation_complete" not in call.peer.revision.events:
            return Sent(None)
        message = encode_event(call.peer.revision, "elicitation_complete", ElicitationCompleteParams(elicitation_id=id))
        return self._send(message, call.connection.channel if self.over and call.task is None else self.channel)

    async def sample(
        self,
        messages: str | SamplingMessage | Sequence[str | SamplingMessage],
        max_tokens: int,
        *,
        key: str | None = None,
        **details: Any,
    ) -> CreateMessageResult:
        """Ask the client's model. Text is what the user says; ``details`` are those of ``CreateMessageParams``:
        system_prompt, temperature, model_preferences, stop_sequences, metadata, tools, tool_choice, include_context.

        Raises:
            MissingCapability: the client has no model for us, or not with tools.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or went away.
        """
        from carrel.server.elicitation.questions import sampling_question

        question = sampling_question(messages, max_tokens, details, self.call.peer.revision)
        return await self._ask(question, key)  # type: ignore[no-any-return]

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask for the directories and files that the client lets servers work on.

        Raises:
            MissingCapability: the client has none.
            PeerError: the client answered with an error.
            TransportError: it did not answer in time, or went away.
        """
        from carrel.server.elicitation.questions import roots_question

        found: ListRootsResult = await self._ask(roots_question(), key)
        return found.roots

    async def _ask(self, question: Question, key: str | None) -> Any:
        if threading.get_ident() != self._thread:
            raise RuntimeError("Questions are asked on the event loop of the server: in a function with async def")
        if self.over:
            raise TransportError("Nobody can be asked any more: the call has ended")
        return (await ask(self, {key: question}))[0]

    async def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what ``make`` returns, and do not call it again when this handler is run again for the same request.

        For what must not happen twice, or must stay the same, although a question follows it. The value travels,
        sealed, with the client, so it should be small. It comes back as JSON has it, in the first run already.

        Raises:
            TypeError: JSON cannot hold the value.
        """
        kept = self.round.kept
        if name not in kept:
            from carrel.protocol.json_values import to_json

            value = make()
            value = await value if hasattr(value, "__await__") else value
            kept[name] = msgspec.json.decode(to_json(value))
        return kept[name]

    def insist(self) -> None:
        """Check that the handler did not go on without an answer, such as by ``gather(…, return_exceptions=True)``.

        Raises:
            InputRequired: it did.
        """
        if self._round is not None and self._round.needed:
            raise InputRequired(self)

    @property
    def round(self) -> Round:
        """What is known in this run of the handler."""
        if self._round is None:
            if isinstance(self.call.params, InnerRead):
                self._round = self.call.params.round
            else:
                self._round = begin(self) if self.call.peer.revision.stateless else Round()
        return self._round

    @property
    def related(self) -> dict[str, Any] | UnsetType:
        """What says in ``_meta`` which task a message belongs to; UNSET where there is none."""
        task = self.call.task
        if task is None or self.call.peer.revision.stateless:
            return UNSET
        return {"io.modelcontextprotocol/related-task": {"taskId": task.id}}

    async def detach(self) -> None:
        """Become a task: the client gets its answer now, and fetches the result later.

        For tools that are registered with ``detaches=True``; does nothing where the client cannot have a task. What
        has to be known before is asked before; the rest may be asked after.
        """
        if self.call.detach is not None and self.call.task is None:
            self.call.detach(self)

    def call_for(self, uri: str) -> Call:
        """Return a call that reads ``uri`` for the same client."""
        params = InnerRead(uri=uri, meta=self.call.params.meta, round=self.round)
        return msgspec.structs.replace(self.call, params=params)

    def _send(self, message: bytes, channel: Channel | None = None) -> Sent:
        channel = channel or self.channel
        if threading.get_ident() == self._thread:
            channel.send(message)
            return Sent(channel)
        self._loop.call_soon_threadsafe(channel.send, message)
        return Sent(None)

    def pause_stream(self, retry: float | None = None) -> None:
        """Close the connection of this call without ending the call: the client comes back for its answer.

        For long calls over HTTP from clients of 2025-11-25 with a session; otherwise nothing happens. ``retry`` is in
        seconds. https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
        """
        milliseconds = None if retry is None else round(retry * 1000)
        if threading.get_ident() == self._thread:
            self.channel.pause(milliseconds)
        else:
            self._loop.call_soon_threadsafe(self.channel.pause, milliseconds)

    @property
    def is_silent(self) -> bool:
        """Whether nothing more is said about the call: its handler or its task has ended."""
        return self.over or (self.call.task is not None and self.call.task.over)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> Sent:
        """Report progress, if the client asked for it.

        ``progress`` has to grow from call to call, in the unit of ``total``; a report that does not is dropped, and so
        is one that is no finite number or comes after the end of the call.
        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
        """
        if self.is_silent or not isfinite(progress):
            return Sent(None)
        if total is not None and not isfinite(total):
            total = None
        task = self.call.task
        if task is not None and self.call.peer.revision.stateless:
            share = "" if total is None else f" of {total:g}"
            self._loop.call_soon_threadsafe(self.app.tasks.update, task, task.status, message or f"{progress:g}{share}")
            return Sent(None)
        token = self.call.progress_token
        if token is None or (self._progress is not None and progress <= self._progress):
            return Sent(None)
        self._progress = progress
        params = ProgressParams(
            progress_token=token,
            progress=progress,
            meta=self.related,
            total=UNSET if total is None else total,
            message=UNSET if message is None else message,
        )
        return self._send(encode_event(self.call.peer.revision, "progress", params))

    def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> Sent:
        """Send a log message, if the client wants that level. ``data`` is any value that JSON can hold.

        What comes after the end of the call is dropped.
        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging

        Raises:
            ValueError: there is no such level.
        """
        severity = SEVERITY.get(level)
        if severity is None:
            raise ValueError(f"{level!r} is not a log level; they are {', '.join(SEVERITY)}")
        threshold = self.call.peer.log_level
        if self.is_silent or threshold is None or severity < threshold:
            return Sent(None)
        params = LoggingMessageParams(
            meta=self.related, level=level, logger=UNSET if logger is None else logger, data=data
        )
        return self._send(encode_event(self.call.peer.revision, "message", params))

    def debug(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message for those who look for bugs."""
        return self.log("debug", data, logger)

    def info(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message about the normal course of things."""
        return self.log("info", data, logger)

    def notice(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message about something normal but significant."""
        return self.log("notice", data, logger)

    def warning(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message about something that may go wrong."""
        return self.log("warning", data, logger)

    def error(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message about something that went wrong."""
        return self.log("error", data, logger)

    def critical(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message about a part that has failed."""
        return self.log("critical", data, logger)

    def alert(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message about something that needs somebody at once."""
        return self.log("alert", data, logger)

    def emergency(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message that nothing works any more."""
        return self.log("emergency", data, logger)
