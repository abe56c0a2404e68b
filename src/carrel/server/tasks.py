"""Tasks: tool calls that go on after their response, and whose results are fetched later.

A client of 2025-11-25 asks for a task with each call; with the tasks extension of 2026-07-28 the server decides. Either
way the tool is an ordinary function that may report progress and ask for input, and the task survives its connection.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Hashable, Iterable
from functools import cached_property, partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET, Raw

from carrel.errors import (
    InvalidCursor,
    InvalidParams,
    MethodNotFound,
    MissingCapability,
    ProtocolError,
    ServerUnavailable,
)
from carrel.limits import NO_ROOM, Quota
from carrel.protocol.encoding import encode, encode_event
from carrel.protocol.extensions.tasks import TASKS
from carrel.server.elicitation.input_required import misfit
from carrel.server.failures import is_interrupt, told
from carrel.server.listing import decode_cursor, encode_cursor
from carrel.server.metadata import or_unset
from carrel.server.tools import RegisteredTool, run
from carrel.wire.base import Result
from carrel.wire.client_features import InputRequest
from carrel.wire.content import TextContent
from carrel.wire.jsonrpc import ErrorObject
from carrel.wire.tasks import CreateTaskResult, DetailedTask, ListTasksResult, Task, TaskStatus

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call, Connection
    from carrel.server.app import Server
    from carrel.server.context import Context
    from carrel.server.elicitation.input_required import Pending
    from carrel.server.elicitation.questions import Question

__all__ = ["MemoryTasks", "Record", "TaskStore", "Tasks", "as_task", "call_as_task"]

RELATED = "io.modelcontextprotocol/related-task"

#: Milliseconds: how long a task is kept if the client does not say, and at the longest.
DEFAULT_TTL = 60 * 60 * 1000
MAX_TTL = 24 * 60 * 60 * 1000
POLL_INTERVAL = 1000
#: Bytes that one task takes besides its request and its result.
RECORD_BYTES = 4096
#: Characters of a failed tool's text that are the status message of its task.
MAX_STATUS_MESSAGE = 1_000
TERMINAL = ("completed", "failed", "cancelled")


class Record:
    """One task: its status, its asyncio task, and its open questions."""

    def __init__(self, call: Call, ttl_ms: int) -> None:
        self.id = secrets.token_urlsafe(24)
        self.call = call
        self.status: TaskStatus = "working"
        self.message: str | None = None
        self.created = self.updated = time.time()
        self.ttl_ms = ttl_ms
        self.result: Result | None = None
        self.error: ErrorObject | None = None
        self.questions: dict[str, tuple[Question, asyncio.Future[Any]]] = {}
        self.keys: set[str] = set()
        """Keys of questions that were ever asked: a key belongs to one question for the life of the task."""
        self.work: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.connection: Connection = call.connection
        self.channel: Channel | None = call.connection.channel
        """Channel for messages of the task: the client's newest tasks/result request, or else its session."""
        self.unsent: list[Pending] = []
        """Questions that wait for a client with an open stream."""
        self.size = 0
        """How many bytes count as kept for its client."""
        self.timer: asyncio.TimerHandle | None = None

    def deliver(self, question: Pending) -> None:
        """Send a question, or keep it until the client fetches the result (2025-11-25)."""
        if self.channel is not None and is_heard(self.channel):
            question.send(self.connection, self.channel)
        else:
            self.unsent.append(question)

    def lose(self, connection: Connection, question: Pending) -> None:
        """Keep a question whose client is gone for the next client that fetches the result."""
        if self.connection is connection:
            self.channel = None
        self.deliver(question)

    def hear(self, connection: Connection, channel: Channel | None) -> None:
        """Send messages of the task to ``channel`` from now on, and the waiting questions at once."""
        self.connection, self.channel = connection, channel
        questions, self.unsent = self.unsent, []
        for question in questions:
            if not question.answer.done():
                self.deliver(question)

    def new_key(self, wanted: str) -> str:
        """Return ``wanted``, or with a number behind it where the task has used that key before, and record it."""
        key, number = wanted, 1
        while key in self.keys:
            number += 1
            key = f"{wanted}-{number}"
        self.keys.add(key)
        return key

    @property
    def over(self) -> bool:
        """Whether the status of the task is terminal."""
        return self.status in TERMINAL

    @property
    def expired(self) -> bool:
        """Whether the time to live of the task has passed."""
        return time.time() * 1000 > self.created * 1000 + self.ttl_ms

    @property
    def owner(self) -> Any:
        """Id of the principal that the task belongs to; None without authorization."""
        return getattr(self.call.principal, "id", None)


