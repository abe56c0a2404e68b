"""Tasks that other replicas run: waiting for their results, passing on their messages, and their notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from carrel.errors import INTERNAL_ERROR, InvalidParams
from carrel.server.tasks.formats import detailed
from carrel.server.tasks.run import RemoteChannel, TaskRun
from carrel.state.records import Gap, HearTaskLetter, ReplicaGone, TaskChanged, TaskMessageLetter, TaskRecord
from carrel.state.replica import Replica
from carrel.wire.jsonrpc import ErrorObject

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.server.subscriptions import Hub
    from carrel.state.interfaces import TaskStore

__all__ = ["RemoteTasks"]

GONE = "The server that ran the task has stopped; the task may have done some of its work."


class RemoteTasks:
    """Tasks of other replicas that clients of this replica wait for. ``runs`` are the tasks that run here."""

    def __init__(self, replica: Replica, runs: Mapping[str, TaskRun], hub: Hub) -> None:
        self._replica = replica
        self._runs = runs
        self._hub = hub
        self._waiting: dict[str, list[tuple[asyncio.Event, Channel]]] = {}
        replica.on(TaskChanged, self._on_changed)
        replica.on(HearTaskLetter, self._on_hear)
        replica.on(TaskMessageLetter, self._on_message)
        replica.on(Gap, self._on_gap)
        replica.on(ReplicaGone, self._on_gone)

    @property
    def _store(self) -> TaskStore:
        return self._replica.state.tasks

    async def wait(self, record: TaskRecord, channel: Channel) -> TaskRecord:
        """Wait for the end of a task; its requests to the client are sent to ``channel`` meanwhile.

        Raises:
            InvalidParams: it is not there any more.
        """
        changed = asyncio.Event()
        waiter = (changed, channel)
        self._waiting.setdefault(record.id, []).append(waiter)
        here = self._replica.state.slot
        try:
            await self._replica.state.mailbox.put(record.slot, HearTaskLetter(record.id, here))
            while True:
                changed.clear()
                current = await self._store.get(record.id)
                if current is not None:
                    current = await self.checked(current)
                if current is None:
                    raise InvalidParams("Invalid params: taskId: task not found, or expired", parameter="taskId")
                if current.over:
                    return current
                await changed.wait()
        finally:
            self._waiting[record.id].remove(waiter)
            if not self._waiting[record.id]:
                del self._waiting[record.id]
                self._replica.notify(record.slot, HearTaskLetter(record.id, here, False))

    async def checked(self, record: TaskRecord) -> TaskRecord | None:
        """Return a task, which fails if it is not over and the replica that ran it is gone; None if it is not there."""
        state = self._replica.state
        if record.over or record.slot == state.slot or await state.has_replica(record.slot):
            return record
        error = ErrorObject(INTERNAL_ERROR, GONE)
        failed = msgspec.structs.replace(record, status="failed", message=GONE, error=error, input_requests={})
        if await self._store.save(failed):
            self._replica.publish(TaskChanged(record.id))
        return await self._store.get(record.id)

    def _on_changed(self, notice: TaskChanged) -> None:
        for changed, _ in self._waiting.get(notice.task, ()):
            changed.set()
        if self._hub.hears_task(notice.task):
            self._replica.write(self._notify(notice.task))

    def _on_gone(self, _: ReplicaGone) -> None:
        self._wake()
        for id in list(self._hub.tasks):
            self._replica.write(self._check(id))

    async def _check(self, id: str) -> None:
        record = await self._store.get(id)
        if record is not None:
            await self.checked(record)

    def _on_gap(self, _: Gap) -> None:
        self._wake()

    def _wake(self) -> None:
        for waiting in self._waiting.values():
            for changed, _channel in waiting:
                changed.set()

    async def _notify(self, id: str) -> None:
        record = await self._store.get(id)
        if record is not None:
            self._hub.task_changed(id, record.tool, detailed(record))

    def _on_hear(self, letter: HearTaskLetter) -> None:
        """Send the messages of a task to another replica, or no longer."""
        run = self._runs.get(letter.task)
        if run is not None:
            call = run.call
            remote = RemoteChannel(self._replica, letter.slot, letter.task)
            run.hear(call.connection, remote if letter.listens else call.client.channel)

    def _on_message(self, letter: TaskMessageLetter) -> None:
        waiting = self._waiting.get(letter.task)
        if waiting:
            waiting[-1][1].send(letter.message)
