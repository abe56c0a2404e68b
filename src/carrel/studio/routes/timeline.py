"""Routes of the timeline: windows of messages, one message, requests that are sent again, changed interfaces."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from carrel.studio.routes.responses import number, read_body, reply, route
from carrel.studio.studio import Studio
from carrel.studio.timeline.api import ResendRequest
from carrel.studio.timeline.resend import resend
from carrel.studio.timeline.timeline import WireFilter

__all__ = ["routes"]

#: Messages of a window by default, and at most.
LIMIT, MAX_LIMIT = 100, 1000


def routes(studio: Studio) -> list[Route]:
    """Return the routes."""

    async def window(request: Request) -> Any:
        query = request.query_params
        only = query.get("only", "")
        if only not in ("", "invalid", "errors"):
            raise ValueError("The parameter only is invalid or errors")
        filter = WireFilter(
            server=query.get("server", ""),
            method=query.get("method", ""),
            target=query.get("target", ""),
            only=only,
            text=query.get("q", "").lower(),
        )
        offset = number(request, "offset", 0, 2**53) if "offset" in query else None
        around = number(request, "around", 0, 2**53) if "around" in query else None
        limit = max(1, number(request, "limit", LIMIT, MAX_LIMIT))
        return await reply(studio.operations, "wire", lambda: studio.timeline.window(filter, offset, limit, around))

    async def detail(request: Request) -> Any:
        wanted = request.path_params["number"]
        return await reply(studio.operations, "wire", lambda: studio.timeline.detail(wanted))

    async def send(request: Request) -> Any:
        wanted = await read_body(request, ResendRequest)
        studio.servers.find(wanted.server)
        return await reply(studio.operations, "wire", lambda: resend(studio.host, studio.timeline, wanted))

    async def interface(request: Request) -> Any:
        return {"changes": list(studio.interfaces.changes)}

    return [
        route("GET", "/interface", interface),
        route("GET", "/wire", window),
        route("POST", "/wire/resend", send),
        route("GET", "/wire/{number:int}", detail),
    ]
