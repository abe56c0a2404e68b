"""Server over HTTP with a route of its own, written for ``mcp`` 1.x: TRANSPORT PORT."""

import sys

import fast
from mcp.server.fastmcp import Context
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

mcp = fast.mcp


@mcp.custom_route("/health", methods=["GET"])
async def health(request: Request) -> Response:
    return JSONResponse({"ok": True})


@mcp.tool()
def header(ctx: Context) -> str:
    return str(ctx.request_context.request.headers.get("accept"))


mcp.settings.port = int(sys.argv[2])
mcp.run(sys.argv[1])
