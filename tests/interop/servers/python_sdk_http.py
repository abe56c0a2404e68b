"""A server of the official Python SDK, 1.x or 2.x, over HTTP (stream, json or sse; it prints its URL) or stdio."""

import socket
import sys
from dataclasses import dataclass

import uvicorn
from pydantic import BaseModel

try:
    from mcp.server.fastmcp import Context, FastMCP
    from mcp.server.streamable_http import EventMessage, EventStore

    TWO = False
except ImportError:
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as FastMCP
    from mcp.server.streamable_http import EventMessage, EventStore

    TWO = True

way = sys.argv[1]


@dataclass
class Memory(EventStore):
    """Remembers every event."""

    events: list

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        index = int(last_event_id)
        stream_id = self.events[index - 1][0]
        for number, (stream, message) in enumerate(self.events[index:], index + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


class Name(BaseModel):
    name: str


options = {"event_store": Memory([]), "retry_interval": 20} if way == "stream" else {}
app = FastMCP("official") if TWO else FastMCP("official", json_response=way == "json", **options)


@app.tool()
def echo(text: str) -> str:
    return text


@app.tool()
async def count(n: int, ctx: Context) -> str:
    for number in range(1, n + 1):
        await ctx.report_progress(number, n)
    return f"counted to {n}"


@app.tool()
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("What is your name?", Name)
    return f"Hello, {answer.data.name}"


@app.tool()
async def pause(ctx: Context) -> str:
    """Close the stream, and end before anybody has come back."""
    if hasattr(ctx, "close_sse_stream"):
        await ctx.close_sse_stream()
    else:
        await ctx.request_context.close_sse_stream()
    await ctx.report_progress(1, 1)
    return "after the pause"


@app.resource("memo://text")
def text() -> str:
    return "text"


if way == "stdio":
    app.run()
    sys.exit()
if way == "sse":
    asgi, path = app.sse_app(), "/sse"
elif TWO:
    asgi, path = app.streamable_http_app(json_response=way == "json", **options), "/mcp"
else:
    asgi, path = app.streamable_http_app(), "/mcp"
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)
uvicorn.Server(uvicorn.Config(asgi, log_level="error")).run(sockets=[listener])