def is_heard(channel: Channel) -> bool:
    """Return whether a channel has a reader: over HTTP there may be no stream, or a client that accepts none."""
    if getattr(channel, "muted", False) or getattr(channel, "closed", False):
        return False
    return bool(getattr(channel, "listening", True))


class TaskStore(Protocol):
    """Protocol of a store of task records."""

    def put(self, record: Record) -> None:
        """Store a record."""

    def get(self, id: str) -> Record | None:
        """Return a record; None if it is not there (any more)."""

    def remove(self, id: str) -> None:
        """Remove a record; one that is not there is no error."""

    def all(self) -> Iterable[Record]:
        """Return every record, oldest first."""


class MemoryTasks:
    """In-memory store of task records."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def put(self, record: Record) -> None:
        """Store a record."""
        self._records[record.id] = record

    def get(self, id: str) -> Record | None:
        """Return a record; None if it is not there (any more)."""
        return self._records.get(id)

    def remove(self, id: str) -> None:
        """Remove a record."""
        self._records.pop(id, None)

    def all(self) -> Iterable[Record]:
        """Return every record, oldest first."""
        return list(self._records.values())


class TaskChannel:
    """Channel of a call that has become a task: its response was sent, so messages go to the task's channel."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Send a message on the channel of the task, if there is one."""
        if self._record.channel is not None:
            self._record.channel.send(message, key)

    async def drain(self) -> None:
        """Wait for a slow reader."""
        if self._record.channel is not None:
            await self._record.channel.drain()

    def pause(self, retry: int | None = None) -> None:
        """Do nothing: the call has been answered."""


