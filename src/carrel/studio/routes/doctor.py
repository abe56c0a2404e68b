"""Routes of the doctor: the state of an examination, to start it, and to cancel it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from carrel.studio.examinations import DoctorRequest
from carrel.studio.routes.responses import read_body, route
from carrel.studio.studio import Studio

__all__ = ["routes"]


def routes(studio: Studio) -> list[Route]:
    """Return the routes."""

    async def view(request: Request) -> Any:
        return studio.examinations.view(studio.servers.find(request.path_params["name"]).name)

    async def start(request: Request) -> Any:
        server = studio.servers.find(request.path_params["name"])
        return studio.examinations.start(server, await read_body(request, DoctorRequest))

    async def cancel(request: Request) -> None:
        studio.examinations.cancel(studio.servers.find(request.path_params["name"]).name)

    return [
        route("GET", "/doctor/{name:path}", view),
        route("POST", "/doctor/{name:path}", start),
        route("DELETE", "/doctor/{name:path}", cancel),
    ]
