"""Routes of the timeline: windows of messages, one message, requests that are sent again, session files, interfaces."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import iterate_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from carrel.studio.routes.responses import number, read_body, read_bytes, reply, route
from carrel.studio.studio import Studio
from carrel.studio.timeline.api import CompareRequest, ResendRequest
from carrel.studio.timeline.comparison import comparable, compare
from carrel.studio.timeline.resend import resend
from carrel.studio.timeline.session_file import read_session, session_file
from carrel.studio.timeline.timeline import WireFilter

__all__ = ["routes"]

#: Messages of a window by default, and at most.
LIMIT, MAX_LIMIT = 100, 1000
#: Media type of session files, and the bytes of a file that is opened on the page.
JSONL, MAX_FILE = "application/jsonl", 128 * 1024 * 1024


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
        return await reply(studio.operations, "wire", lambda: studio.shown.window(filter, offset, limit, around))

    async def detail(request: Request) -> Any:
        wanted = request.path_params["number"]
        return await reply(studio.operations, "wire", lambda: studio.shown.detail(wanted))

    async def send(request: Request) -> Any:
        wanted = await read_body(request, ResendRequest)
        studio.servers.find(wanted.server)
        return await reply(studio.operations, "wire", lambda: resend(studio.host, studio.timeline, wanted))

    async def comparable_request(request: Request) -> Any:
        entry = await studio.timeline.find(number(request, "number", 0, 2**53))
        return comparable(entry, studio.servers.find(entry.connection.server))

    async def compare_clients(request: Request) -> Any:
        wanted = await read_body(request, CompareRequest)
        entry = await studio.timeline.find(wanted.number)
        server = studio.servers.find(entry.connection.server)
        handlers, revisions = studio.questions.handlers(server.name), (wanted.old, wanted.new)
        return await reply(studio.operations, "wire", lambda: compare(entry, server, revisions, handlers))

    async def export(request: Request) -> Any:
        server = request.query_params.get("server", "")
        entries = [each for each in studio.shown.log.entries if not server or each.connection.server == server]
        headers = {"cache-control": "no-store"}
        return StreamingResponse(iterate_in_threadpool(session_file(entries)), headers=headers, media_type=JSONL)

    async def open_file(request: Request) -> None:
        name = request.query_params.get("name") or "session.jsonl"
        data = await read_bytes(request, JSONL, MAX_FILE)
        studio.show_session(await asyncio.to_thread(read_session, name, data))

    async def close_file(request: Request) -> None:
        studio.show_session(None)

    async def interface(request: Request) -> Any:
        return {"changes": list(studio.interfaces.changes)}

    return [
        route("GET", "/interface", interface),
        route("GET", "/wire", window),
        route("POST", "/wire/resend", send),
        route("GET", "/wire/compare", comparable_request),
        route("POST", "/wire/compare", compare_clients),
        route("GET", "/wire/session", export),
        route("POST", "/wire/session", open_file),
        route("DELETE", "/wire/session", close_file),
        route("GET", "/wire/{number:int}", detail),
    ]
