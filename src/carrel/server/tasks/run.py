"""Task that runs in this process: its asyncio task, its open questions, and where its messages go."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from carrel.protocol.encoding import encode
from carrel.state.records import TaskMessageLetter, TaskRecord
from carrel.state.replica import Replica
from carrel.wire.client_features import InputRequest
from carrel.wire.tasks import TaskStatus

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call, Connection
    from carrel.server.elicitation.input_required import Pending
    from carrel.server.elicitation.questions import Question

__all__ = ["RemoteChannel", "TaskChannel", "TaskRun"]


class TaskRun:
    """One task in the process that runs it. ``record`` is what other replicas know of it."""

    def __init__(self, call: Call, record: TaskRecord) -> None:
        self.call = call
        self.record = record
        self.questions: dict[str, tuple[Question, asyncio.Future[Any]]] = {}
        self.keys: set[str] = set()
        """Keys of questions that were ever asked: a key belongs to one question for the life of the task."""
        self.work: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.connection: Connection = call.connection
        self.channel: Channel | None = call.connection.channel
        """Channel for messages of the task: the client's newest tasks/result request, or else its session."""
        self.unsent: list[Pending] = []
        """Questions that wait for a client with an open stream."""
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

    def deliver(self, question: Pending) -> None:
        """Send a question, or keep it until the client fetches the result (2025-11-25)."""
        if self.channel is not None and is_heard(self.channel):
            question.send(self.connection, self.channel)
        else:
            self.unsent.append(question)

    def lose(self, connection: Connection, question: Pending) -> None:
        """Keep a question whose client is gone for the next client that fetches the result."""
        if self.connection is connection:
            self.channel = None
        self.deliver(question)

    def hear(self, connection: Connection, channel: Channel | None) -> None:
        """Send messages of the task to ``channel`` from now on, and the waiting questions at once."""
        self.connection, self.channel = connection, channel
        questions, self.unsent = self.unsent, []
        for question in questions:
            if not question.answer.done():
                self.deliver(question)

    def new_key(self, wanted: str) -> str:
        """Return ``wanted``, or with a number behind it where the task has used that key before, and record it."""
        key, number = wanted, 1
        while key in self.keys:
            number += 1
            key = f"{wanted}-{number}"
        self.keys.add(key)
        return key

    def open_questions(self) -> dict[str, InputRequest]:
        """Return the questions that wait for answers, as they are in the record."""
        revision = self.call.peer.revision
        return {
            key: InputRequest(method=revision.questions[question.operation].method, params=question.params)
            for key, (question, future) in self.questions.items()
            if not future.done()
        }

    def encode(self, result: Any) -> bytes:
        """Encode the result of the task, for the revision of its client."""
        return encode(self.call.connection.finish(self.call, result))


def is_heard(channel: Channel) -> bool:
    """Return whether a channel has a reader: over HTTP there may be no stream, or a client that accepts none."""
    if getattr(channel, "muted", False) or getattr(channel, "closed", False):
        return False
    return bool(getattr(channel, "listening", True))


class TaskChannel:
    """Channel of a call that has become a task: its response was sent, so messages go to the task's channel."""

    def __init__(self, run: TaskRun) -> None:
        self._run = run

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message on the channel of the task, if there is one."""
        if self._run.channel is not None:
            self._run.channel.send(message, key)

    async def drain(self) -> None:
        """Wait for a slow reader."""
        if self._run.channel is not None:
            await self._run.channel.drain()

    def pause(self, retry: int | None = None) -> None:
        """Do nothing: the call has been answered."""


class RemoteChannel:
    """Channel of a task whose client waits for the result on another replica, in ``slot``."""

    def __init__(self, replica: Replica, slot: int, task: str) -> None:
        self._replica = replica
        self._slot = slot
        self._task = task

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message to the replica, which passes it on."""
        self._replica.tell(self._slot, TaskMessageLetter(self._task, message))

    async def drain(self) -> None:
        """Wait until the message is in the mailbox of the replica."""
        await self._replica.written()

    def pause(self, retry: int | None = None) -> None:
        """Do nothing: the stream belongs to the other replica."""
