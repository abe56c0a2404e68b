"""The shelf, by FastMCP 4. Argument: stdio or http; over HTTP it prints its URL."""

import asyncio
import socket
import sys

import mcp_types
import uvicorn
from fastmcp import Context, FastMCP
from pydantic import BaseModel

shelf = FastMCP("shelf", version="1.0", instructions="Read quietly.", list_page_size=2)
stopped = asyncio.Event()


class Name(BaseModel):
    name: str


class Sum(BaseModel):
    sum: float


@shelf.resource("memo://text", name="text", mime_type="text/plain")
def plain() -> str:
    return "Plain text: 糖尿病"


@shelf.resource("memo://blob", name="blob", mime_type="application/octet-stream")
def blob() -> bytes:
    return b"\x00\x01\xff"


@shelf.resource("memo://count", name="count", mime_type="text/plain")
def number() -> str:
    return "0"


@shelf.resource("book://{author}/{title}", name="book", mime_type="text/plain")
def book(author: str, title: str) -> str:
    return f"{title} by {author}"


@shelf.tool
def echo(text: str) -> str:
    return text


@shelf.tool
def add(a: float, b: float) -> Sum:
    return Sum(sum=a + b)


@shelf.tool(name="slow")
async def take_time(steps: int, ctx: Context, ends: bool = True) -> str:
    try:
        for step in range(1, steps + 1):
            await ctx.report_progress(step, steps, f"step {step}")
        if not ends:
            await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        stopped.set()
        raise
    return "done"


@shelf.tool(name="stopped")
async def was_stopped() -> str:
    await stopped.wait()
    return "stopped"


@shelf.tool
async def ask(ctx: Context) -> str | mcp_types.InputRequiredResult:
    if ctx.request_context.protocol_version != "2026-07-28":
        answer = await ctx.elicit("What is your name?", Name)
        return f"{answer.action}: {answer.data.model_dump()}"
    if not ctx.input_responses:
        schema = Name.model_json_schema()
        form = mcp_types.ElicitRequestFormParams(message="What is your name?", requested_schema=schema)
        question = mcp_types.ElicitRequest(params=form)
        return mcp_types.InputRequiredResult(input_requests={"name": question}, request_state="asked")
    answer = ctx.input_responses["name"]
    return f"{answer.action}: {answer.content}"


@shelf.tool
def fail() -> str:
    raise RuntimeError("The printer is on fire.")


@shelf.tool
async def log(ctx: Context) -> str:
    for level in ("debug", "info", "error"):
        await ctx.log(level, level, "shelf")
    return "logged"


@shelf.prompt
def greet(name: str) -> str:
    return f"Greet {name}."


async def over_http() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
    await uvicorn.Server(uvicorn.Config(shelf.http_app(path="/mcp"), log_level="error")).serve([listening])


if sys.argv[1] == "http":
    asyncio.run(over_http())
else:
    shelf.run(show_banner=False)
