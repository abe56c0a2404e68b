"""Tasks of a server: creation, status, questions, results and cancellation."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from functools import cached_property, partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET, Raw

from carrel.catalog.cursor import read_cursor, write_cursor
from carrel.errors import (
    InvalidCursor,
    InvalidParams,
    ProtocolError,
    ServerUnavailable,
)
from carrel.limits import NO_ROOM, Limits, Quota
from carrel.protocol.encoding import encode_event
from carrel.protocol.extensions.tasks import TASKS
from carrel.server.elicitation.input_required import misfit
from carrel.server.failures import is_interrupt, told
from carrel.server.tasks.access import may_see, owner_of, require_extension
from carrel.server.tasks.formats import as_task, detailed, first_text, with_meta
from carrel.server.tasks.remote import RemoteTasks
from carrel.server.tasks.run import TaskRun
from carrel.state.records import CancelTaskLetter, SessionMessage, TaskAnswerLetter, TaskChanged, TaskRecord
from carrel.state.replica import Replica
from carrel.transports.server.dispatcher import EAGER
from carrel.wire.base import Result
from carrel.wire.jsonrpc import ErrorObject
from carrel.wire.tasks import CreateTaskResult, ListTasksResult, TaskStatus

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.extension import Extension
    from carrel.protocol.server import Call
    from carrel.server.elicitation.questions import Question
    from carrel.server.subscriptions import Hub

__all__ = ["TaskServer", "Tasks"]

RELATED = "io.modelcontextprotocol/related-task"

#: Milliseconds: how long a task is kept if the client does not say, and at the longest.
DEFAULT_TTL = 60 * 60 * 1000
MAX_TTL = 24 * 60 * 60 * 1000
#: Bytes that one task takes besides its request and its result.
RECORD_BYTES = 4096
CANCELLED = "The task was cancelled by request."
STOPPED = "The task was cancelled because the server that ran it has stopped."


class TaskFailed(ProtocolError):
    """Error with which the request of a task ended."""

    def __init__(self, error: ErrorObject) -> None:
        super().__init__(error.message, None if error.data is UNSET else error.data)
        self.code = error.code


class TaskServer(Protocol):
    """Server that has tasks."""

    hub: Hub
    page_size: int

    @property
    def limits(self) -> Limits:
        """Limits of the server."""

    @property
    def replica(self) -> Replica:
        """Access to the state that the server shares with its replicas."""

    def extend(self, extension: Extension, operations: Mapping[str, Any]) -> None:
        """Register a protocol extension."""


class Tasks:
    """Tasks of a server. ``app.tasks`` is one."""

    def __init__(self, app: TaskServer) -> None:
        self._app = app
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
        self._replica = app.replica
        self._store = app.replica.state.tasks
        self._runs: dict[str, TaskRun] = {}
        self._finished: dict[str, dict[str, TaskRun]] = {}
        self._remote = RemoteTasks(app.replica, self._runs, app.hub)
        app.replica.on(CancelTaskLetter, self._on_cancel)
        app.replica.on(TaskAnswerLetter, self._on_answer)

    @cached_property
    def _places(self) -> Quota:
        """Quota of tasks, with the limits as they are when the first one is made."""
        return Quota(self._app.limits.max_tasks, self._app.limits.max_tasks_per_client)

    # Creation

    def create(self, call: Call) -> TaskRun:
        """Create a task for a call.

        If the client has as many tasks as it may, its oldest finished one is removed.

        Raises:
            InvalidParams: the time to live makes no sense.
            ServerUnavailable: there are too many tasks, or too much is kept for the client.
        """
        asked = call.params.task.ttl if getattr(call.params, "task", None) is not None else None
        if asked is not None and asked < 0:
            raise InvalidParams("Invalid params: task.ttl: must not be negative", parameter="task.ttl")
        now = time.time()
        record = TaskRecord(
            id=secrets.token_urlsafe(24),
            owner=owner_of(call, self._replica.state.slot),
            slot=self._replica.state.slot,
            created=now,
            updated=now,
            ttl_ms=DEFAULT_TTL if asked is None else min(asked, MAX_TTL),
        )
        run = TaskRun(call, record)
        self._take_place(call.connection.client)
        if not self._keep(run, RECORD_BYTES + len(bytes(call.raw))):
            self._places.give(call.connection.client)
            raise ServerUnavailable(NO_ROOM)
        call.task = run
        self._runs[run.id] = run
        self._replica.write(self._store.create(record))
        run.timer = asyncio.get_running_loop().call_later(record.ttl_ms / 1000, self._expire, run)
        return run

    def _take_place(self, client: str) -> None:
        if self._places.take(client):
            return
        finished = self._finished.get(client)
        if finished:
            self._remove(next(iter(finished.values())))
        if not self._places.take(client):
            own = self._places.used_by(client) >= self._places.share
            most = f"of this client: at most {self._places.share}" if own else f"at most {self._places.total}"
            raise ServerUnavailable(f"There are too many tasks {most}")

    @staticmethod
    def _keep(run: TaskRun, size: int) -> bool:
        """Count bytes of a task as kept for its client, and return whether there is room for them."""
        if not run.call.connection.take(size):
            return False
        run.size += size
        return True

    def _remove(self, run: TaskRun, *, record: bool = True) -> None:
        """Remove a task, and its ``record``; one that is removed already is no error."""
        if run.timer is None:
            return
        run.timer.cancel()
        run.timer = None
        if run.work is None or run.work.done():
            run.call.task = None  # so that all of it is freed now
        connection = run.call.connection
        self._runs.pop(run.id, None)
        if record:
            self._replica.write(self._store.remove(run.id))
        self._places.give(connection.client)
        connection.give(run.size)
        if connection.budget is not None:
            connection.budget.need(connection.client, run)
        finished = self._finished.get(connection.client)
        if finished is not None:
            finished.pop(run.id, None)
            if not finished:
                del self._finished[connection.client]

    def _rest(self, run: TaskRun) -> None:
        """Record that a task has ended: it is removed when its client needs room."""
        connection = run.call.connection
        self._finished.setdefault(connection.client, {})[run.id] = run
        if connection.budget is not None:
            connection.budget.spare(connection.client, run, partial(self._remove, run))

    def begin(self, run: TaskRun, work: Awaitable[Result]) -> Result | Coroutine[Any, Any, Result]:
        """Run ``work`` as a task, and return the result that announces the task to the client, once it is stored."""
        run.work = asyncio.ensure_future(self._follow(run, work))
        if isinstance(work, CoroutineType):
            run.work.add_done_callback(lambda _: work.close())  # it was cancelled before it began
        announced = self._replica.run(self._created(run))
        return self._begun(announced) if EAGER else announced

    @staticmethod
    async def _begun(announced: Result | Awaitable[Result]) -> Result:
        """Return the announcement of a task once its work has begun, as it has without eager tasks."""
        result = announced if isinstance(announced, Result) else await announced
        await asyncio.sleep(0)
        return result

    async def _created(self, run: TaskRun) -> Result:
        await self._replica.written()
        result: Result
        if run.call.peer.revision.stateless:
            result = detailed(run.record)
            result.result_type = "task"
        else:
            result = CreateTaskResult(task=as_task(run.record))
        return result

    async def _follow(self, run: TaskRun, work: Awaitable[Result]) -> None:
        call = run.call
        try:
            result = await work
            encoded = run.encode(result)
        except BaseException as error:
            if is_interrupt(error):
                raise
            if run.over:
                return  # it was cancelled
            described = call.connection.describe(told(call.request.method, error), call.peer.revision)
            self._end(run, "failed", described.message, error=described)
            return
        if run.timer is not None and not self._keep(run, len(encoded)):
            self._end(run, "failed", NO_ROOM, error=ErrorObject(ServerUnavailable.code, NO_ROOM))
            return
        failed = getattr(result, "is_error", False) is True and not call.peer.revision.stateless
        self._end(run, "failed" if failed else "completed", first_text(result) if failed else None, result=encoded)

    def _end(
        self,
        run: TaskRun,
        status: TaskStatus,
        message: str | None = None,
        *,
        result: bytes | None = None,
        error: ErrorObject | None = None,
    ) -> None:
        if run.over:
            return
        for _, future in run.questions.values():
            future.cancel()
        run.questions.clear()
        run.record = msgspec.structs.replace(run.record, result=result, error=error, questions={})
        self.update(run, status, message)
        if not run.ended.done():
            run.ended.set_result(None)
        if run.timer is not None:
            self._rest(run)

    def update(self, run: TaskRun, status: TaskStatus, message: str | None = None) -> None:
        """Change the status of a task and notify its client. A terminal status does not change any more."""
        if run.over:
            return
        run.record = msgspec.structs.replace(
            run.record,
            status=status,
            message=message or (run.record.message if status == run.status else None),
            updated=time.time(),
            questions=run.open_questions() if status == "input_required" else {},
        )
        if run.timer is not None:
            self._replica.write(self._store.save(run.record))
        self._notify(run)

    def _notify(self, run: TaskRun) -> None:
        """Notify the client of a task, wherever it listens, that it has changed."""
        revision = run.call.peer.revision
        if self._replica.shared:
            self._replica.publish(TaskChanged(run.id))
        elif revision.stateless:
            self._app.hub.task_changed(run.id, detailed(run.record))
        connection = run.call.connection
        if not revision.stateless and "task_status" in revision.events and connection.channel is not None:
            event = encode_event(revision, "task_status", as_task(run.record))
            connection.channel.send(event, ("task", run.id))
            if connection.id:
                self._replica.publish(SessionMessage(connection.id, run.record.slot, event, ("task", run.id)))

    def _expire(self, run: TaskRun) -> None:
        self._cancel(run)
        self._remove(run)

    def _cancel(self, run: TaskRun, message: str = CANCELLED) -> None:
        if run.work is not None and not run.over:
            run.call.cancelled = True
            self._end(run, "cancelled", message)
            run.work.cancel()

    async def stop(self) -> None:
        """Cancel every task that is still running here, and remove all tasks, unless other replicas know them too."""
        runs = list(self._runs.values())
        working = [run.work for run in runs if run.work is not None and not run.work.done()]
        for run in runs:
            self._cancel(run, STOPPED)
        if working:
            await asyncio.wait(working, timeout=1)
        for run in runs:
            self._remove(run, record=not self._replica.shared)

    # Questions of a task

    async def ask(self, run: TaskRun, questions: Iterable[tuple[str, Question]]) -> list[Any]:
        """Put questions, each with its preferred key, to the client of a task, and wait for the answers."""
        loop = asyncio.get_running_loop()
        asked = {run.new_key(wanted): (question, loop.create_future()) for wanted, question in questions}
        run.questions |= asked
        self.update(run, "input_required")
        try:
            return list(await asyncio.gather(*(future for _, future in asked.values())))
        finally:
            for key in asked:
                run.questions.pop(key, None)
            if not run.questions:
                self.update(run, "working")

    def _take_answer(self, run: TaskRun, key: str, raw: bytes | Raw) -> InvalidParams | None:
        """Pass an answer to its question, if it is still open; return the error if it does not fit."""
        question, future = run.questions.get(key, (None, None))
        if question is None or future is None or future.done():
            return None
        refused: InvalidParams | None = None
        try:
            future.set_result(question.read(msgspec.json.decode(raw)))
        except ValueError as error:
            refused = misfit(key, error)
            if not question.again:
                future.set_exception(refused)
        if future.done() and run.status == "input_required" and run.open_questions():
            self.update(run, "input_required", run.record.message)
        return refused

    # Requests

    async def _find(self, call: Call) -> TaskRecord:
        """Return the task that a call names.

        Raises:
            InvalidParams: there is no such task, or it belongs to another caller.
        """
        await self._replica.written()
        record = await self._store.get(call.params.task_id)
        if record is None or not may_see(call, record, self._replica.state.slot):
            raise InvalidParams("Invalid params: taskId: task not found, or expired", parameter="taskId")
        return record

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
        """Answer tasks/list: the tasks of this principal or, where there is none, of this session."""
        return self._replica.run(self._page(call))

    async def _page(self, call: Call) -> Result:
        cursor, size = call.params.cursor, self._app.page_size
        _, position = ("", "0") if cursor is None else read_cursor(call.request.operation, cursor)
        if position is None or not (position.isascii() and position.isdecimal()) or len(position) > 18:
            raise InvalidCursor
        await self._replica.written()
        found = await self._store.list(owner_of(call, self._replica.state.slot), int(position), size + 1)
        more = len(found) > size
        next_cursor = write_cursor(call.request.operation, "", str(found[size - 1][0])) if more else None
        return ListTasksResult(tasks=[as_task(record) for _, record in found[:size]], next_cursor=next_cursor)

    def cancel(self, call: Call, channel: Channel) -> Any:
        """Answer tasks/cancel."""
        return self._replica.run(self._cancel_found(call))

    async def _cancel_found(self, call: Call) -> Result:
        record = await self._find(call)
        if not record.over:
            cancelled = msgspec.structs.replace(
                record, status="cancelled", message=CANCELLED, updated=time.time(), questions={}
            )
            run = self._runs.get(record.id)
            if run is not None and not run.over:
                self._cancel(run)
                await self._replica.written()
                record = run.record
            elif await self._store.save(cancelled):
                record = cancelled
                self._replica.tell(record.slot, CancelTaskLetter(record.id))
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
        """Answer tasks/update: pass answers to the task's questions. An answer to no open question is ignored.

        Raises:
            InvalidParams: an answer does not fit its question. The others are taken.
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
                refused = self._take_answer(run, key, raw) or refused
            elif key in record.questions:
                self._replica.tell(record.slot, TaskAnswerLetter(record.id, key, bytes(raw)))
        await self._replica.written()
        if refused is not None:
            raise refused
        return Result()

    def _on_answer(self, letter: TaskAnswerLetter) -> None:
        run = self._runs.get(letter.task)
        if run is not None:
            self._take_answer(run, letter.key, letter.answer)

    def honored(self, call: Call, ids: Iterable[str]) -> Any:
        """Return those of ``ids`` whose tasks the caller may subscribe to, or an awaitable of them.

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
