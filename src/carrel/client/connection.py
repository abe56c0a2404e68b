"""Client connection to a server: a transport, the protocol state machine, and the pending requests with timeouts.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import UNSET

from carrel.awaitables import is_awaitable
from carrel.client.causes import Causes
from carrel.client.handlers import ClientCall, Progress
from carrel.client.incoming_requests import IncomingRequests, Responder
from carrel.client.pending_request import NEVER, Subscriber, Waiter
from carrel.client.throttle import Throttle
from carrel.errors import (
    InvalidMessage,
    MCPError,
    MethodNotFound,
    RequestTimeout,
    SessionExpired,
    TransportError,
)
from carrel.log import Log
from carrel.printable import printable
from carrel.protocol.client import (
    ClientProtocol,
    Event,
    FailedRequest,
    Ignored,
    IncomingRequest,
    OutgoingMessage,
    Response,
    ServerBatch,
    ServerNotification,
)
from carrel.protocol.methods import NotificationType, RequestType
from carrel.protocol.results import guess_id
from carrel.protocol.revision import Revision
from carrel.transports.client.transport import Transport
from carrel.wire.base import Id, Params, Result
from carrel.wire.lifecycle import InitializeResult
from carrel.wire.tasks import CreateTaskResult
from carrel.wire.utilities import LoggingMessageParams, ProgressParams

__all__ = ["ClientConnection", "Owner"]

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Result)

log = Log("carrel.client")

#: Maximum number of seconds to which progress notifications can extend a request, unless its timeout is longer.
LONGEST = 3600.0
#: Seconds between checks for whether a transport still waits for credentials.
HELD = 0.25
#: Maximum number of concurrent callbacks for progress and log messages. Further messages are dropped.
MAX_CALLBACKS = 1000
#: Number of bytes to keep of data that is not a message.
SHOWN = 300
#: How much of data that is no message is searched for the name of a method, in bytes.
HEAD = 1024
#: Seconds that cancelled tasks get to finish when the connection is closed.
CLEANUP = 1.0


class Owner(Responder, Protocol):
    """Interface of the client that a connection calls."""

    def take_log(
        self, params: LoggingMessageParams, call: ClientCall[Any] | None, calls: tuple[ClientCall[Any], ...]
    ) -> Awaitable[None] | None:
        """Handle a log message that ``call`` caused, or, if the call is unknown, possibly one of ``calls``.

        The return value is awaited in the background.
        """

    def take_notice(self, notice: ServerNotification) -> None:
        """Handle a notification that is not related to a request."""

    def broken(self) -> None:
        """Record that the long-lived stream has broken: the server may be gone."""

    def interrupted(self) -> None:
        """Record that notifications may have been missed."""

    def lost(self, link: ClientConnection) -> None:
        """Record that the connection is lost."""


class ClientConnection:
    """Client connection to a server over one transport. Call ``open`` first, ``close`` last; it cannot be reopened."""

    def __init__(self, transport: Transport, connection: ClientProtocol[Waiter], owner: Owner) -> None:
        self.transport = transport
        self.connection = connection
        self.error: MCPError | None = None
        """Why the connection was lost or closed; None while it is open."""
        self.malformed: str | None = None
        """The last data that was not a message, truncated; None without such data."""
        self.owner = owner
        self._loop = asyncio.get_running_loop()
        self._incoming = IncomingRequests(self)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.causes = Causes(connection, streams=transport.streams)
        """Finds the calls that caused the server's messages."""
        self._throttle = Throttle(self._loop.time)
        self._callbacks = 0
        self._dropped = False
        # One timer for all pending requests: one per request would cost more than encoding and decoding.
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
        tasks = {*self._incoming.tasks.values(), *self._tasks}
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
        request: RequestType[P, R],
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
        with every progress notification. ``subscriber`` receives the notifications of a listen request. ``call`` gets
        the request id, and is passed to the handlers of server requests that it causes.

        Raises:
            PeerError: the server sent an error response.
            RequestTimeout: there was no response in time.
            TransportError: the connection was lost.
            ProtocolError: the response is invalid.
            MethodNotFound: the server's revision has no such request.
        """
        waiter = Waiter(self._loop.create_future(), progress, subscriber, timeout, call=call)
        message = self.connection.request(
            request,
            params,
            waiter,
            meta=meta,
            progress=progress is not None,
            result=result,
            capabilities=None if call is None else call.capabilities,
            whole=call is not None and call.whole and result is None,
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

    def notify(self, notification: NotificationType, params: Any = UNSET) -> None:
        """Send a notification.

        Raises:
            MethodNotFound: the revision has no such notification.
        """
        self._send(self.connection.notify(notification, params))

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
        held = self.transport.held or bool(self._incoming.tasks)  # a login or a server request is in progress
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

    def receive(self, data: bytes, about: Id | None = None) -> float | None:
        """Handle a message from the server. ``about`` is the request on whose stream it arrived, if any."""
        event = self.connection.receive(data)
        if type(event) is Response:
            waiter = event.waiting.owner
            if waiter.call is not None:
                waiter.call.size = len(data)
            if not waiter.future.done():
                waiter.future.set_result(event.result)
            if self.causes.task_calls or type(event.result) is CreateTaskResult:
                self.causes.note(event)
            return None
        self._take(event, about)
        if type(event) is FailedRequest:
            return None
        if type(event) is Ignored and event.malformed:
            self.malformed = printable(bytes(data[:SHOWN]).decode(errors="replace").strip())
            id = guess_id(data)
            # A message that a dying program has not finished is not its response.
            whole = bytes(data[-SHOWN:]).rstrip().endswith(b"}")
            if id is not None and whole and b'"method"' not in bytes(data[:HEAD]):
                self.fail(id, InvalidMessage(f"The response of the server cannot be read: {event.reason}"))
        return self._throttle.take(len(event.events) if type(event) is ServerBatch else 1)

    def awaits(self, id: Id) -> bool:
        """Return whether a request still waits for its response."""
        return id in self.connection.waiting

    def fail(self, id: Id, error: MCPError) -> None:
        """Fail a pending request that will have no response."""
        waiting = self.connection.waiting.pop(id, None)
        if waiting is not None:
            waiting.owner.fail(error)

    def broken(self) -> None:
        """Record that the long-lived stream has broken: the server may be gone."""
        self.owner.broken()

    def interrupted(self) -> None:
        """Record that notifications may have been missed."""
        self.owner.interrupted()

    def closed(self, error: MCPError) -> None:
        """Record that the connection is lost. After ``SessionExpired``, pending requests may still get responses."""
        if self.error is None:
            if isinstance(error, SessionExpired):
                self.error = error
            else:
                self._end(error)
            self.owner.lost(self)

    def leave(self, error: MCPError) -> None:
        """End an open connection because of the server's behaviour."""
        self.closed(error)
        task = self._loop.create_task(self.transport.close())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        if type(event) is Response or type(event) is FailedRequest:
            event.deliver()
            if type(event) is Response:
                self.causes.note(event)
        elif type(event) is ServerNotification:
            self._take_notice(event, about)
        elif type(event) is IncomingRequest:
            self._incoming.take(event, *(() if event.operation == "ping" else self.causes.of(about, event.params)))
        elif type(event) is Ignored:
            log.debug("ignored: %s", event.reason)
            if event.reply is not None:
                self._incoming.send(OutgoingMessage(event.reply, revision=self.connection.revision))
        elif type(event) is ServerBatch:
            for each in event.events:
                self._take(each, about)

    def _take_notice(self, notice: ServerNotification, about: Id | None) -> None:
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
        if notice.event == "message":
            done = self.owner.take_log(notice.params, *self.causes.of(about, notice.params))
            if done is not None:
                self.spawn_callback(done)
            return
        self.owner.take_notice(notice)

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
        if is_awaitable(done):
            self.spawn_callback(done)

    def _take_cancellation(self, id: Id) -> None:
        """Handle ``notifications/cancelled``: cancel the server's request, or end a subscription."""
        if self._incoming.cancel(id):
            return
        waiting = self.connection.waiting.get(id)
        if waiting is not None and waiting.owner.subscriber is not None:
            self.fail(id, TransportError("the server has ended the subscription"))

    # Server requests and background tasks

    def spawn(self, work: Awaitable[Any]) -> asyncio.Task[None]:
        """Run an awaitable as a background task, cancelled when the connection is closed. Failures are logged."""
        task = asyncio.ensure_future(_quietly(work))
        self._tasks.add(task)

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if inspect.iscoroutine(work):
                work.close()  # the task may have been cancelled before it began

        task.add_done_callback(end)
        return task

    def spawn_callback(self, work: Awaitable[Any]) -> None:
        """Run a callback for progress or a log message as ``spawn`` does; drop it if too many are running."""
        if self._callbacks >= MAX_CALLBACKS:
            if inspect.iscoroutine(work):
                work.close()
            if not self._dropped:
                self._dropped = True
                log.warning("notifications are dropped while %d callbacks are running (MAX_CALLBACKS)", MAX_CALLBACKS)
            return
        self._callbacks += 1
        self.spawn(work).add_done_callback(self._end_callback)

    def _end_callback(self, _: object) -> None:
        self._callbacks -= 1


async def _quietly(work: Awaitable[Any]) -> None:
    try:
        await work
    except (TransportError, MethodNotFound) as error:
        log.debug("gave up: %s", error)
    except Exception:
        log.exception("something on the side failed")
