"""Routes of tasks: tool calls that continue on their server."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from carrel.studio.bodies import TaskRequest
from carrel.studio.routes.responses import read_body, reply, route
from carrel.studio.studio import Studio

__all__ = ["routes"]


def routes(studio: Studio) -> list[Route]:
    """Return the routes."""

    async def start(request: Request) -> Any:
        wanted = await read_body(request, TaskRequest)
        studio.servers.find(wanted.server)
        return await reply(
            studio.operations, "call", lambda: studio.tasks.start(wanted.server, wanted.name, wanted.arguments)
        )

    async def result(request: Request) -> Any:
        return msgspec.to_builtins(studio.tasks.result(request.path_params["id"]))

    async def cancel(request: Request) -> Any:
        return await reply(studio.operations, "call", lambda: studio.tasks.cancel(request.path_params["id"]))

    return [
        route("POST", "/tasks", start),
        route("GET", "/tasks/{id}/result", result),
        route("DELETE", "/tasks/{id}", cancel),
    ]
