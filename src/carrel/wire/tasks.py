"""Tasks: requests whose results are fetched later.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Raw

from carrel.wire.base import PageParams, Params, Result
from carrel.wire.client_features import InputRequest

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]


class Task(Result, kw_only=True):
    """A task in 2025-11-25, alone or within a result.

    Times are ISO 8601, ``ttl`` (null: unlimited) and ``poll_interval`` milliseconds.
    """

    task_id: str
    status: TaskStatus
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl: int | None
    poll_interval: int | None = None


class TaskParams(Params, kw_only=True):
    """Parameters of tasks/get, tasks/result and tasks/cancel."""

    task_id: str


class UpdateTaskParams(Params, kw_only=True):
    """Parameters of tasks/update (extension)."""

    task_id: str
    input_responses: Raw


class ListTasksParams(PageParams, kw_only=True):
    """Parameters of tasks/list (2025-11-25)."""


class CreateTaskResult(Result, kw_only=True):
    """Result of a request that has become a task (2025-11-25)."""

    task: Task


class ListTasksResult(Result, kw_only=True):
    tasks: list[Task]
    next_cursor: str | None = None


class DetailedTask(Result, kw_only=True):
    """A task in the extension, as a result or in a notification, with its input requests, result or error."""

    task_id: str
    status: TaskStatus
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None
    input_requests: dict[str, InputRequest] | None = None
    result: Any = None
    error: Any = None
