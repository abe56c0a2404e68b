"""Parked calls that continue at a client's request to another replica: the call stays where it is.

The replica with the call sends the server requests, progress and result of the call to the replica with the client's
request, which handles them as if the call were its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from carrel.catalog.request import InputRequired
from carrel.host.call_messages import (
    Answer,
    CallMessage,
    Completed,
    Detach,
    Failure,
    LogReport,
    OpenPage,
    Parked,
    PassOn,
    ProgressReport,
    SentAgain,
    Success,
    error_of,
    failure_of,
    params_of,
    read_message,
    response_of,
    result_of,
    write_message,
    write_struct,
)
from carrel.host.relay import LOST, MAX_KEPT, MAX_KEPT_BYTES, CallLost
from carrel.protocol.encoding import encode
from carrel.state.connections import MailboxConnection, ReplicaLost
from carrel.state.replica import Replica

if TYPE_CHECKING:
    from carrel.catalog.request import RequestContext
    from carrel.wire.base import LoggingLevel, Result
    from carrel.wire.client_features import ServerRequestParams

__all__ = ["CallDropped", "ResumedContext", "resume"]


class CallDropped(Exception):
    """The call was dropped for the call of another client, and may be sent again."""


class PageAnswer(msgspec.Struct):
    """Response to a URL mode elicitation."""

    action: Literal["accept", "decline", "cancel"]
    id: str | None = None


class ResumedContext:
    """Context of a client's request at another replica, for the relay of the call. See ``RelayContext``."""

    def __init__(self, connection: MailboxConnection) -> None:
        self._connection = connection
        self._answers: dict[int, asyncio.Future[bytes]] = {}
        self._count = 0

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification. It is dropped if too many messages wait for the store."""
        self._report(ProgressReport(progress, total, message))

    def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message. It is dropped if too many messages wait for the store."""
        self._report(LogReport(level, encode(data), logger))

    def elicitation_completed(self, id: str | None) -> None:
        """Notify the client that a URL mode elicitation is complete."""
        self._report(Completed(id))

    def _report(self, message: CallMessage) -> None:
        data = write_message(message)
        if self._connection.queued < MAX_KEPT and self._connection.queued_bytes + len(data) <= MAX_KEPT_BYTES:
            self._connection.send(data)

    async def elicit_url(self, message: str, url: str, *, key: str | None = None, required: bool = False) -> PageAnswer:
        """Ask the user to visit a URL."""
        answer = await self._ask(OpenPage(self._next(), message, url, key, required))
        return msgspec.json.decode(answer, type=PageAnswer)

    async def pass_on(self, params: ServerRequestParams, *, key: str | None = None) -> Any:
        """Forward a server request to the client unchanged, and return its whole result."""
        message = PassOn(self._next(), type(params).__name__, write_struct(params), key)
        return response_of(params, await self._ask(message))

    async def detach(self) -> bool:
        """Turn the request into a task, if it may become one, and return whether it is one now."""
        return await self._ask(Detach(self._next())) == b"true"

    def _next(self) -> int:
        self._count += 1
        return self._count

    async def _ask(self, message: PassOn | OpenPage | Detach) -> bytes:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[message.number] = future
        self._connection.send(write_message(message))
        try:
            return await future
        finally:
            del self._answers[message.number]

    async def listen(self) -> None:
        """Take the answers of the other replica, until the connection is lost."""
        while True:
            message = read_message(await self._connection.receive())
            future = self._answers.get(message.number) if isinstance(message, Answer) else None
            if future is None or future.done():
                continue
            assert isinstance(message, Answer)
            if message.failure is not None:
                future.set_exception(error_of(message.failure))
            elif message.value is not None:
                future.set_result(message.value)
            else:
                future.set_exception(InputRequired(self))


async def resume(replica: Replica, slot: int, token: str, context: RequestContext, kind: type[Result] | None) -> Any:
    """Return the result, of the type ``kind``, of a call that the replica ``slot`` has parked.

    Raises:
        InputRequired: the client has to send its request again with more responses.
        CallDropped: the call may be sent again.
        CallLost: the call is not there any more.
        ServerUnavailable: the store has failed.
    """
    try:
        async with replica.connections.open(slot, token) as connection:
            return await _follow(connection, context, kind)
    except ReplicaLost:
        raise CallLost(LOST) from None


async def _follow(connection: MailboxConnection, context: RequestContext, kind: type[Result] | None) -> Any:
    asking = set[asyncio.Task[None]]()

    def ask(number: int, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(_answer(connection, number, work))
        asking.add(task)
        task.add_done_callback(asking.discard)

    try:
        while True:
            message = read_message(await connection.receive())
            match message:
                case PassOn():
                    ask(message.number, context.pass_on(params_of(message), key=message.key))
                case OpenPage():
                    page = context.elicit_url(message.message, message.url, key=message.key, required=message.required)
                    ask(message.number, page)
                case Detach():
                    ask(message.number, context.detach())
                case ProgressReport():
                    context.report_progress(message.progress, message.total, message.message)
                case LogReport():
                    context.log(message.level, msgspec.json.decode(message.data), message.logger)
                case Completed():
                    context.elicitation_completed(message.id)
                case Parked():
                    raise InputRequired(context)
                case SentAgain():
                    raise CallDropped
                case Success():
                    return result_of(message, kind)
                case Failure():
                    raise error_of(message)
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def _answer(connection: MailboxConnection, number: int, work: Awaitable[Any]) -> None:
    """Send the outcome of a server request to the replica with the call."""
    answer = Answer(number)
    try:
        found = await work
        answer.value = encode(PageAnswer(found.action, found.id)) if hasattr(found, "id") else value_of(found)
    except InputRequired:
        pass
    except Exception as error:
        answer.failure = failure_of(error)
    connection.send(write_message(answer))


def value_of(found: Any) -> bytes:
    """Encode the response to a server request."""
    return write_struct(found) if isinstance(found, msgspec.Struct) else encode(found)
