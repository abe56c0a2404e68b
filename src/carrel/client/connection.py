"""Client connection to a server: a transport, the protocol state machine, and the pending requests with timeouts.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET

from carrel.client.handlers import ClientCall, Progress
from carrel.errors import (
    INTERNAL_ERROR,
    MCPError,
    MethodNotFound,
    PeerError,
    ProtocolError,
    RequestTimeout,
    SessionExpired,
    TransportError,
)
from carrel.log import Log
from carrel.protocol.client import (
    Batch,
    Connection,
    ErrorResponse,
    Event,
    Ignored,
    Notification,
    OutgoingMessage,
    Question,
    Response,
)
from carrel.protocol.methods import NotificationType, Request
from carrel.protocol.revision import Revision
from carrel.transports.client.transport import Transport
from carrel.wire.base import Id, Params, Result
from carrel.wire.lifecycle import InitializeResult
from carrel.wire.utilities import ProgressParams

__all__ = ["ClientConnection", "Subscriber"]

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Result)

log = Log("carrel.client")

#: The longest that progress notifications can extend a request, in seconds, unless its own timeout is longer.
LONGEST = 3600.0
#: Seconds between checks whether a transport still waits for credentials.
HELD = 0.25
#: Later than any time on the loop's clock.
NEVER = float("inf")
#: How many requests of a server may be handled at a time.
MAX_QUESTIONS = 100
#: Seconds that cancelled tasks get to finish when the connection is closed.
CLEANUP = 1.0


class Owner(Protocol):
    """Interface of the client that a connection calls."""

    def take_notice(self, notice: Notification) -> None:
        """Handle a notification that belongs to no request."""

    async def answer(self, question: Question, call: ClientCall[Any] | None, calls: tuple[ClientCall[Any], ...]) -> Any:
        """Return the result of a server's request; an exception becomes an error response.

        ``call`` has caused the request, as far as is known; ``calls`` may have.
        """

    def interrupted(self) -> None:
        """Record that notifications may have been missed."""

    def lost(self, link: ClientConnection) -> None:
        """Record that the connection is lost."""


class Subscriber(Protocol):
    """Receiver of the notifications of one listen request (subscription stream)."""

    def take_notice(self, notice: Notification) -> None:
        """Handle a notification of the subscription."""


class Waiter(msgspec.Struct, gc=False):
    """Pending request: the future of its response, its callbacks and its deadline."""

    future: asyncio.Future[Any]
    progress: Progress | None = None
    subscriber: Subscriber | None = None
    timeout: float | None = None
    deadline: float = NEVER
    """When the request times out, on the loop's clock."""
    latest: float = NEVER
    """The latest ``deadline`` to which progress notifications can extend it."""
    call: ClientCall[Any] | None = None
    held: bool = False
    """Whether the timeout is suspended, because a user is being asked as far as is known."""

    def resolve(self, result: Any) -> None:
        """Take the result of the request."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        """Take the error of the request."""
        if not self.future.done():
            self.future.set_exception(error)


class ClientConnection:
    """Client connection to a server over one transport. Call ``open`` first, ``close`` last; it cannot be reopened."""

    def __init__(self, transport: Transport, connection: Connection[Waiter], owner: Owner) -> None:
        self.transport = transport
        self.connection = connection
        self.error: MCPError | None = None
        """Why the connection was lost or closed; None while it is open."""
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._questions: dict[Id, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        # One timer for all pending requests: one for each would cost more than encoding and decoding.
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_time = NEVER

    async def open(self) -> None:
        """Open the transport. See ``Transport.open``."""
        await self.transport.open(self)

    async def close(self) -> None:
        """Fail and cancel all pending requests, and close the transport."""
        waiting = list(self.connection.waiting.items())
        for id, each in waiting:
            each.owner.fail(TransportError("the client was closed"))
            self._give_up(id, "the client is being closed")
        self._end(TransportError("the client was closed"))
        tasks = {*self._questions.values(), *self._tasks}
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=CLEANUP)
        finally:
            await self.transport.close()

    # Requests

    def call(
        self,
        request: Request[P, R],
        params: P,
        *,
        timeout: float | None,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        result: type[Result] | None = None,
        subscriber: Subscriber | None = None,
        call: ClientCall[Any] | None = None,
    ) -> Coroutine[Any, Any, R]:
        """Return a coroutine that sends a request and returns its result.

        If it is cancelled or times out, the request is cancelled at the server. ``timeout`` is in seconds and restarts
        with every progress notification. ``subscriber`` receives the notifications of a listen request. ``call`` is
        told its request id, and passed on with the server's requests that it causes.

        Raises:
            PeerError: the server sent an error response.
            RequestTimeout: there was no response in time.
            TransportError: the connection was lost.
            ProtocolError: the response is invalid.
            MethodNotFound: the server's revision has no such request.
        """
        waiter = Waiter(self._loop.create_future(), progress, subscriber, timeout, call=call)
        message = self.connection.request(
            request, params, waiter, meta=meta, progress=progress is not None, result=result
        )
        if headers:
            message.headers = headers
        if call is not None:
            call.id = message.id
        return self._ask(message, waiter)

    def initialize(self, revision: Revision, timeout: float) -> Coroutine[Any, Any, InitializeResult]:
        """Return a coroutine that sends an ``initialize`` request and returns its result, as ``call`` does."""
        waiter = Waiter(self._loop.create_future(), timeout=timeout)
        return self._ask(self.connection.initialize(revision, waiter), waiter)

    async def _ask(self, message: OutgoingMessage, waiter: Waiter) -> Any:
        id: Any = message.id
        if self.error is not None:
            self.connection.waiting.pop(id, None)
            raise TransportError(str(self.error), delivered=False)
        try:
            timeout = waiter.timeout
            if timeout is not None:
                now = self._loop.time()
                waiter.deadline = now + timeout
                if waiter.progress is not None:
                    waiter.latest = now + max(LONGEST, timeout)
                if waiter.deadline < self._alarm_time:
                    self._set_alarm(waiter.deadline)
            full = self.transport.send(message)
            if full is not None:
                await self._wait_for_room(full, waiter.future)
            return await waiter.future
        finally:
            if id in self.connection.waiting:
                self._give_up(id, "The caller no longer waits for the response")

    @staticmethod
    async def _wait_for_room(full: Awaitable[None], future: asyncio.Future[Any]) -> None:
        """Wait until the transport can send more (backpressure), or the request is done."""
        room = asyncio.ensure_future(full)
        try:
            await asyncio.wait((room, future), return_when=asyncio.FIRST_COMPLETED)
        finally:
            room.cancel()

    def announce(self, notification: NotificationType, params: Any = UNSET) -> None:
        """Send a notification.

        Raises:
            MethodNotFound: the revision has no such notification.
        """
        self._send(self.connection.announce(notification, params))

    def _send(self, message: OutgoingMessage) -> None:
        if self.error is None:
            full = self.transport.send(message)
            if full is not None:
                self.spawn(full)

    def _give_up(self, id: Id, reason: str) -> None:
        message = self.connection.give_up(id, reason)
        if message is not None and not self.transport.cancels:
            self._send(message)
        self.transport.abandon(id)

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(when, self._ring)
        self._alarm_time = when

    def _ring(self) -> None:
        """Fail requests past their deadline, and set the timer to the earliest remaining deadline."""
        self._alarm, self._alarm_time = None, NEVER
        now, earliest = self._loop.time(), NEVER
        held = self.transport.held or bool(self._questions)  # a user logs in, or is asked something
        for waiting in self.connection.waiting.values():
            waiter = waiting.owner
            if waiter.deadline > now:
                earliest = min(earliest, waiter.deadline)
            elif waiter.timeout is not None and (held or waiter.held):
                waiter.held = held  # the timeout restarts after that
                waiter.deadline = now + (min(HELD, waiter.timeout) if waiter.held else waiter.timeout)
                earliest = min(earliest, waiter.deadline)
            elif not waiter.future.done():
                what = f"no answer to {waiting.request.method} within {waiter.timeout:g} seconds"
                waiter.future.set_exception(RequestTimeout(what))
        if earliest < NEVER:
            self._set_alarm(earliest)

    # Callbacks of the transport

    def receive(self, data: bytes, about: Id | None = None) -> None:
        """Handle a message from the server, which arrived on the stream of the request ``about``, if on that of one."""
        event = self.connection.receive(data)
        if type(event) is Response:
            future = event.waiting.owner.future
            if not future.done():
                future.set_result(event.result)
            return
        self._take(event, about)

    def awaits(self, id: Id) -> bool:
        """Return whether a request still waits for its response."""
        return id in self.connection.waiting

    def fail(self, id: Id, error: MCPError) -> None:
        """Fail a pending request that will have no response."""
        waiting = self.connection.waiting.pop(id, None)
        if waiting is not None:
            waiting.owner.fail(error)

    def interrupted(self) -> None:
        """Record that notifications may have been missed."""
        self._owner.interrupted()

    def closed(self, error: MCPError) -> None:
        """Record that the connection is lost. After ``SessionExpired``, pending requests may still get responses."""
        if self.error is None:
            if isinstance(error, SessionExpired):
                self.error = error
            else:
                self._end(error)
            self._owner.lost(self)

    async def finish(self) -> None:
        """Wait for the responses of pending requests, and close."""
        futures = [waiting.owner.future for waiting in self.connection.waiting.values()]
        if futures:
            await asyncio.wait(futures)
        await self.close()

    def _end(self, error: MCPError) -> None:
        if self.error is None:
            self.error = error
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm, self._alarm_time = None, NEVER
        for _, each in self.connection.close():
            each.owner.fail(error)

    def _take(self, event: Event[Waiter], about: Id | None) -> None:
        if type(event) is Response or type(event) is ErrorResponse:
            event.deliver()
        elif type(event) is Notification:
            self._take_notice(event)
        elif type(event) is Question:
            self._take_question(event, about)
        elif type(event) is Ignored:
            log.debug("ignored: %s", event.reason)
            if event.reply is not None:
                self._send(OutgoingMessage(event.reply, revision=self.connection.revision))
        elif type(event) is Batch:
            for each in event.events:
                self._take(each, about)

    def _take_notice(self, notice: Notification) -> None:
        if notice.event == "progress":
            self._take_progress(notice.params)
            return
        if notice.event == "cancelled" and notice.params.request_id is not None:
            self._take_cancellation(notice.params.request_id)
            return
        if notice.subscription is not None:
            waiting = self.connection.waiting.get(notice.subscription)
            if waiting is not None and waiting.owner.subscriber is not None:
                waiting.owner.subscriber.take_notice(notice)
            return
        self._owner.take_notice(notice)

    def _take_progress(self, params: ProgressParams) -> None:
        waiting = self.connection.waiting.get(params.progress_token)
        if waiting is None or waiting.owner.progress is None:
            return
        waiter = waiting.owner
        if waiter.timeout is not None:  # never earlier than it was, so that the timer fires in time
            waiter.deadline = min(self._loop.time() + waiter.timeout, waiter.latest)
        assert waiter.progress is not None
        try:
            done = waiter.progress(params.progress, params.total, params.message)
        except Exception:
            log.exception("a progress callback failed")
            return
        if inspect.isawaitable(done):
            self.spawn(done)

    def _take_cancellation(self, id: Id) -> None:
        """Handle ``notifications/cancelled``: cancel the server's request, or end a subscription."""
        task = self._questions.get(id)
        if task is not None:
            task.cancel()
            return
        waiting = self.connection.waiting.get(id)
        if waiting is not None and waiting.owner.subscriber is not None:
            self.fail(id, TransportError("the server has ended the subscription"))

    # Requests of the server

    def _take_question(self, question: Question, about: Id | None) -> None:
        if question.operation == "ping":
            self._send(self.connection.answer(question, {}))
            return
        if len(self._questions) >= MAX_QUESTIONS or question.id in self._questions:
            self._send(self.connection.refuse(question, PeerError(INTERNAL_ERROR, "Too many questions at a time")))
            return
        task = self._questions[question.id] = self._loop.create_task(self._answer(question, *self._causes(about)))
        task.add_done_callback(lambda _: self._questions.pop(question.id, None))

    def _causes(self, about: Id | None) -> tuple[ClientCall[Any] | None, tuple[ClientCall[Any], ...]]:
        """Return the call that has caused a request of the server, None if it is not known, and those that may have.

        On a transport without streams, the only call in flight is taken to be the cause.
        """
        waiting = None if about is None else self.connection.waiting.get(about)
        if waiting is not None and waiting.owner.call is not None:
            return waiting.owner.call, (waiting.owner.call,)
        calls = tuple(each.owner.call for each in self.connection.waiting.values() if each.owner.call is not None)
        return calls[0] if len(calls) == 1 and not self.transport.streams else None, calls

    async def _answer(
        self, question: Question, call: ClientCall[Any] | None, calls: tuple[ClientCall[Any], ...]
    ) -> None:
        try:
            message = self.connection.answer(question, await self._owner.answer(question, call, calls))
        except (ProtocolError, PeerError) as error:
            message = self.connection.refuse(question, error)
        except Exception as error:
            log.exception("the answer to a question of the server failed")
            message = self.connection.refuse(question, error)
        self._send(message)

    def spawn(self, work: Awaitable[Any]) -> None:
        """Run an awaitable as a background task, cancelled when the connection is closed. Failures are logged."""
        task = asyncio.ensure_future(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _quietly(work: Awaitable[Any]) -> None:
    try:
        await work
    except (TransportError, MethodNotFound) as error:
        log.debug("gave up: %s", error)
    except Exception:
        log.exception("something on the side failed")
