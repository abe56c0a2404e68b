"""What a server says of itself, in each revision, and a server that has some of everything."""

from __future__ import annotations

from typing import Any

from carrel import Context, Server
from carrel.transports.memory import MemoryPeer
from support.memory_client import LATEST, result

__all__ = ["declared", "everything"]


async def declared(app: Server, revision: str) -> dict[str, Any]:
    """Return the answer to initialize or server/discover. The server has to run."""
    peer = MemoryPeer(app, revision)
    try:
        if revision == LATEST:
            return await result(peer, "server/discover")
        client = {"name": "test", "version": "1"}
        return await result(peer, "initialize", protocolVersion=revision, capabilities={}, clientInfo=client)
    finally:
        await peer.dispatcher.close()


def everything(**options: Any) -> Server:
    """Return a server with tools, prompts, resources, templates and completion."""
    app = Server("everything", page_size=2, **options)
    for number in range(5):
        app.resources.add(f"memo://{number}", f"memo {number}")
        app.tools.add(lambda: "done", name=f"tool{number}")
        app.prompts.add(lambda: "words", name=f"prompt{number}")

    @app.resource("book://{author}")
    async def book(author: str) -> str:
        return author

    @book.complete("author")
    async def authors(prefix: str) -> list[str]:
        return ["Lem"]

    app.resource("shelf://{number}")(lambda number: number)
    app.resource("page://{number}")(lambda number: number)

    @app.tool()
    async def talk(context: Context) -> str:
        context.report_progress(1)
        context.info("talking")
        return "talked"

    @app.tool()
    async def ask(context: Context) -> str:
        await context.elicit("Name?")
        await context.sample("Capital?", 10)
        await context.list_roots()
        return "asked"

    return app
