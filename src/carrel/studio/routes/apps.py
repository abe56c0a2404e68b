"""Route of the apps of tools."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from carrel.studio.apps import open_app
from carrel.studio.bodies import AppRequest
from carrel.studio.problems import NotFound
from carrel.studio.routes.responses import read_body, reply, route
from carrel.studio.studio import Studio

__all__ = ["routes"]


def routes(studio: Studio) -> list[Route]:
    """Return the routes."""

    async def start(request: Request) -> Any:
        wanted = await read_body(request, AppRequest)
        studio.servers.find(wanted.server)
        tool = await studio.lists.item("tool", wanted.server, wanted.name)
        if tool is None:
            raise NotFound("The server has no such tool")
        return await reply(studio.operations, "read", lambda: open_app(studio.host, studio.links, wanted.server, tool))

    return [route("POST", "/apps", start)]
