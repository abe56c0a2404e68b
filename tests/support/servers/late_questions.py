"""A server on stdio that asks during a call, during a task, and after a call has ended."""

from __future__ import annotations

import asyncio
from typing import Any

from carrel import Context, Server
from carrel.wire.content import ResourceLink

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
app: Server[Any] = Server("late")
asks, released = asyncio.Event(), asyncio.Event()
late: asyncio.Future[str] | None = None


@app.tool(structured=False)
async def leave(context: Context) -> str:
    """Return, and ask when ``hold`` is called."""
    global late
    asks.clear()
    late = asyncio.ensure_future(ask_late(context))
    return "left"


async def ask_late(context: Context) -> str:
    await asks.wait()
    context._over = False  # what a server does that asks after its response
    try:
        return str((await context.elicit("Whose question is this?", FORM)).data)
    except Exception as error:
        return str(error)


@app.tool(structured=False)
async def hold() -> str:
    """Have ``leave`` ask, and return what came of that."""
    assert late is not None
    asks.set()
    return await late


@app.tool(structured=False)
async def greet(context: Context) -> str:
    """Ask for a name."""
    return f"Hello, {(await context.elicit('Who?', FORM)).data['name']}"


@app.tool(structured=False, task="optional")
async def work(context: Context) -> str:
    """Wait for ``release``, and ask for a name."""
    released.clear()
    await released.wait()
    return f"Done for {(await context.elicit('For whom?', FORM)).data['name']}"


@app.tool(structured=False)
async def release() -> str:
    """Let ``work`` go on."""
    released.set()
    return "released"


@app.tool(structured=False, task="optional")
async def make() -> list[ResourceLink]:
    """Return a link."""
    return [ResourceLink(uri="made:1", name="made")]


@app.resource("made:1")
async def made() -> str:
    """Something that was made."""
    return "made"


if __name__ == "__main__":
    app.run()
