"""Relay: forwards the server requests and progress of a remote call to the client that caused the call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from carrel.catalog.request import InputRequired
from carrel.errors import INTERNAL_ERROR, INVALID_PARAMS, InvalidParams, MissingCapability, ProtocolError
from carrel.protocol.encoding import encode
from carrel.wire.base import LoggingLevel

if TYPE_CHECKING:
    from carrel.wire.client_features import ServerRequestParams

__all__ = [
    "LOST",
    "MAX_KEPT",
    "MAX_KEPT_BYTES",
    "PARKED_SECONDS",
    "RELAY",
    "CallLost",
    "InvalidClientResponse",
    "Relay",
    "RelayContext",
]

#: Seconds that a remote call waits for a stateless client to send its request again, with its responses.
PARKED_SECONDS = 600.0
#: Maximum number and bytes of progress and log messages to queue for the client of a waiting call. The latest are kept.
MAX_KEPT, MAX_KEPT_BYTES = 100, 1024 * 1024

LOST = (
    "The call has been cancelled, as its client took too long to answer, or its server has stopped; the call may have "
    "done some of its work."
)


RELAY: ContextVar[Relay | None] = ContextVar("relay", default=None)
"""The remote call in progress, for credentials that send an elicitation to its client."""


class InvalidClientResponse(ProtocolError):
    """The client's answer to a server request is not valid (-32602). The server is not at fault."""

    code = INVALID_PARAMS


class CallLost(ProtocolError):
    """A call that waited for its client's response is not there any more (-32603). It may have done some work."""

    code = INTERNAL_ERROR


class RelayContext(Protocol):
    """Context of the client's request, as far as a relay needs it. The request may be at another replica."""

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> object:
        """Send a progress notification, if the client requested progress."""

    def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> object:
        """Send a log message, if the client wants that level."""

    def elicitation_completed(self, id: str | None) -> object:
        """Notify the client that a URL mode elicitation is complete."""

    async def elicit_url(self, message: str, url: str, *, key: str | None = None, required: bool = False) -> Any:
        """Ask the user to visit a URL."""

    async def pass_on(self, params: ServerRequestParams, *, key: str | None = None) -> Any:
        """Forward a server request to the client unchanged, and return its whole result."""

    async def detach(self) -> bool:
        """Turn the request into a task, if it may become one, and return whether it is one now."""


Ask: TypeAlias = Callable[[RelayContext, str], Awaitable[Any]]


class PendingRequest(msgspec.Struct, eq=False):
    """Pending server request: a request of the remote server (such as elicitation) without a response of the client."""

    key: str
    ask: Ask
    response: asyncio.Future[Any]


