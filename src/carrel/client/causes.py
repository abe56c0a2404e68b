"""Causes: which call a request, a notification or a log message of a server belongs to.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#associating-task-related-messages
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from carrel.client.handlers import ClientCall
from carrel.protocol.client import RELATED_TASK, Connection, Question, Response
from carrel.protocol.methods import FETCH_TASK_RESULT
from carrel.wire.base import Id
from carrel.wire.tasks import CreateTaskResult

__all__ = ["Cause", "Causes"]

Cause: TypeAlias = tuple[ClientCall[Any] | None, tuple[ClientCall[Any], ...]]
"""Call that has caused a message, None if it is not known, and those that may have."""

#: Of how many tasks it is remembered which call has become them.
MAX_TASKS = 10_000


class Causes:
    """Calls of one connection that messages of the server belong to. ``streams``: its transport has one per call."""

    def __init__(self, connection: Connection[Any], *, streams: bool) -> None:
        self._connection = connection
        self._streams = streams
        self.task_calls: dict[str, ClientCall[Any]] = {}
        """Calls that have become tasks, by the id of the task."""

    def note(self, event: Response[Any]) -> None:
        """Remember the call that has become a task of 2025-11-25, for the requests of the task, until it ends."""
        call = event.waiting.owner.call
        if call is None:
            return
        if type(event.result) is CreateTaskResult:
            if len(self.task_calls) >= MAX_TASKS:
                del self.task_calls[next(iter(self.task_calls))]
            self.task_calls[event.result.task.task_id] = call
        elif event.waiting.request is FETCH_TASK_RESULT:
            self.task_calls.pop(getattr(call.params, "task_id", ""), None)

    def of(self, about: Id | None, question: Question | None = None) -> Cause:
        """Return the cause of a message that arrived on the stream of the request ``about``, if on that of one.

        A request of a task names it; the cause is then the call that has become the task. On a transport without
        streams, the only call in flight is taken to be the cause.
        """
        task = None if question is None else task_of(question)
        if task is not None:
            about_task = (each for each in self._calls() if getattr(each.params, "task_id", None) == task)
            cause = self.task_calls.get(task) or next(about_task, None)
            return cause, () if cause is None else (cause,)
        waiting = None if about is None else self._connection.waiting.get(about)
        if waiting is not None and waiting.owner.call is not None:
            return waiting.owner.call, (waiting.owner.call,)
        calls = tuple(self._calls())
        return calls[0] if len(calls) == 1 and not self._streams else None, calls

    def _calls(self) -> Iterator[ClientCall[Any]]:
        """Iterate over the calls in flight."""
        return (each.owner.call for each in self._connection.waiting.values() if each.owner.call is not None)


def task_of(question: Question) -> str | None:
    """Return the id of the task that a request of the server belongs to."""
    meta = getattr(question.params, "meta", None)
    related = meta.get(RELATED_TASK) if isinstance(meta, dict) else None
    return related.get("taskId") if isinstance(related, dict) else None
