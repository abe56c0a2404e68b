"""Tool calls that become tasks, at once or when the tool says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal

from carrel.catalog.task_channel import TaskChannel
from carrel.errors import MethodNotFound
from carrel.protocol.extensions.tasks import TASKS
from carrel.server.tasks.access import require_extension
from carrel.server.tasks.run import TaskRun
from carrel.server.tasks.tasks import Tasks
from carrel.wire.base import Result

if TYPE_CHECKING:
    from carrel.awaitables import MaybeAwaitable
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call

__all__ = ["call_as_task"]


def call_as_task(
    tasks: Tasks,
    call: Call,
    channel: Channel,
    name: str,
    support: Literal["forbidden", "optional", "required"],
    work: Callable[[Channel], Coroutine[Any, Any, Result]],
    *,
    detaches: bool,
) -> MaybeAwaitable[Result] | None:
    """Call a tool as a task, and return the ``CreateTaskResult``, or an awaitable of it.

    ``work`` is the call, with the channel of its messages; ``support`` and ``detaches`` are options of the tool.
    Returns None if the tool must be called directly.

    Raises:
        MethodNotFound: the client requested a task from a tool without tasks, or requested none from a tool that
            requires one (2025-11-25).
        MissingCapability: the tool can only be a task, and the client did not declare the extension (2026-07-28).
    """
    revision = call.peer.revision
    if revision.stateless:
        if call.peer.settings(TASKS.name) is None:
            if support == "required":
                require_extension(call)
            return None
        if support == "forbidden":
            return None
        if detaches:
            return _call_detaching(tasks, work, call, channel)
    elif "task_status" not in revision.events:
        return None
    elif call.params.task is None:
        if support == "required":
            raise MethodNotFound(f"Method not found: {name} has to be called as a task")
        return None
    elif support == "forbidden":
        raise MethodNotFound(f"Method not found: {name} cannot be called as a task")
    run = tasks.create(call)
    return tasks.begin(run, work(TaskChannel(run)))


async def _call_detaching(
    tasks: Tasks, work: Callable[[Channel], Coroutine[Any, Any, Result]], call: Call, channel: Channel
) -> Result:
    """Call a tool that becomes a task when it calls ``Context.detach``; until then it is an ordinary call."""
    detached: asyncio.Future[TaskRun] = asyncio.get_running_loop().create_future()

    def create() -> TaskRun:
        run = tasks.create(call)
        detached.set_result(run)
        return run

    task_channel = TaskChannel(None, channel, create)
    working = asyncio.ensure_future(work(task_channel))
    try:
        await asyncio.wait((working, detached), return_when=asyncio.FIRST_COMPLETED)
        if detached.done():
            stored = tasks.begin(detached.result(), working)
            return stored if isinstance(stored, Result) else await stored
        return await working
    finally:
        task_channel.keep()
        if not detached.done():
            working.cancel()
