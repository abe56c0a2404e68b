"""Tasks of FastMCP 3: tool calls, reads of resources and prompts that run in the background (2025-11-25)."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import metadata
from typing import Any

import msgspec

from carrel.awaitables import resolved
from carrel.catalog.task_channel import TaskChannel
from carrel.compat.application import Application
from carrel.compat.exchange import current_exchange
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types.base import METHOD_NOT_FOUND, ErrorData
from carrel.compat.wire import struct_of
from carrel.protocol.channel import Channel
from carrel.protocol.server import Call
from carrel.server.runtime import Operation
from carrel.wire.tools import CallToolParams

__all__ = ["TASKS_CAPABILITY", "declares_tasks", "run_checked", "serve_tasks"]

#: What FastMCP declares to clients of 2025-11-25.
TASKS_CAPABILITY: dict[str, Any] = {
    "list": {},
    "cancel": {},
    "requests": {"tools": {"call": {}}, "prompts": {"get": {}}, "resources": {"read": {}}},
}
#: Operations that may run as tasks.
OPERATIONS = ("call_tool", "get_prompt", "read_resource")


def declares_tasks(app: Any) -> bool:
    """Return whether a server declares tasks: FastMCP 3, with its package for tasks or a component that uses them."""
    if fastmcp_generation() != 3:
        return False
    with suppress(metadata.PackageNotFoundError):
        return bool(metadata.version("pydocket"))
    return any(each.task_config.supports_tasks() for each in app.local_provider._components.values())


def serve_tasks(app: Any, served: Application) -> None:
    """Let clients ask the server of Carrel that answers for a ``FastMCP`` to run requests as tasks."""
    operations = served.endpoint.runtime.operations
    tasks = served.endpoint.runtime.tasks
    for name in OPERATIONS:
        operations[name] = functools.partial(_answer, app, tasks, operations[name])


async def _answer(app: Any, tasks: Any, direct: Operation, call: Call, channel: Channel) -> Any:
    """Answer a request, or create a task that does."""
    if not is_task_augmented(call) or not await _may_be_task(app, call.params):
        answer: Any = direct(call, channel)
        return await resolved(answer)

    async def work(channel: Channel) -> Any:
        answer: Any = direct(call, channel)
        return struct_of(await resolved(answer), call.request.result)

    run = tasks.create(call)
    return await resolved(tasks.begin(run, work(TaskChannel(run))))


def is_task_augmented(call: Call) -> bool:
    """Return whether a client with a session asks for a task, by the field ``task`` of the parameters."""
    if call.peer.revision.stateless:
        return False
    if isinstance(call.params, CallToolParams):
        return call.params.task is not None
    raw = bytes(call.raw)  # the protocol has tasks of tools only
    return b'"task"' in raw and isinstance(msgspec.json.decode(raw).get("task"), dict)


async def _may_be_task(app: Any, params: Any) -> bool:
    """Return whether the component of a request supports tasks. Otherwise the request is answered, or refused."""
    if hasattr(params, "uri"):
        found = await app.get_resource(params.uri) or await app.get_resource_template(params.uri)
    else:
        found = await (app.get_tool if isinstance(params, CallToolParams) else app.get_prompt)(params.name)
    return found is not None and found.task_config.supports_tasks()


async def run_checked(component: Any, run: Callable[[], Awaitable[Any]]) -> Any:
    """Run the function of a component, unless it is no task and has to be one, or is one and cannot be.

    Raises:
        McpError: a task is required or impossible.
    """
    mode = component.task_config.mode
    if mode != "optional" and fastmcp_generation() == 3:
        exchange = current_exchange.get(None)
        asked = exchange is not None and is_task_augmented(exchange.call)
        if asked != (mode == "required"):
            shown = f"{type(component).__name__} '{component.title or component.key}'"
            wrong = "does not support" if asked else "requires"
            raise McpError(ErrorData(code=METHOD_NOT_FOUND, message=f"{shown} {wrong} task-augmented execution"))
    return await run()
