"""Message dispatcher for one client, used by stdio, HTTP+SSE and the in-memory transport; tasks for calls, batches."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from carrel.errors import InvalidMessage, ServerUnavailable
from carrel.limits import NO_ROOM
from carrel.protocol.channel import Channel, ConnectedClient
from carrel.protocol.connection import FailedRequest, Response
from carrel.protocol.encoding import encode_error
from carrel.protocol.methods import INITIALIZE, PING
from carrel.protocol.server import (
    Call,
    ClientBatch,
    ClientNotification,
    ErrorResponse,
    Event,
    Reply,
    ServerProtocol,
)
from carrel.transports.server.application import Application

__all__ = [
    "UNWEIGHED",
    "CallTask",
    "Dispatcher",
    "InFlight",
    "Work",
    "absorb",
    "answer_batch",
    "answer_of",
    "attach",
    "begin",
    "cancel",
    "check_load",
    "no_room",
    "spawn",
]

#: Pending response to a call: a task that computes it, or a future that receives it.
Work: TypeAlias = "asyncio.Future[Any]"

#: Buffered bytes of one connection that do not count against the budget: about the size of a pipe or socket buffer.
UNWEIGHED = 16 * 1024

#: Seconds that a cancelled handler gets to clean up when the dispatcher closes.
CLEANUP = 1.0

EAGER = sys.version_info >= (3, 12)
NOW: dict[str, Any] = {"eager_start": True} if EAGER else {}


class CallTask(asyncio.Task[None]):
    """Task that answers one call.

    ``answer`` is the response: None before it is ready, and if the call was cancelled. (It is not the result of the
    task, because a handler that cancels its own task would lose that.)
    """

    __slots__ = ("answer", "call")

    def __init__(
        self,
        app: Application,
        call: Call,
        pending: Awaitable[Reply],
        finish: Callable[[Call, CallTask], None] | None,
    ) -> None:
        self.answer: Reply | None = None
        self.call = call
        super().__init__(_complete(app, call, pending, finish), loop=asyncio.get_running_loop(), **NOW)


async def _complete(
    app: Application, call: Call, pending: Awaitable[Reply], finish: Callable[[Call, CallTask], None] | None
) -> None:
    """Await the response to a call, then call ``finish``. A cancelled call has no response."""
    task = asyncio.current_task()
    assert isinstance(task, CallTask)
    answer: Reply | None = None
    try:
        answer = await pending
    except asyncio.CancelledError as error:
        if not call.cancelled:
            answer = app.reject(call, error)  # not cancelled by us: the handler raised it, or cancelled its own task
    except GeneratorExit as error:
        if _current_task() is not task:
            raise  # the coroutine is being closed, because its event loop is closed
        answer = app.reject(call, error)
    task.answer = None if call.cancelled else answer
    if finish is not None:
        finish(call, task)


def _current_task() -> Any:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop is running
        return None


def spawn(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Run a coroutine as a task, started eagerly where Python supports that (3.12)."""
    return asyncio.Task(coroutine, loop=asyncio.get_running_loop(), **NOW)


def cancel(work: Work) -> None:
    """Cancel pending work: a task in the next event loop iteration, as one that never starts leaves its coroutine open.

    A future is cancelled at once, so that a listen request gets no notification of a later message's changes.
    """
    if work.done():
        return
    if isinstance(work, CallTask):
        work.call.cancelled = True
    if isinstance(work, asyncio.Task):
        asyncio.get_running_loop().call_soon(work.cancel)
    else:
        work.cancel()


def begin(app: Application, call: Call, pending: Awaitable[Reply]) -> Work:
    """Start work on a call whose response is a coroutine (run as a task) or a future (returned as is)."""
    return pending if isinstance(pending, asyncio.Future) else CallTask(app, call, pending, None)


def answer_of(work: Work) -> Reply | None:
    """Return the response of finished work; None if it was cancelled."""
    if isinstance(work, CallTask):
        return work.answer
    return None if work.cancelled() else work.result()


def no_room(id: Any) -> bytes:
    """Return the error response that replaces a response that exceeds the client's budget."""
    known = id if type(id) is int or type(id) is str else None
    return encode_error(known, ServerUnavailable.code, NO_ROOM)


def _reply(work: Work) -> bytes | None:
    answer = answer_of(work)
    return answer.reply if isinstance(answer, ErrorResponse) else answer


