"""Routes of contents: windows of texts, differences, links to media, searches and contexts."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from carrel.studio.bodies import ContextRequest, InterestRequest, LinkRequest
from carrel.studio.routes.responses import number, read_body, reply, required, route
from carrel.studio.searching import search
from carrel.studio.studio import Studio

__all__ = ["routes"]

#: Lines of a window by default, and hits.
LINES, HITS = 500, 30


def routes(studio: Studio) -> list[Route]:
    """Return the routes."""

    async def contents(request: Request) -> Any:
        server, uri = required(request, "server"), required(request, "uri")
        studio.servers.find(server)
        first, count = number(request, "first", 1, 2**53), number(request, "lines", LINES, 2**31)
        return await reply(studio.operations, "read", lambda: studio.contents.show(server, uri, first, count))

    async def changes(request: Request) -> Any:
        server, uri = required(request, "server"), required(request, "uri")
        studio.servers.find(server)
        return await reply(studio.operations, "read", lambda: studio.contents.changes(server, uri))

    async def page(request: Request) -> Any:
        server, uri = required(request, "server"), required(request, "uri")
        studio.servers.find(server)
        wanted = number(request, "page", 1, 2**31)
        return await reply(studio.operations, "read", lambda: studio.documents.page(server, uri, wanted))

    async def links(request: Request) -> Any:
        wanted = await read_body(request, LinkRequest)
        studio.servers.find(wanted.server)

        async def make() -> Any:
            return {"url": studio.links.add(*await studio.contents.part(wanted.server, wanted.uri, wanted.part))}

        return await reply(studio.operations, "read", make)

    async def interest(request: Request) -> None:
        studio.live.interest((await read_body(request, InterestRequest)).keys)

    async def hits(request: Request) -> Any:
        q, limit = request.query_params.get("q", ""), number(request, "limit", HITS, 100)
        return await reply(studio.operations, "search", lambda: search(studio.host, q, limit))

    async def context(request: Request) -> Any:
        wanted = await read_body(request, ContextRequest)
        return await reply(studio.operations, "context", lambda: studio.pack(wanted))

    return [
        route("GET", "/contents", contents),
        route("GET", "/changes", changes),
        route("GET", "/page", page),
        route("POST", "/links", links),
        route("POST", "/interest", interest),
        route("GET", "/search", hits),
        route("POST", "/context", context),
    ]
