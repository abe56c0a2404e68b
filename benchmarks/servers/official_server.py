"""The same content served by the official SDK: official_server.py (stdio|http) (small|full) [PORT] [tuned].

`tuned` answers JSON instead of event streams and keeps no sessions; uvloop and httptools are used by uvicorn
when the environment has them.
"""

import asyncio
import sys

import content
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resources import BinaryResource, TextResource

app = MCPServer(content.NAME, version=content.VERSION, log_level="WARNING")


@app.resource(content.TEMPLATE, mime_type="text/plain")
async def book(author: str, title: str) -> str:
    return content.book(author, title)


@app.tool()
async def add(a: int, b: int) -> int:
    return a + b


@app.tool()
async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


@app.tool()
async def touch(ctx: Context) -> str:
    await ctx.notify_resource_updated(content.CHANGING_URI)
    return "touched"


def resource(entry: content.Entry) -> TextResource | BinaryResource:
    """An entry of the common content in the classes of this SDK."""
    known = {
        "uri": entry.uri,
        "name": entry.name,
        "description": entry.description,
        "mime_type": entry.mime_type,
    }
    if isinstance(entry.body, str):
        return TextResource(**known, text=entry.body)
    return BinaryResource(**known, data=entry.body)


if __name__ == "__main__":
    for entry in content.entries(sys.argv[2]):
        app.add_resource(resource(entry))
    if sys.argv[1] == "http":
        tuned = "tuned" in sys.argv
        app.run("streamable-http", host="127.0.0.1", port=int(sys.argv[3]), json_response=tuned, stateless_http=tuned)
    else:
        app.run()
