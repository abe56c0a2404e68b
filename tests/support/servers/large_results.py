"""A server whose answers, streams, subscriptions and tasks are large."""

import asyncio
import sys

from carrel import Context, Limits, Server

app = Server(
    "kept",
    limits=Limits(max_sessions=800, max_sessions_per_client=400, max_tasks=60, max_tasks_per_client=40),
)
app.resources.add("memo://small", "small")


@app.resource("doc://{+path}")
async def doc(path: str) -> str:
    return path


@app.tool()
async def large(size: int, ctx: Context) -> str:
    """Answer with a stream, as something is reported before."""
    await ctx.report_progress(1)
    return "x" * size


@app.tool(task="required")
async def wait() -> str:
    await asyncio.Event().wait()
    return "never"


@app.tool(task="required")
async def result(size: int) -> str:
    return "x" * size


app.run("http", port=0, on_started=lambda url: print(url, file=sys.stderr, flush=True))