class Tasks:
    """Tasks of a server: creation, status, results and cancellation. ``app.tasks`` is one."""

    def __init__(self, app: Server, store: TaskStore | None = None) -> None:
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
        self.store: TaskStore = store or MemoryTasks()
        self._finished: dict[str, dict[str, Record]] = {}

    @cached_property
    def _places(self) -> Quota:
        """Quota of tasks, with the limits as they are when the first one is made."""
        return Quota(self._app.limits.max_tasks, self._app.limits.max_tasks_per_client)

    # Creation

    def create(self, call: Call) -> Record:
        """Create a task for a call.

        If the client has as many tasks as it may, its oldest finished one is removed.

        Raises:
            InvalidParams: the time to live makes no sense.
            ServerUnavailable: there are too many tasks, or too much is kept for the client.
        """
        asked = call.params.task.ttl if getattr(call.params, "task", UNSET) is not UNSET else UNSET
        if asked is not UNSET and asked < 0:
            raise InvalidParams("Invalid params: task.ttl: must not be negative", parameter="task.ttl")
        record = Record(call, DEFAULT_TTL if asked is UNSET else min(asked, MAX_TTL))
        self._take_place(call.connection.client)
        if not self._keep(record, RECORD_BYTES + len(bytes(call.raw))):
            self._places.give(call.connection.client)
            raise ServerUnavailable(NO_ROOM)
        call.task = record
        self.store.put(record)
        record.timer = asyncio.get_running_loop().call_later(record.ttl_ms / 1000, self._expire, record.id)
        return record

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
    def _keep(record: Record, size: int) -> bool:
        """Count bytes of a task as kept for its client, and return whether there is room for them."""
        if not record.call.connection.take(size):
            return False
        record.size += size
        return True

    def _remove(self, record: Record) -> None:
        """Remove a task; one that is removed already is no error."""
        if record.timer is None:
            return
        record.timer.cancel()
        record.timer = None
        if record.work is None or record.work.done():
            record.call.task = None  # so that all of it is freed now
        connection = record.call.connection
        self.store.remove(record.id)
        self._places.give(connection.client)
        connection.give(record.size)
        if connection.budget is not None:
            connection.budget.need(connection.client, record)
        finished = self._finished.get(connection.client)
        if finished is not None:
            finished.pop(record.id, None)
            if not finished:
                del self._finished[connection.client]

    def _rest(self, record: Record) -> None:
        """Record that a task has ended: it is removed when its client needs room."""
        connection = record.call.connection
        self._finished.setdefault(connection.client, {})[record.id] = record
        if connection.budget is not None:
            connection.budget.spare(connection.client, record, partial(self._remove, record))

    def run(self, record: Record, work: Awaitable[Result]) -> Result:
        """Run ``work`` as a task, and return the result that announces the task to the client."""
        record.work = asyncio.ensure_future(self._follow(record, work))
        if isinstance(work, CoroutineType):
            record.work.add_done_callback(lambda _: work.close())  # it was cancelled before it began
        return self.created(record)

    @staticmethod
    def created(record: Record) -> Result:
        """Return the result that announces a new task to the client."""
        if record.call.peer.revision.stateless:
            result = detailed(record)
            result.result_type = "task"
            return result
        return CreateTaskResult(task=as_task(record))

    async def _follow(self, record: Record, work: Awaitable[Result]) -> None:
        try:
            result = await work
            size = 0 if record.timer is None else len(encode(result))
        except BaseException as error:
            if is_interrupt(error):
                raise
            if record.over:
                return  # it was cancelled
            call = record.call
            record.error = call.connection.describe(told(call.request.method, error), call.peer.revision)
            self._end(record, "failed", record.error.message)
        else:
            if size and not self._keep(record, size):
                record.error = ErrorObject(ServerUnavailable.code, NO_ROOM)
                self._end(record, "failed", NO_ROOM)
                return
            record.result = result
            failed = getattr(result, "is_error", False) is True and not record.call.peer.revision.stateless
            self._end(record, "failed" if failed else "completed", first_text(result) if failed else None)

    def _end(self, record: Record, status: TaskStatus, message: str | None = None) -> None:
        if record.over:
            return
        for _, future in record.questions.values():
            future.cancel()
        record.questions.clear()
        self.update(record, status, message)
        if not record.ended.done():
            record.ended.set_result(None)
        if record.timer is not None:
            self._rest(record)

    def update(self, record: Record, status: TaskStatus, message: str | None = None) -> None:
        """Change the status of a task and notify its client. A terminal status does not change any more."""
        if record.over:
            return
        record.message = message or (record.message if status == record.status else None)
        record.status = status
        record.updated = time.time()
        revision = record.call.peer.revision
        if revision.stateless:
            self._app.hub.task_changed(record.id, detailed(record))
        elif "task_status" in revision.events and record.call.connection.channel is not None:
            event = encode_event(revision, "task_status", as_task(record))
            record.call.connection.channel.send(event, ("task", record.id))

    def _expire(self, id: str) -> None:
        record = self.store.get(id)
        if record is not None:
            self._cancel(record)
            self._remove(record)

    def _cancel(self, record: Record) -> None:
        if record.work is not None and not record.over:
            record.call.cancelled = True
            self._end(record, "cancelled", "The task was cancelled by request.")
            record.work.cancel()

    async def stop(self) -> None:
        """Cancel every task that is still running, and remove all tasks."""
        working = [record.work for record in self.store.all() if record.work is not None and not record.work.done()]
        for record in self.store.all():
            self._cancel(record)
        if working:
            await asyncio.wait(working, timeout=1)
        for record in self.store.all():
            self._remove(record)

    # Questions of a task

    async def ask(self, record: Record, questions: Iterable[tuple[str, Question]]) -> list[Any]:
        """Put questions, each with its preferred key, to the client of a task, and wait for the answers."""
        loop = asyncio.get_running_loop()
        asked = {record.new_key(wanted): (question, loop.create_future()) for wanted, question in questions}
        record.questions |= asked
        self.update(record, "input_required")
        try:
            return list(await asyncio.gather(*(future for _, future in asked.values())))
        finally:
            for key in asked:
                record.questions.pop(key, None)
            if not record.questions:
                self.update(record, "working")

    # Requests

    def find(self, call: Call) -> Record:
        """Return the task that a call names.

        Raises:
            InvalidParams: there is no such task, or it belongs to another caller.
        """
        record = self.store.get(call.params.task_id)
        if record is None or record.expired or not may_see(call, record):
            raise InvalidParams("Invalid params: taskId: task not found, or expired", parameter="taskId")
        return record

    def get(self, call: Call, channel: Channel) -> Result:
        """Answer tasks/get."""
        record = self.find(call)
        return detailed(record) if call.peer.revision.stateless else as_task(record)

    async def fetch(self, call: Call, channel: Channel) -> Result:
        """Answer tasks/result: wait for the end of the task, and return the result of its request."""
        record = self.find(call)
        previous = record.connection, record.channel
        record.hear(call.connection, channel)
        try:
            await asyncio.shield(record.ended)
        finally:
            if record.channel is channel:
                record.hear(*previous)
        related = {RELATED: {"taskId": record.id}}
        if record.error is not None:
            raise TaskFailed(record.error)
        if record.result is None:
            raise InvalidParams("The task was cancelled, and has no result", {"_meta": related})
        meta = related if record.result.meta is UNSET else {**record.result.meta, **related}
        return msgspec.structs.replace(record.result, meta=meta)

    def page(self, call: Call, channel: Channel) -> Result:
        """Answer tasks/list: the tasks of this principal or, where there is none, of this session."""
        cursor = call.params.cursor
        _, after = (0, 0) if cursor is UNSET else decode_cursor(call.request.operation, cursor)
        if not isinstance(after, int):
            raise InvalidCursor
        mine = [record for record in self.store.all() if not record.expired and may_see(call, record)]
        page = mine[after : after + self._app.page_size]
        more = after + len(page)
        next_cursor = encode_cursor(call.request.operation, 0, more) if more < len(mine) else UNSET
        return ListTasksResult(tasks=[as_task(record) for record in page], next_cursor=next_cursor)

    def cancel(self, call: Call, channel: Channel) -> Result:
        """Answer tasks/cancel."""
        record = self.find(call)
        if call.peer.revision.stateless:
            self._cancel(record)
            return Result()
        if record.over:
            raise InvalidParams(f"Invalid params: the task is {record.status} already", parameter="taskId")
        self._cancel(record)
        return as_task(record)

    def answer(self, call: Call, channel: Channel) -> Result:
        """Answer tasks/update: pass answers to the task's questions. An answer to no open question is ignored.

        Raises:
            InvalidParams: an answer does not fit its question. The others are taken.
        """
        record = self.find(call)
        try:
            given = msgspec.json.decode(call.params.input_responses, type=dict[str, Raw])
        except msgspec.ValidationError as error:
            raise InvalidParams(f"Invalid params: inputResponses: {error}", parameter="inputResponses") from None
        refused: InvalidParams | None = None
        for key, raw in given.items():
            question, future = record.questions.get(key, (None, None))
            if question is None or future is None or future.done():
                continue
            try:
                future.set_result(question.read(msgspec.json.decode(raw)))
            except ValueError as error:
                refused = misfit(key, error)
                if not question.again:
                    future.set_exception(refused)
        if refused is not None:
            raise refused
        return Result()

    def honored(self, call: Call, ids: Iterable[str]) -> list[str]:
        """Return those of ``ids`` whose tasks the caller may subscribe to.

        Raises:
            MissingCapability: the client did not declare the extension.
        """
        require_extension(call)
        records = (self.store.get(id) for id in ids)
        return [record.id for record in records if record is not None and may_see(call, record)]


