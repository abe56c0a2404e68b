"""Connections that pass notifications of the client on to the handlers of a mirrored server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET

from carrel.protocol.description import Description
from carrel.protocol.methods import RequestType
from carrel.protocol.server import Call, ClientNotification, Event, ServerProtocol
from carrel.wire.base import Params, Result
from carrel.wire.jsonrpc import Message

__all__ = ["NotifiedConnection", "Notify"]

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

    def _receive(self, message: Message, data: bytes | memoryview) -> Event:
        event = super()._receive(message, data)
        if type(event) is Call:
            self.first = self.first or event
        elif type(event) is ClientNotification and self.first is not None and message.method is not UNSET:
            row = RequestType(message.method, message.method, Params, Result)
            raw = msgspec.Raw(b"{}") if message.params is UNSET else message.params
            call = Call(self, self.first.peer, 0, row, Params(), raw, client=self.first.client)
            work = self._notify(call, None if message.params is UNSET else msgspec.json.decode(raw))
            if work is not None:
                task = asyncio.get_running_loop().create_task(work)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        return event

    def close(self) -> list[Any]:
        """Close the connection, and cancel the handlers of notifications."""
        for task in self._tasks:
            task.cancel()
        return super().close()
