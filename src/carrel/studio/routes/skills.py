"""Routes of skills: a skill with its instructions, and the verification of all its files."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from carrel.studio.routes.responses import reply, required, route
from carrel.studio.skills import read_skill
from carrel.studio.studio import Studio

__all__ = ["routes"]


def routes(studio: Studio) -> list[Route]:
    """Return the routes."""

    async def skill(request: Request) -> Any:
        server, uri = required(request, "server"), required(request, "uri")
        studio.servers.find(server)
        whole = "whole" in request.query_params
        return await reply(studio.operations, "read", lambda: read_skill(studio.host, server, uri, whole=whole))

    return [route("GET", "/skill", skill)]
