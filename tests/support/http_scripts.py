"""Scripts for servers that do not exist, and what a client's transport makes of them."""

from __future__ import annotations

import asyncio
from typing import Any

from carrel.errors import MCPError
from carrel.protocol.revisions import LATEST_HANDSHAKE
from carrel.transports.client.http import HTTPTransport
from carrel.transports.client.options import HTTPOptions
from carrel.wire.base import PageParams
from support.scripted_http_server import Asked, Scripted, scripted
from support.transport_recorder import Asker

HANDSHAKE = LATEST_HANDSHAKE.name
HELLO = {"protocolVersion": HANDSHAKE, "capabilities": {}, "serverInfo": {"name": "scripted", "version": "1"}}
SESSION = "a-session-id"


def client_of(server: Scripted, revision: str | None = None, **options: Any) -> Asker:
    return Asker(
        HTTPTransport(server.url, HTTPOptions(**options)), **({} if revision is None else {"revision": revision})
    )


async def outcome_of(script: Any, **options: Any) -> Any:
    """Return what comes of one request to a scripted server."""
    async with scripted(script) as server, client_of(server, **options) as client:
        return await client.recorder.outcome(client.start("list_resources", PageParams()))


async def failure_of(script: Any, **options: Any) -> MCPError:
    outcome = await outcome_of(script, **options)
    assert isinstance(outcome, MCPError), outcome
    return outcome


def session(script: Any, *, revision: str = HANDSHAKE, listen: Any = None) -> Any:
    """Return a script that opens a session, and does with all other POST requests what ``script`` says."""

    async def serve(asked: Asked) -> None:
        if asked.method == "POST" and asked.message.get("method") == "initialize":
            await asked.result({**HELLO, "protocolVersion": revision}, mcp_session_id=SESSION)
        elif asked.method == "POST" and asked.message.get("method", "").startswith("notifications/"):
            await asked.respond(202)
        elif asked.method == "DELETE":
            await asked.respond(200)
        elif asked.method == "GET" and listen is not None and "last-event-id" not in asked.headers:
            await listen(asked)
        elif asked.method == "GET" and listen is None and "last-event-id" not in asked.headers:
            await asked.respond(405)
        else:
            await script(asked)

    return serve


async def never(asked: Asked) -> None:
    await asyncio.Event().wait()
