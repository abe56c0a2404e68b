"""Tasks that run in this process: creation, notification, end, cancellation and removal."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Coroutine, Mapping
from functools import cached_property, partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from carrel.errors import (
    InvalidParams,
    ServerUnavailable,
)
from carrel.limits import NO_ROOM, Limits, Quota
from carrel.protocol.encoding import encode_event
from carrel.protocol.server_errors import error_object
from carrel.server.failures import is_interrupt, public_error
from carrel.server.tasks.access import owner_of
from carrel.server.tasks.formats import as_task, detailed, first_text
from carrel.server.tasks.run import TaskRun
from carrel.state.records import SlotExpired, TaskChanged, TaskRecord
from carrel.state.replica import Replica
from carrel.wire.base import Result
from carrel.wire.jsonrpc import ErrorObject
from carrel.wire.tasks import CreateTaskResult, TaskStatus

if TYPE_CHECKING:
    from carrel.protocol.extension import Extension
    from carrel.protocol.server import Call
    from carrel.server.options import ServerSettings
    from carrel.server.subscriptions import Hub
    from carrel.state.interfaces import TaskStore

__all__ = ["TaskRuns", "TaskServer"]

#: Milliseconds: how long a task is kept if the client does not say, and at the longest.
DEFAULT_TTL = 60 * 60 * 1000
MAX_TTL = 24 * 60 * 60 * 1000
#: Bytes that one task takes besides its request and its result.
RECORD_BYTES = 4096
CANCELLED = "The task was cancelled by request."
STOPPED = "The task was cancelled because the server that ran it has stopped."


class TaskServer(Protocol):
    """Server that has tasks."""

    hub: Hub
    settings: ServerSettings

    @property
    def limits(self) -> Limits:
        """Limits of the server."""

    @property
    def replica(self) -> Replica:
        """Access to the state that the server shares with its replicas."""

    def extend(self, extension: Extension, operations: Mapping[str, Any]) -> None:
        """Register a protocol extension."""


class TaskRuns:
    """Tasks of a server that run in this process."""

    def __init__(self, app: TaskServer) -> None:
        self._app = app
        self._replica = app.replica
        self._runs: dict[str, TaskRun] = {}
        self._finished: dict[str, dict[str, TaskRun]] = {}
        app.replica.on(SlotExpired, self._on_slot_expired)

    @property
    def _store(self) -> TaskStore:
        return self._replica.state.tasks

    @cached_property
    def _quota(self) -> Quota:
        """Quota of tasks."""
        return Quota(self._app.limits.max_tasks, self._app.limits.max_tasks_per_client)

    # Creation

    def create(self, call: Call) -> TaskRun:
        """Create a task for a call.

        If the client has as many tasks as it may, its oldest finished one is removed.

        Raises:
            InvalidParams: the time to live is not valid.
            ServerUnavailable: there are too many tasks, or the memory budget of the client is used up.
        """
        asked = call.params.task.ttl if getattr(call.params, "task", None) is not None else None
        if asked is not None and asked < 0:
            raise InvalidParams("Invalid params: task.ttl: must not be negative", parameter="task.ttl")
        now = time.time()
        record = TaskRecord(
            id=secrets.token_urlsafe(24),
            owner=owner_of(call, self._replica.state.slot),
            slot=self._replica.state.slot,
            tool=getattr(call.params, "name", ""),
            created=now,
            updated=now,
            ttl_ms=DEFAULT_TTL if asked is None else min(asked, MAX_TTL),
        )
        run = TaskRun(call, record, self._changed)
        self._take_quota(call.client.key)
        if not self._keep(run, RECORD_BYTES + len(bytes(call.raw))):
            self._quota.give(call.client.key)
            raise ServerUnavailable(NO_ROOM)
        self._runs[run.id] = run
        self._replica.write(self._store.create(record))
        run.timer = asyncio.get_running_loop().call_later(record.ttl_ms / 1000, self._expire, run)
        return run

    def _take_quota(self, client: str) -> None:
        self._quota.limit(self._app.limits.max_tasks, self._app.limits.max_tasks_per_client)
        if self._quota.take(client):
            return
        finished = self._finished.get(client)
        if finished:
            self._remove(next(iter(finished.values())))
        if not self._quota.take(client):
            own = self._quota.used_by(client) >= self._quota.share
            most = f"of this client: at most {self._quota.share}" if own else f"at most {self._quota.total}"
            raise ServerUnavailable(f"There are too many tasks {most}")

    @staticmethod
    def _keep(run: TaskRun, size: int) -> bool:
        """Count bytes of a task toward the budget of its client, and return whether they fit."""
        if not run.call.client.take(size):
            return False
        run.size += size
        return True

    def _remove(self, run: TaskRun, *, record: bool = True) -> None:
        """Remove a task, and its ``record``; one that is removed already is no error."""
        if run.timer is None:
            return
        run.timer.cancel()
        run.timer = None
        client = run.call.client
        self._runs.pop(run.id, None)
        if record:
            self._replica.write(self._store.remove(run.id))
        self._quota.give(client.key)
        client.give(run.size)
        if client.budget is not None:
            client.budget.remove_evictable(client.key, run)
        finished = self._finished.get(client.key)
        if finished is not None:
            finished.pop(run.id, None)
            if not finished:
                del self._finished[client.key]

    def _rest(self, run: TaskRun) -> None:
        """Record that a task has ended: it is removed when its client needs room."""
        client = run.call.client
        self._finished.setdefault(client.key, {})[run.id] = run
        if client.budget is not None:
            client.budget.add_evictable(client.key, run, partial(self._remove, run))

    def begin(self, run: TaskRun, work: Awaitable[Result]) -> Result | Coroutine[Any, Any, Result]:
        """Run ``work`` as a task, and return the result that names the task, once the task is stored."""
        run.work = asyncio.ensure_future(self._follow(run, work))
        if isinstance(work, CoroutineType):
            run.work.add_done_callback(lambda _: work.close())  # it was cancelled before it began
        stored = self._replica.run(self._created(run))
        if isinstance(stored, Result):
            return stored  # at once, so that the client knows of the task before its work asks anything
        return self._stored(run, stored)

    async def _stored(self, run: TaskRun, stored: Awaitable[Result]) -> Result:
        """Return the result that names the task, once the task is stored.

        If the call is cancelled before, so is the task: its client will never know of it.
        """
        try:
            return await stored
        finally:
            if run.call.cancelled:
                self._cancel(run)

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
            described = error_object(public_error(call.request.method, error), call.peer.revision)
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
        for _, future in run.requests.values():
            future.cancel()
        run.requests.clear()
        run.record = msgspec.structs.replace(run.record, result=result, error=error, input_requests={})
        run.update(status, message)
        if not run.ended.done():
            run.ended.set_result(None)
        if run.timer is not None:
            self._rest(run)

    def _changed(self, run: TaskRun) -> None:
        """Store a task that has changed, and notify its client, on each replica that it listens to."""
        if run.timer is not None:
            self._replica.write(self._store.save(run.record))
        revision = run.call.peer.revision
        if self._replica.shared:
            self._replica.publish(TaskChanged(run.id))
        elif revision.stateless:
            self._app.hub.task_changed(run.id, run.record.tool, detailed(run.record))
        client = run.call.client
        if revision.stateless or "task_status" not in revision.events or client.channel is None:
            return
        if self._app.hub.may_hear_of_task(client, run.record.tool):
            event = encode_event(revision, "task_status", as_task(run.record))
            client.channel.send(event, ("task", run.id))

    def _expire(self, run: TaskRun) -> None:
        self._cancel(run)
        self._remove(run)

    def _cancel(self, run: TaskRun, message: str = CANCELLED) -> None:
        if run.work is not None and not run.over:
            run.call.cancelled = True
            self._end(run, "cancelled", message)
            run.work.cancel()

    def _on_slot_expired(self, _: SlotExpired) -> None:
        """Cancel the tasks that run here: other replicas notify clients that they have ended."""
        for run in list(self._runs.values()):
            self._cancel(run, STOPPED)

    @property
    def _working(self) -> list[asyncio.Task[None]]:
        """The running tasks."""
        return [run.work for run in self._runs.values() if run.work is not None and not run.work.done()]

    async def finish(self, seconds: float) -> None:
        """Wait for running tasks for at most so many seconds."""
        working = self._working
        if working:
            await asyncio.wait(working, timeout=seconds)

    async def stop(self) -> None:
        """Cancel every task that is still running here, and remove all tasks, unless other replicas know them too."""
        runs = list(self._runs.values())
        working = self._working
        for run in runs:
            self._cancel(run, STOPPED)
        if working:
            await asyncio.wait(working, timeout=1)
        for run in runs:
            self._remove(run, record=not self._replica.shared)
