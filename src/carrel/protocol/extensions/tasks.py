"""Tasks extension (``io.modelcontextprotocol/tasks``): tool calls that outlive their response, for stateless clients.

https://modelcontextprotocol.io/extensions/tasks/overview
"""

from carrel.protocol.extension import Extension
from carrel.protocol.revision import Request
from carrel.wire.tasks import DetailedTask, TaskParams, UpdateTaskParams

__all__ = ["TASKS"]

REQUESTS = (
    Request("tasks/get", "get_task", TaskParams, DetailedTask, name_field="task_id"),
    Request("tasks/update", "update_task", UpdateTaskParams, name_field="task_id"),
    Request("tasks/cancel", "cancel_task", TaskParams, name_field="task_id"),
)

TASKS = Extension(
    name="io.modelcontextprotocol/tasks",
    requests={row.method: row for row in REQUESTS},
    events={"task": "notifications/tasks"},
    mutual=True,
)