def call_as_task(
    tasks: Tasks, entry: RegisteredTool, arguments: dict[str, Any], call: Call, channel: Channel
) -> Result | Awaitable[Result] | None:
    """Call a tool as a task, and return the result that announces it; None if it is to be called as usual.

    Raises:
        MethodNotFound: the client asked for a task and cannot have one, or did not ask and has to (2025-11-25).
        MissingCapability: the tool can only be a task, and the client did not declare the extension (2026-07-28).
    """
    revision = call.peer.revision
    if revision.stateless:
        if call.peer.settings(TASKS.name) is None:
            if entry.task == "required":
                require_extension(call)
            return None
        if entry.task == "forbidden":
            return None
        if entry.detaches:
            return _call_detaching(tasks, entry, arguments, call, channel)
    elif "task_status" not in revision.events:
        return None
    elif call.params.task is UNSET:
        if entry.task == "required":
            raise MethodNotFound(f"Method not found: {entry.name} has to be called as a task")
        return None
    elif entry.task == "forbidden":
        raise MethodNotFound(f"Method not found: {entry.name} cannot be called as a task")
    record = tasks.create(call)
    return tasks.run(record, run(entry, arguments, call, TaskChannel(record)))


async def _call_detaching(
    tasks: Tasks, entry: RegisteredTool, arguments: dict[str, Any], call: Call, channel: Channel
) -> Result:
    """Call a tool that becomes a task when it calls ``Context.detach``; until then it is an ordinary call."""
    detached: asyncio.Future[Record] = asyncio.get_running_loop().create_future()

    def detach(context: Context) -> None:
        record = tasks.create(call)
        context.channel = TaskChannel(record)
        detached.set_result(record)

    call.detach = detach
    work = asyncio.ensure_future(run(entry, arguments, call, channel))
    try:
        await asyncio.wait((work, detached), return_when=asyncio.FIRST_COMPLETED)
        if detached.done():
            return tasks.run(detached.result(), work)
        return await work
    finally:
        call.detach = None
        if not detached.done():
            work.cancel()


