"""Task that runs in this process: its asyncio task, its open requests, and where its messages go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from carrel.errors import InvalidParams
from carrel.protocol import unknown
from carrel.protocol.encoding import MARK, encode, restored
from carrel.server.elicitation.input_required import MAX_ATTEMPTS, invalid_answer
from carrel.state.records import TaskMessageLetter, TaskRecord
from carrel.state.replica import Replica
from carrel.wire.client_features import InputRequest
from carrel.wire.tasks import TaskStatus

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call, ServerProtocol
    from carrel.server.elicitation.client_requests import ClientRequest
    from carrel.server.task_interface import TaskInputRequest

__all__ = ["RemoteChannel", "TaskRun"]


class TaskRun:
    """One task in the process that runs it. ``record`` is the state that other replicas see.

    ``changed`` is called with the task after each change of its status.
    """

    def __init__(self, call: Call, record: TaskRecord, changed: Callable[[TaskRun], None]) -> None:
        self.call = call
        self.record = record
        self._changed = changed
        self.requests: dict[str, tuple[ClientRequest, asyncio.Future[Any]]] = {}
        self.keys: set[str] = set()
        """Keys of requests that were ever asked: a key belongs to one request for the life of the task."""
        self._attempts: dict[str, int] = {}
        self.work: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.connection: ServerProtocol = call.connection
        self.channel: Channel | None = call.client.channel
        """Channel for messages of the task: the client's newest tasks/result request, or else its session."""
        self.unsent: list[TaskInputRequest] = []
        """Requests that wait for a client with an open stream."""
        self.size = 0
        """Bytes that count as kept for its client."""
        self.timer: asyncio.TimerHandle | None = None

    @property
    def id(self) -> str:
        """Id of the task."""
        return self.record.id

    @property
    def status(self) -> TaskStatus:
        """Status of the task."""
        return self.record.status

    @property
    def over(self) -> bool:
        """Whether the status of the task is terminal."""
        return self.record.over

    def deliver(self, request: TaskInputRequest) -> None:
        """Send a request, or keep it until the client fetches the result (2025-11-25)."""
        if self.channel is not None and is_heard(self.channel):
            request.send(self.connection, self.channel)
        else:
            self.unsent.append(request)

    def keep(self, connection: ServerProtocol, request: TaskInputRequest) -> None:
        """Keep a request whose client is gone for the next client that fetches the result."""
        if self.connection is connection:
            self.channel = None
        self.deliver(request)

    def hear(self, connection: ServerProtocol, channel: Channel | None) -> None:
        """Send messages of the task to ``channel`` from now on, and the waiting requests at once."""
        self.connection, self.channel = connection, channel
        requests, self.unsent = self.unsent, []
        for request in requests:
            if not request.answer.done():
                self.deliver(request)

    def new_key(self, wanted: str) -> str:
        """Return ``wanted`` as a new key, with a number appended if the task has used it before."""
        key, number = wanted, 1
        while key in self.keys:
            number += 1
            key = f"{wanted}-{number}"
        self.keys.add(key)
        return key

    def input_requests(self) -> dict[str, InputRequest]:
        """Return the requests that wait for answers, as they are in the record."""
        revision = self.call.peer.revision
        return {
            key: InputRequest(
                method=revision.server_requests[request.operation].method, params=unknown.whole(request.params)
            )
            for key, (request, future) in self.requests.items()
            if not future.done()
        }

    def update(self, status: TaskStatus, message: str | None = None) -> None:
        """Change the status of the task and notify its client. A terminal status does not change any more."""
        if self.over:
            return
        self.record = msgspec.structs.replace(
            self.record,
            status=status,
            message=message or (self.record.message if status == self.status else None),
            updated=time.time(),
            input_requests=self.input_requests() if status == "input_required" else {},
        )
        self._changed(self)

    def say(self, message: str) -> None:
        """Change the status message of the task."""
        self.update(self.status, message)

    async def ask(self, requests: Iterable[tuple[str, ClientRequest]]) -> list[Any]:
        """Send requests, each with its preferred key, to the client of the task, and wait for the answers."""
        loop = asyncio.get_running_loop()
        asked = {self.new_key(wanted): (request, loop.create_future()) for wanted, request in requests}
        self.requests |= asked
        self.update("input_required")
        try:
            return list(await asyncio.gather(*(future for _, future in asked.values())))
        finally:
            for key in asked:
                self.requests.pop(key, None)
            if not self.requests:
                self.update("working")

    def take_answer(self, key: str, raw: bytes | Raw) -> InvalidParams | None:
        """Pass an answer to its request, if it is still open; return the error if it does not fit."""
        request, future = self.requests.get(key, (None, None))
        if request is None or future is None or future.done():
            return None
        refused: InvalidParams | None = None
        try:
            future.set_result(request.read(msgspec.json.decode(raw)))
        except ValueError as error:
            refused = invalid_answer(key, error)
            self._attempts[key] = self._attempts.get(key, 0) + 1
            if not request.again or self._attempts[key] >= MAX_ATTEMPTS:
                future.set_exception(refused)
        if future.done() and self.status == "input_required" and self.input_requests():
            self.update("input_required", self.record.message)
        return refused

    def encode(self, result: Any) -> bytes:
        """Encode the result of the task, for the revision of its client."""
        data = encode(self.call.connection.finish(self.call, result))
        return restored(data) if MARK in data else data


def is_heard(channel: Channel) -> bool:
    """Return whether a channel has a reader: over HTTP there may be no stream, or a client that accepts none."""
    if getattr(channel, "muted", False) or getattr(channel, "closed", False):
        return False
    return bool(getattr(channel, "listening", True))


class RemoteChannel:
    """Channel of a task whose client waits for the result on another replica, in ``slot``."""

    def __init__(self, replica: Replica, slot: int, task: str) -> None:
        self._replica = replica
        self._slot = slot
        self._task = task

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message to the replica, which passes it on."""
        self._replica.notify(self._slot, TaskMessageLetter(self._task, message))

    async def drain(self) -> None:
        """Wait until the message is in the mailbox of the replica."""
        await self._replica.written()

    def pause(self, retry: int | None = None) -> None:
        """Do nothing: the stream belongs to the other replica."""
