"""Tasks of a server: requests about them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from carrel.catalog.paging import read_cursor, write_cursor
from carrel.catalog.task_channel import TaskChannel
from carrel.errors import (
    InvalidCursor,
    InvalidParams,
    MethodNotFound,
    ProtocolError,
)
from carrel.protocol.extensions.tasks import TASKS
from carrel.server.tasks.access import is_permitted, may_see, owner_of, require_extension
from carrel.server.tasks.formats import as_task, detailed, with_meta
from carrel.server.tasks.remote import RemoteTasks
from carrel.server.tasks.run import TaskRun
from carrel.server.tasks.runs import CANCELLED, TaskRuns, TaskServer
from carrel.state.records import CancelTaskLetter, TaskAnswerLetter, TaskChanged, TaskRecord
from carrel.wire.base import Result
from carrel.wire.jsonrpc import ErrorObject
from carrel.wire.tasks import ListTasksResult

if TYPE_CHECKING:
    from carrel.awaitables import MaybeAwaitable
    from carrel.catalog.request import TaskSupport
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call

__all__ = ["ServerTasks"]

RELATED = "io.modelcontextprotocol/related-task"


class TaskFailed(ProtocolError):
    """Error with which the request of a task ended."""

    def __init__(self, error: ErrorObject) -> None:
        super().__init__(error.message, None if error.data is UNSET else error.data)
        self.code = error.code


class ServerTasks(TaskRuns):
    """Tasks of a server, with the handlers of the requests about them. ``app.tasks`` is one."""

    def __init__(self, app: TaskServer) -> None:
        app.extend(
            TASKS,
            {
                "cancel_task": self.cancel,
                "fetch_task_result": self.fetch,
                "get_task": self.get,
                "list_tasks": self.page,
                "update_task": self.answer,
            },
        )
        super().__init__(app)
        self._remote = RemoteTasks(app.replica, self._runs, app.hub)
        app.replica.on(CancelTaskLetter, self._on_cancel)
        app.replica.on(TaskAnswerLetter, self._on_answer)

    def call_tool(
        self,
        call: Call,
        channel: Channel,
        support: TaskSupport,
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
                return self._call_detaching(work, call, channel)
        elif "task_status" not in revision.events:
            return None
        elif call.params.task is None:
            if support == "required":
                raise MethodNotFound(f"Method not found: {call.params.name} has to be called as a task")
            return None
        elif support == "forbidden":
            raise MethodNotFound(f"Method not found: {call.params.name} cannot be called as a task")
        run = self.create(call)
        return self.begin(run, work(TaskChannel(run)))

    async def _call_detaching(
        self, work: Callable[[Channel], Coroutine[Any, Any, Result]], call: Call, channel: Channel
    ) -> Result:
        """Call a tool that becomes a task when it calls ``Context.detach``; until then it is an ordinary call."""
        detached: asyncio.Future[TaskRun] = asyncio.get_running_loop().create_future()

        def create() -> TaskRun:
            run = self.create(call)
            detached.set_result(run)
            return run

        task_channel = TaskChannel(None, channel, create)
        working = asyncio.ensure_future(work(task_channel))
        try:
            await asyncio.wait((working, detached), return_when=asyncio.FIRST_COMPLETED)
            if detached.done():
                stored = self.begin(detached.result(), working)
                return stored if isinstance(stored, Result) else await stored
            return await working
        finally:
            task_channel.keep()
            if not detached.done():
                working.cancel()

    async def _find(self, call: Call) -> TaskRecord:
        """Return the task that a call names.

        Raises:
            InvalidParams: there is no such task, or it belongs to another caller.
        """
        await self._replica.written()
        record = await self._store.get(call.params.task_id)
        if record is not None and may_see(call, record, self._replica.state.slot):
            record = await self._remote.checked(record)
            if record is not None:
                return record
        raise InvalidParams("Invalid params: taskId: task not found, or expired", parameter="taskId")

    def get(self, call: Call, channel: Channel) -> Any:
        """Answer tasks/get."""
        return self._replica.run(self._get(call))

    async def _get(self, call: Call) -> Result:
        record = await self._find(call)
        return detailed(record) if call.peer.revision.stateless else as_task(record)

    async def fetch(self, call: Call, channel: Channel) -> bytes:
        """Answer tasks/result: wait for the end of the task, and return the result of its request."""
        record = await self._find(call)
        run = self._runs.get(record.id)
        if run is not None:
            previous = run.connection, run.channel
            run.hear(call.connection, channel)
            try:
                await asyncio.shield(run.ended)
            finally:
                if run.channel is channel:
                    run.hear(*previous)
            await self._replica.written()
            record = await self._store.get(record.id) or run.record
        elif not record.over:
            record = await self._remote.wait(record, channel)
        related = {RELATED: {"taskId": record.id}}
        if record.error is not None:
            raise TaskFailed(record.error)
        if record.result is None:
            raise InvalidParams("The task was cancelled, and has no result", {"_meta": related})
        return with_meta(record.result, related)

    def page(self, call: Call, channel: Channel) -> Any:
        """Answer tasks/list: the tasks of this principal or, without a principal, of this session."""
        return self._replica.run(self._page(call))

    async def _page(self, call: Call) -> Result:
        cursor, size = call.params.cursor, self._app.settings.page_size
        _, position = ("", "0") if cursor is None else read_cursor(call.request.operation, cursor)
        if position is None or not (position.isascii() and position.isdecimal()) or len(position) > 18:
            raise InvalidCursor
        await self._replica.written()
        found = await self._store.list(owner_of(call, self._replica.state.slot), int(position), size + 1)
        more = len(found) > size
        next_cursor = write_cursor(call.request.operation, "", str(found[size - 1][0])) if more else None
        tasks = [as_task(record) for _, record in found[:size] if is_permitted(call, record)]
        return ListTasksResult(tasks=tasks, next_cursor=next_cursor)

    def cancel(self, call: Call, channel: Channel) -> Any:
        """Answer tasks/cancel."""
        return self._replica.run(self._cancel_found(call))

    async def _cancel_found(self, call: Call) -> Result:
        record = await self._find(call)
        if not record.over:
            cancelled = msgspec.structs.replace(
                record, status="cancelled", message=CANCELLED, updated=time.time(), input_requests={}
            )
            run = self._runs.get(record.id)
            if run is not None and not run.over:
                self._cancel(run)
                await self._replica.written()
                record = run.record
            elif await self._store.save(cancelled):
                record = cancelled
                self._replica.notify(record.slot, CancelTaskLetter(record.id))
                self._replica.publish(TaskChanged(record.id))
            else:
                record = await self._find(call)
        elif not call.peer.revision.stateless:
            raise InvalidParams(f"Invalid params: the task is {record.status} already", parameter="taskId")
        return Result() if call.peer.revision.stateless else as_task(record)

    def _on_cancel(self, letter: CancelTaskLetter) -> None:
        run = self._runs.get(letter.task)
        if run is not None:
            self._cancel(run)

    def answer(self, call: Call, channel: Channel) -> Any:
        """Answer tasks/update: pass answers to the task's open requests. Other answers are ignored.

        Raises:
            InvalidParams: an answer does not fit its request. The others are taken.
        """
        return self._replica.run(self._answer(call))

    async def _answer(self, call: Call) -> Result:
        record = await self._find(call)
        try:
            given = msgspec.json.decode(call.params.input_responses, type=dict[str, Raw])
        except msgspec.ValidationError as error:
            raise InvalidParams(f"Invalid params: inputResponses: {error}", parameter="inputResponses") from None
        run = self._runs.get(record.id)
        refused: InvalidParams | None = None
        for key, raw in given.items():
            if run is not None:
                refused = run.take_answer(key, raw) or refused
            elif key in record.input_requests:
                self._replica.notify(record.slot, TaskAnswerLetter(record.id, key, bytes(raw)))
        await self._replica.written()
        if refused is not None:
            raise refused
        return Result()

    def _on_answer(self, letter: TaskAnswerLetter) -> None:
        run = self._runs.get(letter.task)
        if run is not None:
            run.take_answer(letter.key, letter.answer)

    def honored(self, call: Call, ids: Iterable[str]) -> Any:
        """Return the ``ids`` of tasks that the caller may subscribe to, or an awaitable of them.

        Raises:
            MissingCapability: the client did not declare the extension.
        """
        require_extension(call)
        return self._replica.run(self._honored(call, list(ids)))

    async def _honored(self, call: Call, ids: list[str]) -> list[str]:
        await self._replica.written()
        records = [await self._store.get(id) for id in ids]
        return [
            record.id for record in records if record is not None and may_see(call, record, self._replica.state.slot)
        ]
