"""TaskChannel: the channel of a call that is a task, or may become one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel

__all__ = ["ChannelTask", "TaskChannel", "task_of"]


class ChannelTask(Protocol):
    """Task, as far as its channel needs it."""

    channel: Channel | None
    """Channel for messages of the task, if there is one at present."""


class TaskChannel:
    """Channel of a call that is a task, or becomes one by ``detach``. A task's messages go to the channel of the task.

    Until ``detach`` has called ``create``, messages go to ``channel``, the channel of the call.
    """

    def __init__(
        self,
        task: ChannelTask | None,
        channel: Channel | None = None,
        create: Callable[[], ChannelTask] | None = None,
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


def task_of(channel: Channel) -> ChannelTask | None:
    """Return the task that the call of a channel has become."""
    return channel.task if type(channel) is TaskChannel else None
