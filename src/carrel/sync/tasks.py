"""Tasks of a synchronous client: tool calls that outlive their response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Unpack

from carrel.client import tasks as asynchronous
from carrel.sync.handlers import AnyHandlers, async_handlers
from carrel.sync.loop import iterate, run, waiting
from carrel.sync.options import CallOptions, async_call_options
from carrel.sync.paged_list import PagedList
from carrel.wire.tasks import TaskStatus

__all__ = ["Tasks", "ToolTask"]


class ToolTask:
    """Handle of a task: ``carrel.client.tasks.ToolTask`` without ``await``. Iterate over it to follow its status."""

    def __init__(self, task: asynchronous.ToolTask) -> None:
        self._task = task

    @property
    def id(self) -> str | None:
        """The id of the task; None if the server answered the call at once."""
        return self._task.id

    @property
    def status(self) -> TaskStatus:
        """The last status that is known."""
        return self._task.status

    @property
    def message(self) -> str | None:
        """The server's message about the status."""
        return self._task.message

    def __iter__(self) -> Iterator[TaskStatus]:
        return iterate(lambda: aiter(self._task))

    poll = waiting("_task", asynchronous.ToolTask.poll)
    refresh = waiting("_task", asynchronous.ToolTask.refresh)
    result = waiting("_task", asynchronous.ToolTask.result)
    cancel = waiting("_task", asynchronous.ToolTask.cancel)


class Tasks:
    """Tasks of one server: ``client.tasks`` without ``await``."""

    def __init__(self, tasks: asynchronous.Tasks) -> None:
        self._tasks = tasks

    def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: float | None = None,
        required: bool = False,
        **options: Unpack[CallOptions],
    ) -> ToolTask:
        """Call a tool as a task, and return its handle. See ``Tasks.start_tool``."""
        work = self._tasks.start_tool(name, arguments, ttl=ttl, required=required, **async_call_options(options))
        return ToolTask(run(work))

    def get_task(self, id: str, *, handlers: AnyHandlers | None = None, user_data: object = None) -> ToolTask:
        """Return the handle of a task of this server. See ``Tasks.get_task``."""
        return ToolTask(run(self._tasks.get_task(id, handlers=async_handlers(handlers), user_data=user_data)))

    def list_tasks(self) -> PagedList[ToolTask]:
        """List the tasks. See ``Tasks.list_tasks``."""

        async def items() -> AsyncIterator[ToolTask]:
            async for task in self._tasks.list_tasks():
                yield ToolTask(task)

        return PagedList(items)
