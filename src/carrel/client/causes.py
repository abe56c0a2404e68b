"""Causes: finds the call that caused a server request, a notification or a log message.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#associating-task-related-messages
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, TypeAlias

from carrel.client.handlers import ClientCall
from carrel.client.pending_request import Waiter
from carrel.protocol.client import RELATED_TASK, ClientProtocol, Response
from carrel.protocol.methods import FETCH_TASK_RESULT
from carrel.wire.base import Id
from carrel.wire.tasks import CreateTaskResult

__all__ = ["NO_CAUSE", "Cause", "Causes", "task_of"]

Cause: TypeAlias = tuple[ClientCall[Any] | None, tuple[ClientCall[Any], ...]]
"""Call that caused a message (None if unknown), and the calls that may have caused it."""

NO_CAUSE: Cause = (None, ())
#: Maximum number of tasks whose calls are remembered.
MAX_TASKS = 10_000


class Causes:
    """Calls of one connection that cause server messages. ``streams``: its transport has one stream per call."""

    def __init__(self, connection: ClientProtocol[Waiter], *, streams: bool) -> None:
        self._connection = connection
        self._streams = streams
        self.task_calls: dict[str, ClientCall[Any]] = {}
        """Calls that have become tasks, by task id."""

    def note(self, event: Response[Any]) -> None:
        """Remember the call that has become a task (2025-11-25) until the task ends, as the cause of its requests."""
        call = event.waiting.owner.call
        if call is None:
            return
        if type(event.result) is CreateTaskResult:
            if len(self.task_calls) >= MAX_TASKS:
                del self.task_calls[next(iter(self.task_calls))]
            self.task_calls[event.result.task.task_id] = call
        elif event.waiting.request is FETCH_TASK_RESULT:
            self.task_calls.pop(getattr(call.params, "task_id", ""), None)

    def of(self, about: Id | None, params: object) -> Cause:
        """Return the cause of a message. ``about`` is the request on whose stream the message arrived, if any.

        A message of a task names the task; its cause is the call that became the task. On a transport without streams,
        a message without a task is attributed to the only call in flight that is not a task.
        """
        task = task_of(params)
        if task is not None:
            about_task = (each for each in self._calls() if getattr(each.params, "task_id", None) == task)
            cause = self.task_calls.get(task) or next(about_task, None)
            return cause, () if cause is None else (cause,)
        waiting = None if about is None else self._connection.waiting.get(about)
        if waiting is not None and waiting.owner.call is not None:
            return waiting.owner.call, (waiting.owner.call,)
        calls = tuple(call for call in self._calls() if not is_of_task(call))
        return calls[0] if len(calls) == 1 and not self._streams else None, calls

    async def of_new_task(self, params: object) -> Cause:
        """Return the cause of a task's server request, which may arrive before the response with the task.

        Over HTTP, the request and the response are on different streams.
        """
        while (cause := self.of(None, params)) == NO_CAUSE and task_of(params) is not None:
            starting = [each.owner.future for each in self._connection.waiting.values() if is_start(each.owner.call)]
            if not starting:
                break
            await asyncio.wait(starting, return_when=asyncio.FIRST_COMPLETED)
        return cause

    def _calls(self) -> Iterator[ClientCall[Any]]:
        """Iterate over the calls in flight."""
        return (each.owner.call for each in self._connection.waiting.values() if each.owner.call is not None)


def task_of(params: object) -> str | None:
    """Return the id of the task that a message of the server belongs to."""
    meta = getattr(params, "meta", None)
    related = meta.get(RELATED_TASK) if isinstance(meta, dict) else None
    return related.get("taskId") if isinstance(related, dict) else None


def is_start(call: ClientCall[Any] | None) -> bool:
    """Return whether a call requests a task."""
    return call is not None and getattr(call.params, "task", None) is not None


def is_of_task(call: ClientCall[Any]) -> bool:
    """Return whether a call requests a task, or refers to one. Messages that it causes name the task."""
    return is_start(call) or hasattr(call.params, "task_id")