async def absorb() -> None:
    """Undo a cancellation of the current task by a handler that ran inside it without awaiting."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
        task.uncancel()


def attach(
    event: Event, client: ConnectedClient, headers: Mapping[bytes, bytes] | None = None, address: str = ""
) -> None:
    """Set the client of the calls of a message, and the headers and the client address of their HTTP request."""
    for each in event.events if type(event) is ClientBatch else (event,):
        call = each.call if type(each) is ErrorResponse else each
        if type(call) is Call:
            call.client = client
            call.raw_headers = headers
            call.address = address


def check_load(call: Call, count: int, limit: int) -> None:
    """Check the limit of requests in flight before another call; ``count`` are in flight. A ping is always allowed.

    Raises:
        ServerUnavailable: the limit is reached.
    """
    if count >= limit and call.request is not PING:
        raise ServerUnavailable(f"Too many requests at a time: at most {limit} (max_requests_in_flight)")


class InFlight(dict[Any, Work]):
    """Requests in flight of one connection or session, by id.

    A cancelled request is removed at once, but counts until its handler has finished.
    """

    __slots__ = ("_connection", "leaving")

    def __init__(self, connection: ServerProtocol) -> None:
        super().__init__()
        self._connection = connection
        self.leaving: set[Work] | None = None

    def __setitem__(self, id: Any, work: Work) -> None:
        super().__setitem__(id, work)
        self._connection.begin(id)

    def check(self, call: Call, limit: int) -> None:
        """Check the limit of requests in flight before another call.

        Raises:
            ServerUnavailable: the limit is reached.
        """
        check_load(call, len(self) if self.leaving is None else len(self) + len(self.leaving), limit)

    def cancel(self, id: Any) -> None:
        """Cancel the request with an id, if there is one."""
        work = self.pop(id, None)
        if work is None:
            return
        self._connection.end(id)
        if self.leaving is None:
            self.leaving = set()
        self.leaving.add(work)
        work.add_done_callback(self.leaving.discard)
        cancel(work)

    def remove(self, id: Any, work: Work) -> bool:
        """Remove a completed request. Return False if it is not there because it was cancelled."""
        if self.get(id) is not work:
            return False
        del self[id]
        self._connection.end(id)
        return True

    @property
    def works(self) -> set[Work]:
        """All unfinished work, including cancelled requests."""
        return {*self.values(), *(self.leaving or ())}


class Dispatcher:
    """Dispatcher of one connection: parses messages, passes calls to ``app``, sends responses to ``channel``."""

    def __init__(self, app: Application, channel: Channel) -> None:
        self._app = app
        self._limits = app.limits
        self._channel = channel
        self.connection: ServerProtocol = app.connect()
        self.client = ConnectedClient(app.budget, channel=channel)
        self.in_flight = InFlight(self.connection)
        self._batches: set[asyncio.Task[None]] = set()

    def receive(self, data: bytes) -> bytes | None:
        """Dispatch one message. Return its response if that is ready at once; otherwise it is sent later."""
        return self.take(self.connection.receive(data))

    def take(self, event: Event) -> bytes | None:
        """Dispatch a message that the connection has parsed."""
        if type(event) is Call:
            event.client = self.client
            in_flight = self.in_flight
            if in_flight or in_flight.leaving:
                try:
                    in_flight.check(event, self._limits.max_requests_in_flight)
                except ServerUnavailable as error:
                    return self._app.refuse(event, error).reply
            reply = self._app.answer(event, self._channel)
            if isinstance(reply, bytes):
                return reply
            if isinstance(reply, ErrorResponse):
                return reply.reply
            return self._answer_later(event, reply)
        return self._receive_other(event)

    def _receive_other(self, event: Event) -> bytes | None:
        if type(event) is ErrorResponse:
            if event.call is not None:
                event.call.client = self.client
                self._app.rejected(event)
            return event.reply
        if type(event) is ClientNotification:
            if event.operation == "cancelled":
                self.in_flight.cancel(event.params.request_id)
        elif type(event) is Response or type(event) is FailedRequest:
            event.deliver()
        elif type(event) is ClientBatch:
            attach(event, self.client)
            task = asyncio.get_running_loop().create_task(self._answer_batch(event))
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)
        return None

    def _answer_later(self, call: Call, pending: Awaitable[Reply]) -> bytes | None:
        if isinstance(pending, asyncio.Future):
            work: Work = pending
        else:
            work = CallTask(self._app, call, pending, self._finish)
        if work.done():
            return _reply(work)
        self.in_flight[call.id] = work
        if work is pending:
            work.add_done_callback(lambda _: self._finish(call, work))
        return None

    def _finish(self, call: Call, work: Work) -> None:
        """Send a response, unless it was ready at once and is returned, or the call was cancelled."""
        if self.in_flight.remove(call.id, work):
            reply = _reply(work)
            if reply is not None:
                self.send(call.id, reply)

    async def _answer_batch(self, batch: ClientBatch) -> None:
        replies = await answer_batch(self._app, batch, self._channel, self.in_flight, self._receive_other)
        if replies:
            self.send(None, b"[%b]" % b",".join(replies))

    def send(self, id: Any, reply: bytes) -> None:
        """Send a response, or an error if its size exceeds the client's budget for buffered data."""
        if len(reply) > UNWEIGHED and not self.client.has_room(len(reply)):
            reply = no_room(id)
        self._channel.send(reply)

    def cancel(self) -> None:
        """Cancel all requests and batches in flight."""
        for work in (*self.in_flight.values(), *self._batches):
            cancel(work)

    async def close(self, grace: float = 0.0) -> None:
        """Close the dispatcher: wait ``grace`` seconds for requests in flight, then cancel them."""
        works = {*self.in_flight.works, *self._batches}
        if works and grace:
            await asyncio.wait(works, timeout=grace)
        self.cancel()
        if works:
            await asyncio.wait(works, timeout=CLEANUP)
        self._app.disconnect(self.connection, self.client)


