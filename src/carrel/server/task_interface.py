"""Interface of the tasks of a server to its other parts; ``carrel.server.tasks`` implements it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from carrel.catalog.task_channel import ChannelTask

if TYPE_CHECKING:
    import asyncio

    from carrel.protocol.channel import Channel
    from carrel.protocol.server import ServerProtocol
    from carrel.server.elicitation.client_requests import ClientRequest
    from carrel.wire.tasks import TaskStatus

__all__ = ["RunningTask", "TaskInputRequest"]


class TaskInputRequest(Protocol):
    """Request to the client of a task, which waits for its answer."""

    answer: asyncio.Future[Any]

    def send(self, connection: ServerProtocol, channel: Channel) -> None:
        """Send the request to a client."""


class RunningTask(ChannelTask, Protocol):
    """Task in the process that runs it."""

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

    def say(self, message: str) -> None:
        """Change the status message of the task."""

    async def ask(self, requests: Iterable[tuple[str, ClientRequest]]) -> list[Any]:
        """Send requests, each with its preferred key, to the client of the task, and wait for the answers."""

    def deliver(self, request: TaskInputRequest) -> None:
        """Send a request, or keep it until the client fetches the result (2025-11-25)."""

    def keep(self, connection: ServerProtocol, request: TaskInputRequest) -> None:
        """Keep a request whose client is gone for the next client that fetches the result."""
