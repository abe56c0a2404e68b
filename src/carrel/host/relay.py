"""Relay: forwards the server requests and progress of a remote call to the client that caused the call."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec

from carrel.catalog.provider import Request, RequestContext
from carrel.catalog.request import InputRequired
from carrel.catalog.task_channel import task_of
from carrel.errors import INVALID_PARAMS, InvalidParams, MissingCapability, ProtocolError
from carrel.wire.base import LoggingLevel

__all__ = ["PARKED_SECONDS", "RELAY", "InvalidClientResponse", "Relay", "Relays"]

T = TypeVar("T")
Ask = Callable[[RequestContext, str], Awaitable[Any]]

#: Seconds that a remote call waits for a stateless client to send its request again, with its responses.
PARKED_SECONDS = 600.0
#: Maximum number of remote calls that wait for stateless clients at the same time.
MAX_PARKED = 1000
#: Maximum number of progress and log messages to queue for the client of a waiting call. The latest are kept.
MAX_KEPT = 100


RELAY: ContextVar[Relay | None] = ContextVar("relay", default=None)
"""The remote call in progress, for credentials that send an elicitation to its client."""


class InvalidClientResponse(ProtocolError):
    """The client's answer to a server request is not valid (-32602). The server is not at fault."""

    code = INVALID_PARAMS


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
        self.is_certain = is_certain
        """Return whether a server request without a call is for this client, if no other client has a call in flight.
        """
        self.context: RequestContext | None = None
        self._label = label
        self._count = 0
        self._open: list[PendingRequest] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._asking: set[asyncio.Future[Any]] = set()
        self._kept: deque[Callable[[RequestContext], object]] = deque(maxlen=MAX_KEPT)
        self._keys: set[str] = set()
        self._detaches = self._detached = False
        self.missing: MissingCapability | None = None
        """Error with the missing capability, if a server request could not be sent to the client."""

    def begin(self, work: Awaitable[Any]) -> None:
        """Start the remote call."""
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(lambda _: self._news.set())

    async def result(self, context: RequestContext) -> Any:
        """Wait for the result of the remote call, and send its server requests to the client meanwhile.

        Raises:
            InputRequired: the client is stateless, and has to send its request again with the responses.
        """
        assert self._task is not None
        self.context = context
        while self._kept:
            self._kept.popleft()(context)
        while not self._task.done():
            if self._detaches and not self._detached:
                self._detached = await context.detach()
                self._detaches = self._detached
            if self._open:
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

    async def _put(self, asked: Sequence[PendingRequest], context: RequestContext) -> None:
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
        self._pass_on(lambda context: context.report_progress(progress, total, message))

    def log(self, level: LoggingLevel, data: Any, logger: str | None) -> None:
        """Forward a log message to the client, if it matches the client's log level."""
        self._pass_on(lambda context: context.log(level, data, logger))

    def park(self) -> None:
        """Queue progress and log messages until the client sends its request again."""
        self.context = None

    def _pass_on(self, send: Callable[[RequestContext], object]) -> None:
        if self.context is None:
            self._kept.append(send)
        else:
            send(self.context)

    async def cancel(self) -> None:
        """Cancel the remote call, and its pending server requests to the client."""
        for asking in self._asking:
            asking.cancel()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._task is not None and not self._task.cancelled():
            self._task.exception()  # mark the exception as retrieved


class Relays:
    """Remote calls of one provider. If a stateless client has to respond to a server request, its call is parked.

    The token of a parked call is part of the client's ``requestState``, encrypted. A replica that does not have the
    call sends it again, and answers its server requests with the responses that the client has sent so far.
    """

    def __init__(self, is_certain: Callable[[], bool] = lambda: True) -> None:
        self._is_certain = is_certain
        self._parked: dict[str, tuple[Relay, asyncio.TimerHandle]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._parked)

    async def run(
        self,
        label: str,
        request: Request,
        send: Callable[[Relay], Awaitable[T]],
        *,
        repeatable: bool,
        alone: bool = False,
    ) -> T:
        """Send a remote call, and return its result. ``label`` must be the same each time the request is sent.

        ``alone``: first cancel the parked calls of all other clients. This is for servers whose requests do not name
        the call that caused them: while another client has a call in flight, server requests could not be routed. If
        such a client sends its request again, its call is sent again, with the client's responses so far.
        """
        assert request.contexts is not None
        assert request.call is not None
        assert request.channel is not None
        connection = request.call.connection
        async with request.contexts.open(request, repeatable=repeatable) as context:
            if not request.call.peer.revision.stateless or task_of(request.channel) is not None:
                if alone:
                    await self._drop_others(connection)
                relay = Relay(label, connection, self._is_certain)
                relay.context = context
                try:
                    return await send(relay)
                finally:
                    await relay.cancel()
            token = await context.once(f"remote call {label}", lambda: os.urandom(16).hex())
            parked = self._take(token)
            try:
                if alone:
                    await self._drop_others(connection)
                if parked is None:
                    parked = Relay(label, connection, self._is_certain)
                    parked.begin(send(parked))
                parked.connection = connection
                result: T = await parked.result(context)
            except InputRequired:
                assert parked is not None
                self._park(token, parked)
                raise
            finally:
                if parked is not None and token not in self._parked:
                    await parked.cancel()
            return result

    async def _drop_others(self, connection: object) -> None:
        for token, (relay, _) in list(self._parked.items()):
            if relay.connection is not connection:
                self._drop(token)
        await asyncio.gather(*self._ending)

    def _take(self, token: str) -> Relay | None:
        relay, timer = self._parked.pop(token, (None, None))
        if timer is not None:
            timer.cancel()
        return relay

    def _park(self, token: str, relay: Relay) -> None:
        if len(self._parked) >= MAX_PARKED:
            self._drop(next(iter(self._parked)))
        timer = asyncio.get_running_loop().call_later(PARKED_SECONDS, self._drop, token)
        self._parked[token] = relay, timer
        relay.park()

    def _drop(self, token: str) -> None:
        relay = self._take(token)
        if relay is not None:
            task = asyncio.ensure_future(relay.cancel())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """Cancel all parked calls."""
        for token in list(self._parked):
            self._drop(token)
        await asyncio.gather(*self._ending, return_exceptions=True)
