"""Operations: requests that may wait for a server. A request of the page waits for a moment, and then gets an id."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from carrel.studio.api import OperationKind, OperationView, ProgressView
from carrel.studio.events import PageEvents
from carrel.studio.problems import NotFound, Refused, problem_of

__all__ = ["PageOperation", "PageOperations"]

#: Seconds that a request of the page waits before it gets the id of the operation.
PATIENCE = 0.25
#: Number of operations that may run, and of ended ones that are kept.
MAX_RUNNING, KEPT = 200, 32

Progress: TypeAlias = Callable[[float, float | None, str | None], None]


class PageOperation:
    """Request that runs in a task. ``view`` is its state."""

    def __init__(self, kind: OperationKind) -> None:
        self.view = OperationView(
            id=secrets.token_urlsafe(12), kind=kind, state="running", progress=None, result=None, error=None
        )
        self.task: asyncio.Task[None] | None = None
        self.has_id = False
        """Whether the page knows the id, and so gets events."""


class PageOperations:
    """Running operations, and the last ended ones that the page knows."""

    def __init__(self, events: PageEvents) -> None:
        self._events = events
        self._all: dict[str, PageOperation] = {}

    async def run(self, kind: OperationKind, work: Callable[[Progress], Awaitable[Any]]) -> OperationView:
        """Start an operation, and return its state when it has ended, or after a moment.

        ``work`` is called with a function for its progress.

        Raises:
            Refused: too many operations are running.
        """
        if sum(each.view.state == "running" for each in self._all.values()) >= MAX_RUNNING:
            raise Refused(429, "Too many requests are waiting for servers")
        operation = PageOperation(kind)
        self._all[operation.view.id] = operation
        operation.task = asyncio.ensure_future(self._do(operation, work))
        await asyncio.wait([operation.task], timeout=PATIENCE)
        if operation.view.state == "running":
            operation.has_id = True
        else:
            del self._all[operation.view.id]
        return operation.view

    def get(self, id: str) -> OperationView:
        """Return the state of an operation.

        Raises:
            NotFound: there is no such operation, or it ended long ago.
        """
        return self._find(id).view

    def cancel(self, id: str) -> None:
        """Cancel an operation. If it has ended, do nothing.

        Raises:
            NotFound: there is no such operation, or it ended long ago.
        """
        task = self._find(id).task
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Cancel all operations."""
        tasks = [each.task for each in self._all.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _find(self, id: str) -> PageOperation:
        found = self._all.get(id)
        if found is None:
            raise NotFound("There is no such operation")
        return found

    async def _do(self, operation: PageOperation, work: Callable[[Progress], Awaitable[Any]]) -> None:
        def progress(done: float, total: float | None, message: str | None) -> None:
            self._set(operation, progress=ProgressView(progress=done, total=total, message=message))

        try:
            result = await work(progress)
        except asyncio.CancelledError:
            self._set(operation, state="cancelled")
            raise
        except Exception as error:
            self._set(operation, state="failed", error=problem_of(error))
        else:
            self._set(operation, state="done", result=result)
        finally:
            ended = [id for id, each in self._all.items() if each.view.state != "running"]
            for id in ended[:-KEPT]:
                del self._all[id]

    def _set(self, operation: PageOperation, **values: Any) -> None:
        operation.view = msgspec.structs.replace(operation.view, **values)
        if operation.has_id:
            # A result may be long: the page fetches it when it is done.
            self._events.put(type="operation", operation=msgspec.structs.replace(operation.view, result=None))