async def answer_batch(
    app: Application,
    batch: ClientBatch,
    channel: Channel,
    in_flight: InFlight,
    receive_other: Callable[[Event], bytes | None],
) -> list[bytes]:
    """Answer a JSON-RPC batch: return all responses once the last is ready. Cancelled calls have none.

    https://modelcontextprotocol.io/specification/2025-03-26/basic#batching
    """
    answers: list[Any] = []
    works: list[tuple[Call, Work]] = []
    held = 0

    def hold(call: Call, answer: Reply | None) -> bytes | None:
        """Count a response that waits for the others, or replace it by an error if it exceeds the budget."""
        nonlocal held
        reply = answer.reply if isinstance(answer, ErrorResponse) else answer
        if reply is not None and len(reply) > UNWEIGHED:
            if not call.client.take(len(reply)):
                return no_room(call.id)
            held += len(reply)
        return reply

    async def hold_later(call: Call, work: Work) -> bytes | None:
        await asyncio.wait((work,))
        in_flight.remove(call.id, work)  # so that its response is not kept twice
        return hold(call, answer_of(work))

    for event in batch.events:
        answer = _answer_in_batch(app, event, channel, in_flight, receive_other)
        if type(event) is not Call:
            answers.append(answer)
        elif isinstance(answer, asyncio.Future):
            works.append((event, answer))
            answers.append(spawn(hold_later(event, answer)))
        else:
            answers.append(hold(event, answer))
    pending = [answer for answer in answers if isinstance(answer, asyncio.Future)]
    try:
        await absorb()
        if pending:
            await asyncio.wait(pending)
    finally:
        for call, work in works:
            if in_flight.remove(call.id, work):
                cancel(work)
        for event in batch.events:
            if type(event) is Call:
                event.client.give(held)
                break
    replies = [_reply(answer) if isinstance(answer, asyncio.Future) else answer for answer in answers]
    return [reply.reply if type(reply) is ErrorResponse else reply for reply in replies if reply is not None]


def _answer_in_batch(
    app: Application,
    event: Event,
    channel: Channel,
    in_flight: InFlight,
    receive_other: Callable[[Event], bytes | None],
) -> Reply | Work | None:
    """Return the response to one message of a batch, or the pending work for it; None if it has no response."""
    if type(event) is not Call:
        return receive_other(event)
    if event.request is INITIALIZE:
        return app.refuse(event, InvalidMessage("Invalid request: initialize within a batch"))
    try:
        in_flight.check(event, app.limits.max_requests_in_flight)
    except ServerUnavailable as error:
        return app.refuse(event, error)
    answer = app.answer(event, channel)
    if isinstance(answer, bytes | ErrorResponse):
        return answer
    work = in_flight[event.id] = begin(app, event, answer)
    return work
