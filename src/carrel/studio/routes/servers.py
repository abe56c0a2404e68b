"""Routes of the servers: state, events, standard error, entries for other applications, and reconnecting."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from carrel.printable import printable
from carrel.redaction import without_secrets
from carrel.studio.bodies import QuestionAnswer
from carrel.studio.hand_over import hand_over
from carrel.studio.routes.responses import number, read_body, route
from carrel.studio.studio import Studio

__all__ = ["routes"]

#: Lines of standard error, and characters of each.
MAX_LINES, MAX_LINE = 500, 2000


def routes(studio: Studio) -> list[Route]:
    """Return the routes."""

    async def state(request: Request) -> Any:
        return studio.state

    async def events(request: Request) -> Any:
        since = number(request, "since", studio.events.seq, 2**53)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(studio.events.stream(since), headers=headers, media_type="text/event-stream")

    async def stderr(request: Request) -> Any:
        text = without_secrets(studio.servers.find(request.path_params["name"]).stderr)
        return {"lines": [printable(line, MAX_LINE) for line in text.splitlines()[-MAX_LINES:]]}

    async def entry(request: Request) -> Any:
        return hand_over(studio.servers.find(request.path_params["name"]).config)

    async def reconnect(request: Request) -> None:
        await studio.servers.reconnect(request.path_params["name"])

    async def question(request: Request) -> None:
        studio.questions.answer(request.path_params["id"], await read_body(request, QuestionAnswer))

    return [
        route("GET", "/state", state),
        route("GET", "/events", events),
        route("GET", "/servers/{name:path}/stderr", stderr),
        route("GET", "/servers/{name:path}/entry", entry),
        route("POST", "/servers/{name:path}/reconnect", reconnect),
        route("POST", "/questions/{id}", question),
    ]