class Relay:
    """Remote call on behalf of one client request, across all of its rounds (2026-07-28).

    In revisions with sessions there is one round: the sender awaits the call, and server requests are sent to the
    client at once.
    """

    def __init__(self, label: str, connection: object, is_certain: Callable[[], bool]) -> None:
        self.connection = connection
        """Connection of the client, which identifies the client."""
        self.client = ""
        """Key of the client, for its share of the parked calls."""
        self.is_certain = is_certain
        """Return whether a server request without a call is for this client, if no other client has a call in flight.
        """
        self.context: RelayContext | None = None
        self._label = label
        self._count = 0
        self._open: list[PendingRequest] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self.work: Callable[[Relay], Awaitable[Any]] | None = None
        """Sends the remote call, if the call is parked while its client is asked."""
        self._asking: set[asyncio.Future[Any]] = set()
        self._kept: deque[tuple[int, Callable[[RelayContext], object]]] = deque()
        """Messages for the client, each with its size in bytes."""
        self._kept_bytes = 0
        self._keys: set[str] = set()
        self._detaches = self._detached = False
        self.alone = False
        """Whether the calls of other clients are dropped when the client sends its request again."""
        self.missing: MissingCapability | None = None
        """Error with the missing capability, if a server request could not be sent to the client."""

    def begin(self) -> None:
        """Start the remote call. No-op if it has begun."""
        if self._task is not None:
            return
        assert self.work is not None
        self._task = asyncio.ensure_future(self.work(self))
        self._task.add_done_callback(lambda _: self._news.set())

    async def result(self, context: RelayContext) -> Any:
        """Wait for the result of the remote call, and send its server requests to the client meanwhile.

        Raises:
            InputRequired: the client is stateless, and has to send its request again with the responses.
        """
        assert self._task is not None
        self.context = context
        while self._kept:
            self._next_kept()(context)
        while not self._task.done():
            if self._detaches and not self._detached:
                self._detached = await context.detach()
                self._detaches = self._detached
            elif self._open:
                await self._put(self._open, context)
            else:
                self._news.clear()
                await self._news.wait()
        return self._task.result()

    def detach(self) -> None:
        """Turn the client's request into a task, because the remote call has become a task."""
        self._detaches = True
        self._news.set()

    def _key_of(self, key: str | None) -> str:
        """Return a unique key for a server request: the server's key if possible, otherwise a numbered key."""
        self._count += 1
        if key is None:
            key = f"{self._label}-{self._count}"
        elif key in self._keys:
            key = f"{key}-{self._count}"
        self._keys.add(key)
        return key

    async def ask(self, ask: Ask, key: str | None = None) -> Any:
        """Send a server request to the client, and return the response. ``key`` is the server's key for it, if any."""
        try:
            return await self._ask(ask, self._key_of(key))
        except MissingCapability as missing:
            self.missing = missing
            raise
        except InvalidParams as error:
            raise InvalidClientResponse(error.message, error.data) from error

    def reject(self, needed: dict[str, Any]) -> MissingCapability | None:
        """Return the error for a server request if this relay cannot send any to the client, otherwise None."""
        if self._task is None and self.context is None:
            self.missing = MissingCapability(needed)
            return self.missing
        return None

    async def _ask(self, ask: Ask, key: str) -> Any:
        if self._task is None or self._detached:
            assert self.context is not None
            asking = asyncio.ensure_future(ask(self.context, key))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
            return await asking
        pending = PendingRequest(key, ask, asyncio.get_running_loop().create_future())
        self._open.append(pending)
        self._news.set()
        try:
            return await pending.response
        finally:
            if pending in self._open:
                self._open.remove(pending)

    async def _put(self, asked: Sequence[PendingRequest], context: RelayContext) -> None:
        """Send all pending server requests to the client, until a response arrives or the remote call ends.

        Raises:
            InputRequired: the client is stateless, and has not responded to all requests yet.
        """
        assert self._task is not None
        asked = list(asked)
        asking = [asyncio.ensure_future(each.ask(context, each.key)) for each in asked]
        put = asyncio.gather(*asking, return_exceptions=True)
        try:
            await asyncio.wait(
                (put, self._task, *(each.response for each in asked)), return_when=asyncio.FIRST_COMPLETED
            )
            required: InputRequired | None = None
            for each, answer in zip(asked, asking, strict=True):
                if not answer.done() or answer.cancelled():
                    continue
                error = answer.exception()
                if isinstance(error, InputRequired):
                    required = error
                    continue
                if error is not None and not each.response.done():
                    each.response.set_exception(error)
                elif error is None and not each.response.done():
                    each.response.set_result(answer.result())
                self._open.remove(each)
            if required is not None:
                raise required
        finally:
            put.cancel()
            await asyncio.wait(asking)

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Forward progress to the client."""
        self._pass_on(lambda context: context.report_progress(progress, total, message), message)

    def log(self, level: LoggingLevel, data: Any, logger: str | None) -> None:
        """Forward a log message to the client, if it matches the client's log level."""
        self._pass_on(lambda context: context.log(level, data, logger), data)

    def park(self) -> None:
        """Queue progress and log messages until the client sends its request again."""
        self.context = None

    def _pass_on(self, send: Callable[[RelayContext], object], content: Any) -> None:
        if self.context is not None:
            send(self.context)
            return
        size = len(encode(content))
        self._kept.append((size, send))
        self._kept_bytes += size
        while len(self._kept) > MAX_KEPT or self._kept_bytes > MAX_KEPT_BYTES:
            self._next_kept()

    def _next_kept(self) -> Callable[[RelayContext], object]:
        """Remove the oldest message that was queued for the client, and return the function that sends it."""
        size, send = self._kept.popleft()
        self._kept_bytes -= size
        return send

    async def cancel(self) -> None:
        """Cancel the remote call, and its pending server requests to the client."""
        for asking in self._asking:
            asking.cancel()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._task is not None and not self._task.cancelled():
            self._task.exception()  # mark the exception as retrieved
