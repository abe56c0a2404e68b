"""Interface of the tasks of a server to its other parts; ``carrel.server.tasks`` implements it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call, Connection
    from carrel.server.elicitation.client_requests import ClientRequest
    from carrel.wire.tasks import TaskStatus

__all__ = ["RunningTask", "TaskChannel", "TaskRequest", "Tasks", "task_of"]


class TaskRequest(Protocol):
    """Request to the client of a task, which waits for its answer."""

    answer: asyncio.Future[Any]

    def send(self, connection: Connection, channel: Channel) -> None:
        """Send the request to a client."""


class RunningTask(Protocol):
    """Task in the process that runs it."""

    channel: Channel | None
    """Channel for messages of the task, if there is one at present."""

    @property
    def id(self) -> str:
        """Id of the task."""

    @property
    def status(self) -> TaskStatus:
        """Status of the task."""

    @property
    def over(self) -> bool:
        """Whether the status of the task is terminal."""

    def update(self, status: TaskStatus, message: str | None = None) -> None:
        """Change the status of the task and notify its client."""

    async def ask(self, requests: Iterable[tuple[str, ClientRequest]]) -> list[Any]:
        """Put requests, each with its preferred key, to the client of the task, and wait for the answers."""

    def deliver(self, request: TaskRequest) -> None:
        """Send a request, or keep it until the client fetches the result (2025-11-25)."""

    def keep(self, connection: Connection, request: TaskRequest) -> None:
        """Keep a request whose client is gone for the next client that fetches the result."""


class Tasks(Protocol):
    """Tasks of a server."""

    def honored(self, call: Call, ids: list[str]) -> list[str] | Awaitable[list[str]]:
        """Return the ids of tasks that a client may listen to."""

    async def stop(self) -> None:
        """Cancel all tasks."""


class TaskChannel:
    """Channel of a call that is a task, or becomes one by ``detach``. A task's messages go to the channel of the task.

    Until ``detach`` has called ``create``, messages go to ``channel``, the channel of the call.
    """

    def __init__(
        self,
        task: RunningTask | None,
        channel: Channel | None = None,
        create: Callable[[], RunningTask] | None = None,
    ) -> None:
        self.task = task
        self._channel = channel
        self._create = create

    def detach(self) -> None:
        """Turn the call into a task, if it may become one; a no-op if it is one already."""
        if self.task is None and self._create is not None:
            self.task = self._create()

    def keep(self) -> None:
        """Rule out that the call still becomes a task: it has been answered."""
        self._create = None

    @property
    def current(self) -> Channel | None:
        """The channel that messages go to at present, if there is one."""
        return self._channel if self.task is None else self.task.channel

    @property
    def muted(self) -> bool:
        """Whether the call, which is no task yet, has a channel without a reader."""
        return self.task is None and bool(getattr(self._channel, "muted", False))

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message on the present channel, if there is one."""
        channel = self.current
        if channel is not None:
            channel.send(message, key)

    async def drain(self) -> None:
        """Wait for a slow reader."""
        channel = self.current
        if channel is not None:
            await channel.drain()

    def pause(self, retry: int | None = None) -> None:
        """Have the client reconnect, unless the call has been answered with a task."""
        if self.task is None and self._channel is not None:
            self._channel.pause(retry)


def task_of(channel: Channel) -> RunningTask | None:
    """Return the task that the call of a channel has become."""
    return channel.task if type(channel) is TaskChannel else None
