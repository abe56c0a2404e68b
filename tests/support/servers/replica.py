"""A replica over HTTP: replica.py PORT STORE, where STORE is the Unix socket of a store that the replicas share."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from carrel import Context, Server
from support.socket_store import state_at


def build(store: str) -> Server:
    app = Server("replica", state=state_at(store), state_keys=(bytes(32),))
    go = asyncio.Event()
    app.resources.add("memo://1", "text")
    app.resources.add("memo://2", "text")

    @app.tool
    async def slot() -> int:
        return app.endpoint.replica.state.slot

    @app.tool
    async def change(uri: str) -> str:
        app.resources.changed(uri)
        return "changed"

    @app.tool
    async def release() -> str:
        go.set()
        return "released"

    @app.tool
    async def steps(n: int, context: Context) -> str:
        for number in range(1, n + 1):
            await context.report_progress(number)
        await go.wait()
        await context.report_progress(n + 1)
        return "done"

    @app.tool
    async def greet(context: Context) -> str:
        answer = await context.elicit("Who?", str)
        return f"Hello {answer.data}"

    @app.tool(task="optional")
    async def index() -> str:
        await go.wait()
        return "indexed"

    return app


if __name__ == "__main__":
    build(sys.argv[2]).run("http", port=int(sys.argv[1]))