class TaskFailed(ProtocolError):
    """Error with which the request of a task ended."""

    def __init__(self, error: ErrorObject) -> None:
        super().__init__(error.message, None if error.data is UNSET else error.data)
        self.code = error.code


def may_see(call: Call, record: Record) -> bool:
    """Return whether a task belongs to the caller: to its principal or, where there is none, to its session.

    A stateless client without a principal is identified only by the task id, which cannot be guessed.
    """
    owner = getattr(call.principal, "id", None)
    if owner is not None or record.owner is not None:
        return bool(owner == record.owner)
    return call.peer.revision.stateless or record.call.connection is call.connection


def require_extension(call: Call) -> None:
    """Check that the client of a call declared the tasks extension.

    Raises:
        MissingCapability: it did not.
    """
    if call.peer.settings(TASKS.name) is None:
        raise MissingCapability({"extensions": {TASKS.name: {}}})


def as_task(record: Record) -> Task:
    """Return a task in the format of 2025-11-25."""
    return Task(
        task_id=record.id,
        status=record.status,
        status_message=or_unset(record.message),
        created_at=timestamp(record.created),
        last_updated_at=timestamp(record.updated),
        ttl=record.ttl_ms,
        poll_interval=POLL_INTERVAL,
    )


def detailed(record: Record) -> DetailedTask:
    """Return a task in the format of the tasks extension."""
    revision = record.call.peer.revision
    task = DetailedTask(
        task_id=record.id,
        status=record.status,
        status_message=or_unset(record.message),
        created_at=timestamp(record.created),
        last_updated_at=timestamp(record.updated),
        ttl_ms=record.ttl_ms,
        poll_interval_ms=POLL_INTERVAL,
    )
    if record.status == "input_required":
        task.input_requests = {
            key: InputRequest(method=revision.questions[question.operation].method, params=question.params)
            for key, (question, future) in record.questions.items()
            if not future.done()
        }
    elif record.result is not None and record.status == "completed":
        task.result = record.call.connection.finish(record.call, record.result)
    elif record.error is not None and record.status == "failed":
        task.error = record.error
    return task


def first_text(result: Result) -> str | None:
    """Return the first text of a failed tool's result, cut to the length of a status message."""
    texts = (block.text for block in getattr(result, "content", ()) if isinstance(block, TextContent))
    return next(texts, "")[:MAX_STATUS_MESSAGE] or None


def timestamp(seconds: float) -> str:
    """Return a moment as ISO 8601, in UTC, to the millisecond."""
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1000):03d}Z"
