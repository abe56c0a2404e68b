"""The channel of a call that may become a task."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.catalog.task_channel import TaskChannel, task_of


class Recording:
    """Channel that notes what it is asked to do."""

    def __init__(self, muted: bool | None = None) -> None:
        self.done: list[Any] = []
        if muted is not None:
            self.muted = muted

    def send(self, message: bytes, key: Any = None) -> None:
        self.done.append((message, key))

    async def drain(self) -> None:
        self.done.append("drain")

    def pause(self, retry: int | None = None) -> None:
        self.done.append(("pause", retry))


class Task:
    def __init__(self, channel: Recording | None) -> None:
        self.channel = channel


async def use(channel: TaskChannel) -> None:
    channel.send(b"message", "key")
    await channel.drain()
    channel.pause(5)


USED = [(b"message", "key"), "drain", ("pause", 5)]


async def test_messages_go_to_the_channel_of_the_call_and_then_to_that_of_the_task() -> None:
    own, later = Recording(), Recording()
    task = Task(later)
    made: list[Task] = []
    channel = TaskChannel(None, own, lambda: made.append(task) or task)  # type: ignore[func-returns-value]
    await use(channel)
    assert task_of(channel) is None
    channel.detach()
    channel.detach()
    assert made == [task]
    assert task_of(channel) is task
    await use(channel)
    assert own.done == USED
    assert later.done == USED[:2], "the response with the task was the end of the call's own stream"


async def test_a_call_that_was_answered_does_not_become_a_task() -> None:
    channel = TaskChannel(None, Recording(), lambda: pytest.fail("it became a task"))
    channel.keep()
    channel.detach()
    assert task_of(channel) is None


async def test_messages_of_a_task_that_nobody_hears_are_dropped() -> None:
    task = Task(None)
    channel = TaskChannel(task)
    await use(channel)
    assert channel.current is None
    task.channel = Recording()
    await use(channel)
    assert task.channel.done == USED[:2]


@pytest.mark.parametrize("muted", [True, False, None])
def test_a_call_is_muted_as_its_channel_is_and_a_task_is_not(muted: bool | None) -> None:
    assert TaskChannel(None, Recording(muted)).muted is bool(muted)
    assert not TaskChannel(Task(None), Recording(muted)).muted


def test_other_channels_have_no_task() -> None:
    assert task_of(Recording()) is None
