"""Tasks extension (``io.modelcontextprotocol/tasks``): tool calls that outlive their response, for stateless clients.

https://modelcontextprotocol.io/extensions/tasks/overview
"""

from carrel.protocol.extension import Extension
from carrel.protocol.methods import NotificationType, RequestType
from carrel.wire.base import Result
from carrel.wire.tasks import DetailedTask, TaskParams, UpdateTaskParams

__all__ = ["CANCEL_TASK", "GET_TASK", "TASK", "TASKS", "UPDATE_TASK"]

GET_TASK = RequestType("tasks/get", "get_task", TaskParams, DetailedTask, idempotent=True, name_field="task_id")
UPDATE_TASK = RequestType("tasks/update", "update_task", UpdateTaskParams, Result, name_field="task_id")
CANCEL_TASK = RequestType("tasks/cancel", "cancel_task", TaskParams, Result, idempotent=True, name_field="task_id")
TASK = NotificationType("notifications/tasks", "task", DetailedTask)

TASKS = Extension(
    name="io.modelcontextprotocol/tasks",
    requests={row.method: row for row in (GET_TASK, UPDATE_TASK, CANCEL_TASK)},
    events={TASK.operation: TASK},
    mutual=True,
)
