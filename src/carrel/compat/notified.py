"""Connections that pass notifications of the client on to handlers of a mirrored server, and answer cancelled calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from carrel.compat.exchange import REQUEST_CANCELLED
from carrel.protocol.channel import Channel
from carrel.protocol.description import Description
from carrel.protocol.encoding import encode_error
from carrel.protocol.methods import RequestType
from carrel.protocol.server import Call, ClientNotification, Event, ServerProtocol
from carrel.wire.base import Id, Params, Result
from carrel.wire.jsonrpc import Message

__all__ = ["NotifiedConnection", "Notify", "answering_cancelled"]

T = TypeVar("T")

#: Returns the work for a notification, given as a call with its method and parameters; None if nobody handles it.
Notify: TypeAlias = Callable[[Call, Mapping[str, Any] | None], Coroutine[Any, Any, None] | None]


class NotifiedConnection(ServerProtocol):
    """Connection that calls ``notify`` with each notification, after the first request of its client."""

    def __init__(self, description: Description, notify: Notify) -> None:
        super().__init__(description)
        self.first: Call | None = None
        """The first request of the client."""
        self._notify = notify
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: dict[Id, tuple[Channel, int]] = {}

    def answer(self, work: Coroutine[Any, Any, T], call: Call, channel: Channel, code: int) -> Coroutine[Any, Any, T]:
        """Return the work for a call. If the client cancels the call, it is answered at once, with an error code."""
        self._answering[call.id] = answer = channel, code
        return self._answer(work, call.id, answer)

    async def _answer(self, work: Coroutine[Any, Any, T], id: Id, answer: tuple[Channel, int]) -> T:
        try:
            return await work
        finally:
            if self._answering.get(id) is answer:  # else a cancelled call ends after the next one with its id began
                del self._answering[id]

    def _receive(self, message: Message, data: bytes | memoryview) -> Event:
        event = super()._receive(message, data)
        if type(event) is Call:
            self.first = self.first or event
        elif type(event) is ClientNotification and self.first is not None and message.method is not UNSET:
            if event.operation == "cancelled":
                self._answer_cancelled(event.params.request_id)
            row = RequestType(message.method, message.method, Params, Result)
            raw = msgspec.Raw(b"{}") if message.params is UNSET else message.params
            call = Call(self, self.first.peer, 0, row, Params(), raw, client=self.first.client)
            work = self._notify(call, None if message.params is UNSET else msgspec.json.decode(raw))
            if work is not None:
                task = asyncio.get_running_loop().create_task(work)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        return event

    def _answer_cancelled(self, id: Id) -> None:
        found = self._answering.pop(id, None)
        if found is not None:
            channel, code = found
            channel.send(encode_error(id, code, "Request cancelled"))

    def close(self) -> list[Any]:
        """Close the connection, and cancel the handlers of notifications."""
        for task in self._tasks:
            task.cancel()
        return super().close()


def answering_cancelled(
    work: Coroutine[Any, Any, T], call: Call, channel: Channel, *, generation: int
) -> Coroutine[Any, Any, T]:
    """Return the work for a call, which is answered with an error if a client with a session cancels it.

    The protocol does not ask for the answer, but clients of ``mcp`` 1 wait for it. Servers of ``mcp`` 2 send it over
    HTTP alone. ``generation`` is the major version of ``mcp``.
    """
    connection = call.connection
    if call.peer.revision.stateless or not isinstance(connection, NotifiedConnection):
        return work
    if generation == 1:
        return connection.answer(work, call, channel, 0)
    return work if call.raw_headers is None else connection.answer(work, call, channel, REQUEST_CANCELLED)
