"""The call that a handler works on: who asks, and ways to say how it is going."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from carrel.protocol.encoding import encode_event
from carrel.server.asking import (
    Elicited,
    Round,
    ask,
    begin,
    form_question,
    page_question,
    roots_question,
    sampling_question,
)
from carrel.wire.asking import CreateMessageResult, ElicitationCompleteParams, ListRootsResult, Root, SamplingMessage
from carrel.wire.base import ClientCapabilities, Id, Implementation, LoggingLevel
from carrel.wire.resources import ReadResourceParams
from carrel.wire.utilities import SEVERITY, LoggingMessageParams, ProgressParams

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.app import Server

__all__ = ["Context"]


class Sent:
    """A message on its way. Awaiting it waits for a reader that is behind; not awaiting it is fine too."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel | None) -> None:
        self._channel = channel

    def __await__(self) -> Generator[Any, None, None]:
        if self._channel is not None:
            yield from self._channel.drain().__await__()


class Context:
    """A parameter of this type gets the context of the call. Its name is up to you.

    Everything here may be used from the event loop and from the threads in which sync functions run.
    """

    __slots__ = ("_loop", "_progress", "_round", "_thread", "app", "call", "channel")

    def __init__(self, app: Server, call: Call, channel: Channel) -> None:
        self.app = app
        self.call = call
        self.channel = channel
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
    def meta(self) -> dict[str, Any]:
        """The request's ``_meta``, with every key that came."""
        return self.call.meta

    # Asking

    async def elicit(self, message: str, form: Any = str, *, key: str | None = None) -> Elicited[Any]:
        """Ask the user to fill in a form.

        ``form`` is a class with simple fields (dataclass, TypedDict, struct, pydantic model), one simple type, or a
        flat JSON Schema. What comes back is an ``Elicited``, whose ``content`` is of that type. An answer that does not
        fit is asked for again. ``key`` names the question where several are asked in an order that may change.

        To a stateless client (2026-07-28) this ends the handler; it is run again, from its beginning, once there is an
        answer. See ``once`` for what must not happen twice.

        Raises:
            MissingCapability: the client cannot show forms.
            ConfigError: the form has fields that a form cannot have.
        """
        found: list[Elicited[Any]] = await ask(self, {key: form_question(message, form)})
        return found[0]

    async def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Elicited[None]:
        """Ask the user to visit a page, for what must not pass through the client: credentials, payments, consent.

        "accept" means that the user agreed to go there, not that anything has been done there.

        Raises:
            MissingCapability: the client cannot open pages.
            ValueError: the URL is neither https: nor, on this machine, http:.
        """
        found: list[Elicited[None]] = await ask(self, {key: page_question(message, url, self.call.peer.revision)})
        return found[0]

    def elicitation_completed(self, id: str) -> Sent:
        """Tell a client of 2025-11-25 that what was done on a page is done; other clients find out by themselves."""
        if "elicitation_complete" not in self.call.peer.revision.events:
            return Sent(None)
        params = ElicitationCompleteParams(elicitation_id=id)
        return self._send(encode_event(self.call.peer.revision, "elicitation_complete", params))

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
        """
        found: list[CreateMessageResult] = await ask(self, {key: sampling_question(messages, max_tokens, details)})
        return found[0]

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask for the directories and files that the client lets servers work on.

        Raises:
            MissingCapability: the client has none.
        """
        found: list[ListRootsResult] = await ask(self, {key: roots_question()})
        return found[0].roots

    async def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what ``make`` returns, and do not call it again when this handler is run again for the same request.

        For what must not happen twice, or must stay the same, although a question follows it. The value travels,
        sealed, with the client: it has to be something that JSON can hold, and small.
        """
        kept = self.round.kept
        if name not in kept:
            value = make()
            kept[name] = await value if hasattr(value, "__await__") else value
        return kept[name]

    @property
    def round(self) -> Round:
        """What is known in this run of the handler."""
        if self._round is None:
            self._round = begin(self) if self.call.peer.revision.stateless else Round({}, {}, {})
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
        return msgspec.structs.replace(self.call, params=ReadResourceParams(uri=uri, meta=self.call.params.meta))

    def _send(self, message: bytes) -> Sent:
        if threading.get_ident() == self._thread:
            self.channel.send(message)
            return Sent(self.channel)
        self._loop.call_soon_threadsafe(self.channel.send, message)
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

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> Sent:
        """Report progress, if the client asked for it.

        ``progress`` has to grow from call to call, in the unit of ``total``; a report that does not is dropped.
        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
        """
        task = self.call.task
        if task is not None and self.call.peer.revision.stateless:
            share = "" if total is None else f" of {total:g}"
            self._loop.call_soon_threadsafe(self.app.tasks.update, task, "working", message or f"{progress:g}{share}")
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

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging

        Raises:
            ValueError: there is no such level.
        """
        severity = SEVERITY.get(level)
        if severity is None:
            raise ValueError(f"{level!r} is not a log level; they are {', '.join(SEVERITY)}")
        threshold = self.call.peer.log_level
        if threshold is None or severity < threshold:
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
