"""Tasks: tool calls that continue on their server. The host follows them, whether or not a page is open.

https://modelcontextprotocol.io/extensions/tasks/overview
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from carrel.client.tasks import TERMINAL, ToolTask
from carrel.errors import MCPError, TaskCancelled
from carrel.host.host import Host
from carrel.log import Log
from carrel.printable import printable
from carrel.studio.api import TaskView
from carrel.studio.events import PageEvents
from carrel.studio.problems import NotFound, Refused, problem_of
from carrel.studio.questions import Questions
from carrel.wire.tools import CallToolResult

__all__ = ["FollowedTasks"]

log = Log("carrel.studio")

#: Number of tasks that may run, and of ended ones that are kept.
MAX_RUNNING, KEPT = 200, 50


class FollowedTask:
    """Task that the page has started. ``view`` is its state."""

    def __init__(self, view: TaskView) -> None:
        self.view = view
        self.handle: ToolTask | None = None
        self.result: CallToolResult | None = None
        self.following: asyncio.Task[None] | None = None


class FollowedTasks:
    """Tasks that the page has started, the last one first."""

    def __init__(self, host: Host, questions: Questions, events: PageEvents) -> None:
        self._host = host
        self._questions = questions
        self._events = events
        self._all: dict[str, FollowedTask] = {}

    @property
    def all(self) -> tuple[TaskView, ...]:
        """The tasks, the last one first."""
        return tuple(each.view for each in reversed(self._all.values()))

    async def start(self, server: str, name: str, arguments: Mapping[str, Any]) -> TaskView:
        """Call a tool as a task, and follow the task. If the server answers at once, the task has ended.

        Raises:
            MCPError: the server returns an error, or is not available.
            Refused: too many tasks are running.
        """
        if sum(each.view.status not in TERMINAL for each in self._all.values()) >= MAX_RUNNING:
            raise Refused(429, "Too many tasks are running")
        task = FollowedTask(
            TaskView(
                id=secrets.token_urlsafe(12),
                server=server,
                tool=name,
                arguments=dict(arguments),
                status="working",
                message=None,
                created=_now(),
                updated=_now(),
                error=None,
            )
        )
        hosted = await self._host.connect(server)
        handlers = self._questions.handlers(server)
        task.handle = await hosted.client.tasks.start_tool(name, arguments, handlers=handlers)
        self._all[task.view.id] = task
        ended = [id for id, each in self._all.items() if each.view.status in TERMINAL]
        for id in ended[:-KEPT]:
            del self._all[id]
        self._publish(task)
        task.following = asyncio.ensure_future(self._follow(task, task.handle))
        if task.handle.id is None:
            await task.following
        return task.view

    def result(self, id: str) -> CallToolResult:
        """Return the result of a completed task.

        Raises:
            NotFound: there is no such task, or it has no result.
        """
        result = self._find(id).result
        if result is None:
            raise NotFound("The task has no result")
        return result

    async def cancel(self, id: str) -> None:
        """Request cancellation of a task. It may still complete or fail. Forget a task that has ended.

        Raises:
            MCPError: the server returns an error, or is not available.
            NotFound: there is no such task.
        """
        task = self._find(id)
        if task.view.status in TERMINAL:
            del self._all[id]
            self._events.put(type="taskGone", id=id)
        elif task.handle is not None:
            await task.handle.cancel()

    async def close(self) -> None:
        """Stop following tasks, which cancels them."""
        following = [each.following for each in self._all.values() if each.following is not None]
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)

    def _find(self, id: str) -> FollowedTask:
        found = self._all.get(id)
        if found is None:
            raise NotFound("There is no such task")
        return found

    async def _follow(self, task: FollowedTask, handle: ToolTask) -> None:
        """Wait for the result of a task, which answers its input requests, and report its states meanwhile."""
        listening = asyncio.ensure_future(handle.listen())
        ending = asyncio.ensure_future(handle.result())
        try:
            self._note(task, handle)
            while not ending.done():
                await asyncio.wait((ending,), timeout=handle.interval)
                await self._poll(task, handle)
            task.result = ending.result()
            self._set(task, status="completed")
        except TaskCancelled:
            self._set(task, status="cancelled")
        except Exception as error:
            if handle.status == "cancelled":
                self._set(task, status="cancelled")
            else:
                self._set(task, status="failed", error=problem_of(error))
        finally:
            listening.cancel()
            ending.cancel()
            await asyncio.gather(listening, ending, return_exceptions=True)

    async def _poll(self, task: FollowedTask, handle: ToolTask) -> None:
        try:
            await handle.poll()
        except MCPError as error:
            log.debug("the status of a task of %s is not known: %s", task.view.server, error)
        self._note(task, handle)

    def _note(self, task: FollowedTask, handle: ToolTask) -> None:
        """Report the status of a running task, if it is another."""
        message = None if handle.message is None else printable(handle.message)
        status = task.view.status if handle.status in TERMINAL else handle.status
        if (status, message) != (task.view.status, task.view.message):
            self._set(task, status=status, message=message)

    def _set(self, task: FollowedTask, **values: Any) -> None:
        task.view = msgspec.structs.replace(task.view, updated=_now(), **values)
        if task.view.id in self._all:
            self._publish(task)

    def _publish(self, task: FollowedTask) -> None:
        self._events.put(type="task", task=task.view)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
