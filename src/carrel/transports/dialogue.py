"""One client on one stream of messages, both ways: what stdio and the in-memory transport have in common."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from carrel.errors import INTERNAL_ERROR, InvalidMessage, ServerUnavailable
from carrel.limits import NO_ROOM
from carrel.protocol.channel import Channel
from carrel.protocol.encoding import encode_error
from carrel.protocol.server import Answer, Batch, Call, Connection, Event, Refusal, Signal
from carrel.transports.application import Application

__all__ = ["UNWEIGHED", "Dialogue", "Work", "answer_batch", "begin", "cancel", "no_room", "spawn"]

#: The answer to a call on its way: a task that makes it, or a future that gets it.
Work: TypeAlias = "asyncio.Future[Any]"

#: How many requests of one client may be in work at a time.
MAX_IN_FLIGHT = 4096

#: Bytes that may wait for one connection without being counted: as much waits in the buffers of pipes and sockets.
UNWEIGHED = 16 * 1024

#: Seconds that a cancelled function gets to clean up when the dialogue ends.
CLEANUP = 1.0

EAGER = sys.version_info >= (3, 12)

#: What was cancelled, so that nobody waits for an answer. (Counting with ``Task.cancelling`` would not do: before
#: Python 3.13 a TaskGroup in which something failed leaves one too many.)
CANCELLED: set[Work] = set()


def spawn(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Run a coroutine as a task; where Python can, its first step is taken at once."""
    loop = asyncio.get_running_loop()
    if EAGER:
        return asyncio.Task(coroutine, loop=loop, eager_start=True)  # type: ignore[call-arg,unused-ignore]
    return loop.create_task(coroutine)


def cancel(work: Work) -> None:
    """Cancel what is in work once it has begun: before, it would not even close what it was given to await."""
    if work not in CANCELLED:
        CANCELLED.add(work)
        work.add_done_callback(CANCELLED.discard)
    asyncio.get_running_loop().call_soon(work.cancel)


def begin(call: Call, pending: Any) -> Work:
    """Begin to work on a call whose answer is a coroutine, or will come by itself in a future."""
    return pending if isinstance(pending, asyncio.Future) else spawn(_complete(call, pending))


async def _complete(
    call: Call,
    pending: Awaitable[bytes | Refusal],
    finish: Callable[[Call, bytes | Refusal | None], None] | None = None,
) -> bytes | Refusal | None:
    """Await the answer to a call and ``finish``. A call that was cancelled has none, whatever its function did then."""
    answer: bytes | Refusal | None
    try:
        answer = await pending
    except asyncio.CancelledError as error:
        if asyncio.current_task() in CANCELLED:
            if finish is not None:
                finish(call, None)
            raise
        answer = call.connection.refuse(call, error)  # it was not us: something that the function waited for was
    if CANCELLED and asyncio.current_task() in CANCELLED:
        answer = None
    if finish is not None:
        finish(call, answer)
    return answer


def no_room(id: Any) -> bytes:
    """Return the error that takes the place of an answer for which there is no room."""
    known = id if type(id) is int or type(id) is str else None
    return encode_error(known, ServerUnavailable.code, NO_ROOM)


def _reply(work: Work) -> bytes | None:
    return None if work.cancelled() else _encoded(work.result())


def _encoded(answer: bytes | Refusal | None) -> bytes | None:
    return answer.reply if type(answer) is Refusal else answer  # type: ignore[return-value]


