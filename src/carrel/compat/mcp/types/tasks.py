"""Tasks (2025-11-25)."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from carrel.compat.mcp.types.base import (
    Model,
    Notification,
    NotificationParams,
    PaginatedRequest,
    PaginatedResult,
    Request,
    RequestParams,
    Result,
)

TASK_FORBIDDEN: Final[Literal["forbidden"]] = "forbidden"
TASK_OPTIONAL: Final[Literal["optional"]] = "optional"
TASK_REQUIRED: Final[Literal["required"]] = "required"

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
TASK_STATUS_WORKING: Final[Literal["working"]] = "working"
TASK_STATUS_INPUT_REQUIRED: Final[Literal["input_required"]] = "input_required"
TASK_STATUS_COMPLETED: Final[Literal["completed"]] = "completed"
TASK_STATUS_FAILED: Final[Literal["failed"]] = "failed"
TASK_STATUS_CANCELLED: Final[Literal["cancelled"]] = "cancelled"


class RelatedTaskMetadata(Model):
    """Task that a message belongs to."""

    taskId: str


class Task(Model):
    """State of a task."""

    taskId: str
    status: TaskStatus
    statusMessage: str | None = None
    createdAt: datetime
    lastUpdatedAt: datetime
    ttl: Annotated[int, Field(strict=True)] | None
    pollInterval: Annotated[int, Field(strict=True)] | None = None


class CreateTaskResult(Result):
    """Result of a call that has become a task."""

    task: Task


class GetTaskRequestParams(RequestParams):
    """Parameters of tasks/get."""

    taskId: str


class GetTaskRequest(Request[GetTaskRequestParams, Literal["tasks/get"]]):
    """Request tasks/get."""

    method: Literal["tasks/get"] = "tasks/get"
    params: GetTaskRequestParams


class GetTaskResult(Result, Task):
    """Result of tasks/get."""


class GetTaskPayloadRequestParams(RequestParams):
    """Parameters of tasks/result."""

    taskId: str


class GetTaskPayloadRequest(Request[GetTaskPayloadRequestParams, Literal["tasks/result"]]):
    """Request tasks/result."""

    method: Literal["tasks/result"] = "tasks/result"
    params: GetTaskPayloadRequestParams


class GetTaskPayloadResult(Result):
    """Result of tasks/result."""


class CancelTaskRequestParams(RequestParams):
    """Parameters of tasks/cancel."""

    taskId: str


class CancelTaskRequest(Request[CancelTaskRequestParams, Literal["tasks/cancel"]]):
    """Request tasks/cancel."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: CancelTaskRequestParams


class CancelTaskResult(Result, Task):
    """Result of tasks/cancel."""


class ListTasksRequest(PaginatedRequest[Literal["tasks/list"]]):
    """Request tasks/list."""

    method: Literal["tasks/list"] = "tasks/list"


class ListTasksResult(PaginatedResult):
    """Result of tasks/list."""

    tasks: list[Task]


class TaskStatusNotificationParams(NotificationParams, Task):
    """Parameters of notifications/tasks/status."""


class TaskStatusNotification(Notification[TaskStatusNotificationParams, Literal["notifications/tasks/status"]]):
    """Notification notifications/tasks/status."""

    method: Literal["notifications/tasks/status"] = "notifications/tasks/status"
    params: TaskStatusNotificationParams