class Dialogue:
    """Reads messages, has the calls answered, and sends the answers to ``channel``."""

    def __init__(self, app: Application, channel: Channel) -> None:
        self._app = app
        self._channel = channel
        self.connection: Connection = app.connect()
        self.connection.channel = channel
        self._tasks: dict[Any, Work] = {}
        self.connection.in_flight = self._tasks
        self._batches: set[asyncio.Task[None]] = set()

    @property
    def in_work(self) -> int:
        """How many requests have been begun and not been answered."""
        return len(self._tasks)

    def receive(self, data: bytes) -> bytes | None:
        """Take one message. Return what can be answered at once; all else is sent later."""
        return self.take(self.connection.receive(data))

    def take(self, event: Event) -> bytes | None:
        """Take a message that the connection has read."""
        if type(event) is Call:
            if len(self._tasks) >= MAX_IN_FLIGHT:
                return encode_error(event.id, INTERNAL_ERROR, f"Too many requests at a time: at most {MAX_IN_FLIGHT}")
            reply = self._app.answer(event, self._channel)
            if type(reply) is bytes:
                return reply
            if type(reply) is Refusal:
                return reply.reply
            return self._answer_later(event, reply)
        return self._receive_other(event)

    def _receive_other(self, event: Event) -> bytes | None:
        if type(event) is Refusal:
            return event.reply
        if type(event) is Signal:
            if event.operation == "cancelled":
                self._cancel(event.params.request_id)
        elif type(event) is Answer:
            self._app.take_answer(self.connection, event)
        elif type(event) is Batch:
            task = asyncio.get_running_loop().create_task(self._answer_batch(event))
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)
        return None

    def _answer_later(self, call: Call, pending: Any) -> bytes | None:
        work = pending if isinstance(pending, asyncio.Future) else spawn(_complete(call, pending, self._finish))
        if work.done():
            return _reply(work)
        self._tasks[call.id] = work
        if work is pending:
            work.add_done_callback(lambda _: self._finish(call, _reply(work)))
        return None

    def _finish(self, call: Call, answer: bytes | Refusal | None) -> None:
        """Send an answer, unless it was there so soon that nobody has turned to something else."""
        if self._tasks.pop(call.id, None) is not None:
            reply = _encoded(answer)
            if reply is not None:
                self.send(call.id, reply)

    async def _answer_batch(self, batch: Batch) -> None:
        replies = await answer_batch(self._app, batch, self._channel, self._tasks, self._receive_other)
        if replies:
            self.send(None, b"[%b]" % b",".join(replies))

    def send(self, id: Any, reply: bytes) -> None:
        """Send an answer, or an error if there is no room for an answer of this size to wait for the client."""
        if len(reply) > UNWEIGHED and not self.connection.has_room(len(reply)):
            reply = no_room(id)
        self._channel.send(reply)

    def _cancel(self, id: Any) -> None:
        work = self._tasks.get(id)
        if work is not None:
            cancel(work)

    def cancel(self) -> None:
        """Cancel everything that is in work."""
        for work in (*self._tasks.values(), *self._batches):
            cancel(work)

    async def close(self, grace: float = 0.0) -> None:
        """End the dialogue: give what is in work ``grace`` seconds, then cancel it."""
        works = {*self._tasks.values(), *self._batches}
        if works and grace:
            await asyncio.wait(works, timeout=grace)
        self.cancel()
        if works:
            await asyncio.wait(works, timeout=CLEANUP)
        self._app.disconnect(self.connection)


async def answer_batch(
    app: Application,
    batch: Batch,
    channel: Channel,
    in_flight: dict[Any, Any],
    receive_other: Callable[[Event], bytes | None],
) -> list[bytes]:
    """Answer a batch: return all of its answers, once the last of them is there. Cancelled calls have none.

    https://modelcontextprotocol.io/specification/2025-03-26/basic#batching
    """
    answers: list[Any] = []
    held = 0

    def hold(call: Call, answer: bytes | Refusal | None) -> bytes | None:
        """Count an answer that waits for the others, or return an error in its place if there is no room for it."""
        nonlocal held
        reply = _encoded(answer)
        if reply is not None and len(reply) > UNWEIGHED:
            if not call.connection.take(len(reply)):
                return no_room(call.id)
            held += len(reply)
        return reply

    async def hold_later(call: Call, work: Work) -> bytes | None:
        await asyncio.wait((work,))
        in_flight.pop(call.id, None)  # what it has returned is not to be kept twice
        return hold(call, None if work.cancelled() else work.result())

    for event in batch.events:
        if type(event) is not Call:
            answers.append(receive_other(event))
        elif event.request.operation == "initialize":
            answers.append(event.connection.refuse(event, InvalidMessage("Invalid request: initialize within a batch")))
        else:
            answer = app.answer(event, channel)
            if type(answer) is bytes or type(answer) is Refusal:
                answers.append(hold(event, answer))
            else:
                in_flight[event.id] = begin(event, answer)
                answers.append(spawn(hold_later(event, in_flight[event.id])))
    pending = [answer for answer in answers if isinstance(answer, asyncio.Future)]
    try:
        if pending:
            await asyncio.wait(pending)
    finally:
        for event in batch.events:
            if type(event) is Call:
                if event.id in in_flight:
                    cancel(in_flight.pop(event.id))
                event.connection.give(held)
                held = 0
    replies = [_reply(answer) if isinstance(answer, asyncio.Future) else answer for answer in answers]
    return [reply.reply if type(reply) is Refusal else reply for reply in replies if reply is not None]
